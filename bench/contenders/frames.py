"""A view that joins three tables, loaded from DataFrames: by plain Spark and by Upshot on either engine, in one
session."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import upshot
from bench import spark_session
from bench.contenders.large import watched
from bench.process_tree import processor_seconds
from bench.tasks import Answer, Task

JOIN = """
.decl orders(id: number, customer: number)
.decl customer(id: number, nation: number)
.decl nation(id: number, region: number)
.decl placed(id: number, region: number)
placed(O, R) :- orders(O, C), customer(C, N), nation(N, R).
"""
WARM = 10_000
"""Rows of the loads before the ones that are measured."""


def run(task: Task) -> Answer:
    """`size` is that of the view; `times` has the seconds of each load, `figures` its processor time: that of Python,
    Java and the workers together."""
    cannot = spark_session.missing()
    if cannot is not None:
        return cannot
    with tempfile.TemporaryDirectory(prefix="upshot-bench-", dir=task.options.get("folder")) as folder:
        settings = {"spark.local.dir": f"{folder}/local", "upshot.location": f"{folder}/lake"}
        spark = spark_session.session(**settings, **{"spark.driver.memory": "4g"})
        for rows in (WARM, task.options["rows"]):
            answer = Answer(size=rows)
            frames = _written(spark, Path(folder, str(rows)), rows)
            with _measured(answer, "plain", Path(folder)):
                _joined(frames).write.parquet(f"{folder}/{rows}/placed")
            for engine in ("auto", "spark"):
                _loaded(answer, spark, frames, engine, Path(folder))
        spark.stop()
    answer.seconds = answer.times["auto"][0]
    return answer


def _written(spark: Any, folder: Path, rows: int) -> Mapping[str, Any]:
    """The tables, read from Parquet files: ten orders a customer, a hundred customers a nation."""
    from pyspark.sql import functions as F  # noqa: PLC0415  (optional package)

    customers, nations = rows // 10, rows // 1000
    tables = {
        "orders": spark.range(rows).select("id", (F.col("id") * 7919 % customers).alias("customer")),
        "customer": spark.range(customers).select("id", (F.col("id") * 31 % nations).alias("nation")),
        "nation": spark.range(nations).select("id", (F.col("id") % 50).alias("region")),
    }
    for name, table in tables.items():
        table.write.parquet(str(folder / name))
    return {name: spark.read.parquet(str(folder / name)) for name in tables}


def _joined(frames: Mapping[str, Any]) -> Any:
    """The rows of the view, by Spark alone."""
    customer = frames["customer"].withColumnRenamed("id", "customer")
    nation = frames["nation"].withColumnRenamed("id", "nation")
    return frames["orders"].join(customer, "customer").join(nation, "nation").select("id", "region")


def _loaded(answer: Answer, spark: Any, frames: Mapping[str, Any], engine: str, folder: Path) -> None:
    with upshot.connect(spark=spark, engine=engine) as db:
        db.define(JOIN)
        with _measured(answer, engine, folder), db.transaction() as tx:
            for name, frame in frames.items():
                tx.insert(name, frame)
        if len(tx.changes["placed"].inserted) != answer.size:
            raise AssertionError(f"{len(tx.changes['placed'].inserted):,} rows, exactly {answer.size:,} expected")
        answer.notes[engine] = db.placement.engine


@contextmanager
def _measured(answer: Answer, kind: str, folder: Path) -> Iterator[None]:
    with watched(folder) as usage:
        spent, began = processor_seconds(), time.perf_counter()
        yield
        answer.times[kind] = [time.perf_counter() - began]
        answer.figures[f"{kind} processor"] = processor_seconds() - spent
    answer.figures[f"{kind} memory"] = float(usage.memory)
