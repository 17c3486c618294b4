"""Upshot's pipeline: a folder of change files per base relation; each micro-batch publishes views."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from bench import spark_session
from bench.parts import PROGRAM, VIEWS, Parts
from bench.process_tree import processor_seconds
from bench.spark_loops import recomputed_parts
from bench.tasks import Answer, Task

CONFIG = """
[pipeline]
name = "parts"
program = "parts.dl"
engine = "{engine}"
state = "state"
trigger = 0.05

[source.quantity]
format = "changes"
path = "lake/quantity"

[source.threshold]
format = "changes"
path = "lake/threshold"

[source.requires]
format = "changes"
path = "lake/requires"
"""
SINKS = {
    "parquet": """
[sink.low]
format = "parquet"
changes = "lake/low_changes"

[sink.at_risk]
format = "parquet"
path = "lake/at_risk"
changes = "lake/at_risk_changes"
""",
    "delta": "".join(
        f"""
[sink.{view}]
format = "delta"
path = "lake/{view}"
changes = "lake/{view}_changes"
"""
        for view in VIEWS
    ),
}
"""The sinks: two views as Parquet, or all three as Delta tables, each with a table of its changes."""


def run(task: Task) -> Answer:
    cannot = spark_session.missing()
    if cannot is not None:
        return cannot
    spark = spark_session.session()
    with tempfile.TemporaryDirectory(prefix="upshot-bench-") as folder:
        feed = Feed(Path(folder), Parts(task.options["rows"], task.options["nodes"]), task.options)
        answer = feed.followed(spark)
        if task.options.get("recompute"):
            answer.figures |= _recomputed(spark, Path(folder), feed.parts)
    return answer


class Feed:
    """Writes the next changes when the previous ones are published, and records the time of each batch."""

    def __init__(self, folder: Path, parts: Parts, options: Mapping[str, Any]) -> None:
        self.folder, self.parts = folder, parts
        self._left, self._changes = options["batches"], options["changes"]
        self._sizes = dict.fromkeys(VIEWS, 0)
        self._number, self._dropped, self._processor = 0, 0.0, 0.0
        self.answer = Answer(times={"latency": [], "batch": []})
        self._jobs: list[int] = []
        (folder / "parts.dl").write_text(PROGRAM)
        (folder / "pipeline.toml").write_text(CONFIG.format(engine=options["engine"]) + SINKS[options["sinks"]])
        self._drop(parts.relations(), {})

    def followed(self, spark: Any) -> Answer:
        from upshot.pipeline.run import Pipeline, Watchers  # noqa: PLC0415  (needs pyspark, which is optional)

        pipeline = Pipeline(self.folder / "pipeline.toml", spark=spark)

        def after_batch(metrics: Any) -> None:
            self._note(metrics)
            if self._left:
                self._left -= 1
                batch = self.parts.batch(self._changes)
                self._drop(batch.inserted, batch.deleted)
            else:
                pipeline.stop()

        self._dropped = time.perf_counter()
        pipeline.run(watchers=Watchers(batch=after_batch))
        self.answer.size = sum(self._sizes.values())
        self.answer.figures["jobs"] = float(np.median(self._jobs))
        return self.answer

    def _note(self, metrics: Any) -> None:
        """Check the size of every view after every batch."""
        taken, first = time.perf_counter() - self._dropped, self._number == 1
        for view, changed in metrics.views.items():
            self._sizes[view] += changed.inserted - changed.deleted
        if self._sizes != self.parts.sizes():
            raise AssertionError(f"after batch {metrics.batch}: {self._sizes}, exactly {self.parts.sizes()} expected")
        if first:
            self.answer.seconds = taken
            return
        self.answer.times["latency"].append(taken)
        self.answer.times.setdefault("processor", []).append(processor_seconds() - self._processor)
        self.answer.times["batch"].append(sum(metrics.seconds.values()))
        for step, spent in metrics.seconds.items():
            self.answer.times.setdefault(step, []).append(spent)
        self._jobs.append(metrics.jobs)
        self.answer.notes["engine"] = metrics.engine

    def _drop(self, inserted: Mapping[str, Any], deleted: Mapping[str, Any]) -> None:
        """One file per relation. A file gets its name when it is complete, so that listed files can be read."""
        for name in {**inserted, **deleted}:
            signed = [_signed(part, sign) for part, sign in ((deleted.get(name), -1), (inserted.get(name), 1)) if part]
            target = self.folder / "lake" / name
            target.mkdir(parents=True, exist_ok=True)
            draft = target / f".{self._number:05}.draft"
            pyarrow.parquet.write_table(pyarrow.concat_tables(signed), draft)
            draft.rename(target / f"{self._number:05}.parquet")
        self._number += 1
        self._processor, self._dropped = processor_seconds(), time.perf_counter()


def _signed(columns: Mapping[str, Any], sign: int) -> Any:
    length = len(next(iter(columns.values())))
    return pyarrow.table({**columns, "_change": np.full(length, sign, dtype=np.int8)})


def _recomputed(spark: Any, folder: Path, parts: Parts) -> dict[str, float]:
    """The seconds to compute the views from the current base tables without Upshot, in the same session."""
    frames = {}
    for name, columns in parts.relations().items():
        file = folder / f"{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
        frames[name] = spark.read.parquet(str(file))
    before = processor_seconds()
    seconds, sizes = recomputed_parts(frames, cap=600)
    spent = processor_seconds() - before
    if sizes != parts.sizes():
        raise AssertionError(f"recomputed: {sizes}, exactly {parts.sizes()} expected")
    return {"recompute": seconds, "recompute processor": spent}
