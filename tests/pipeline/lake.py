"""A small pipeline in a folder of its own, and everything it leaves behind, as plain data that can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import upshot
from upshot.pipeline.run import Pipeline, Summary, Watchers

CLOSURE = """\
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.decl away(x: number, n: number)
away(X, N) :- edge(X, _), N = count : { path(X, _) }.
"""

PIPELINE = """\
[pipeline]
name = "closure"
program = "closure.dl"
engine = "local"
state = "state"
delta = "deltalake"
trigger = 0.1

[source.edge]
format = "changes"
path = "edges"

[sink.path]
format = "delta"
path = "out/path"
changes = "out/path_changes"

[sink.away]
format = "parquet"
path = "out/away"
changes = "out/away_changes"
"""


@dataclass
class Lake:
    """`root` holds the program, the pipeline file, the change files and all that the pipeline makes of them."""

    root: Path
    program: str = CLOSURE
    pipeline: str = PIPELINE
    spark: Any = None
    count: int = field(default=0)

    def __post_init__(self) -> None:
        (self.root / "edges").mkdir(parents=True, exist_ok=True)
        self.write()

    def write(self) -> None:
        (self.root / "closure.dl").write_text(self.program, encoding="utf-8")
        self.file.write_text(self.pipeline, encoding="utf-8")

    @property
    def file(self) -> Path:
        return self.root / "closure.toml"

    @property
    def state(self) -> Path:
        return self.root / "state"

    # ---- sources ----------------------------------------------------------------------------------

    def change(self, insert: Iterable[Any] = (), delete: Iterable[Any] = (), bad: Iterable[str] = ()) -> None:
        """One more change file; every other one is Parquet."""
        self.count += 1
        rows = [(*edge, 1) for edge in insert] + [(*edge, -1) for edge in delete]
        bad = list(bad)
        if self.count % 2 or bad:
            lines = [json.dumps({"x": x, "y": y, "_change": sign}) for x, y, sign in rows] + bad
            (self.root / "edges" / f"{self.count:03}.ndjson").write_text("\n".join(lines) + "\n")
        else:
            columns = {n: [row[i] for row in rows] for i, n in enumerate(("x", "y", "_change"))}
            table = pa.table(columns, schema=pa.schema([(name, pa.int64()) for name in columns]))
            pq.write_table(table, self.root / "edges" / f"{self.count:03}.parquet")

    # ---- runs ---------------------------------------------------------------------------------------

    def run(self, **watched: Any) -> Summary:
        return Pipeline(self.file, spark=self.spark).run(once=True, watchers=Watchers(**watched))

    # ---- what is there -------------------------------------------------------------------------------

    def store(self) -> Any:
        """Every version of the store with its changes, and the rows at the end; exact by recomputation."""
        with upshot.connect(self.state / "store", engine="local") as database:
            database.verify()
            commits = [
                (past.version, {n: (c.inserted.sorted(), c.deleted.sorted()) for n, c in past.changes.items()})
                for past in database.history(0)
            ]
            return commits, {name: database.rows(name).sorted() for name in database.schemas}

    def view(self, name: str = "path") -> list[tuple[Any, ...]]:
        return _sorted(_delta(self.root / "out" / name))

    def log(self, name: str = "path") -> list[tuple[Any, ...]]:
        return _sorted(_delta(self.root / "out" / f"{name}_changes"))

    def snapshot(self, name: str = "away") -> list[tuple[Any, ...]]:
        folder = self.root / "out" / name
        pointer = json.loads((folder / "current.json").read_text())
        return _sorted(pq.read_table(folder / pointer["folder"]))

    def parquet_log(self, name: str = "away") -> list[tuple[Any, ...]]:
        folder = self.root / "out" / f"{name}_changes"
        return _sorted(pq.read_table(folder).drop(["upshot_version"]))

    def quarantine(self) -> list[tuple[Any, ...]]:
        folder = self.state / "quarantine" / "edge"
        if not folder.exists():
            return []
        return _sorted(ds.dataset(folder, partitioning="hive").to_table(columns=["raw", "reason", "place", "batch"]))

    def metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.state / "metrics.jsonl").read_text().splitlines()]

    def everything(self) -> dict[str, Any]:
        """All that must be the same whatever happened on the way."""
        return {
            "store": self.store(),
            "path": self.view(),
            "path changes": self.log(),
            "away": self.snapshot(),
            "away changes": self.parquet_log(),
            "quarantine": self.quarantine(),
        }


def _delta(path: Path) -> pa.Table:
    from deltalake import DeltaTable  # noqa: PLC0415 - an optional package

    return DeltaTable(path).to_pyarrow_table()


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def summed(log: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows that a change log adds up to; each must have come exactly once more than it went."""
    counts: dict[tuple[Any, ...], int] = {}
    for *row, sign, _ in log:
        counts[tuple(row)] = counts.get(tuple(row), 0) + sign
    assert set(counts.values()) <= {0, 1}
    return sorted((row for row, count in counts.items() if count), key=repr)


Make = Callable[..., Lake]


def refused(lake: Lake) -> upshot.Error:
    with pytest.raises(upshot.Error) as found:
        lake.run()
    return found.value
