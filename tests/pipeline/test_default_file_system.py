"""Local paths mean this machine, whatever file system Spark takes by default: HDFS on EMR and Dataproc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import upshot
from tests.pipeline.lake import Lake, summed
from upshot.pipeline.batch import quarantine, ranges
from upshot.pipeline.sinks import tables

PROGRAM = """\
.decl edge(x: number, y: number)
.decl named(x: number, name: symbol)
.decl weight(x: number, w: number)
.decl priced(x: number, price: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.decl away(name: symbol, w: number, price: number)
away(N, W, P) :- path(_, X), named(X, N), weight(X, W), priced(X, P).
"""
PIPELINE = """\
[pipeline]
name = "closure"
program = "closure.dl"
engine = "{engine}"
state = "state"
delta = "{delta}"

[source.edge]
format = "changes"
path = "edges"

[source.named]
format = "parquet"
path = "named"

[source.weight]
format = "csv"
path = "weight"

[source.priced]
format = "delta"
path = "priced"

[sink.path]
format = "delta"
path = "out/path"
changes = "out/path_changes"

[sink.away]
format = "parquet"
path = "out/away"
changes = "out/away_changes"
"""
UNREACHABLE = {"fs.defaultFS": "hdfs://127.0.0.1:1", "ipc.client.connect.max.retries": "0"}


@pytest.fixture
def elsewhere(spark: Any) -> Iterator[Any]:
    """The session, whose Spark takes a path without a scheme for one of a file system that does not answer."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = {name: settings.get(name) for name in UNREACHABLE}
    for name, value in UNREACHABLE.items():
        settings.set(name, value)
    try:
        yield spark
    finally:
        for name, value in before.items():
            settings.unset(name) if value is None else settings.set(name, value)


def test_a_pipeline_reads_and_writes_local_paths_where_the_default_file_system_is_another(
    elsewhere: Any, support: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import write_deltalake  # noqa: PLC0415 - an optional package

    # Two rows are many: they are read, set aside and published by Spark, not by the driver.
    for module in (quarantine, ranges, tables):
        monkeypatch.setattr(module, "FEW", 2)
    pipeline = PIPELINE.format(delta=support, engine="spark" if support == "spark" else "local")
    lake = Lake(tmp_path / "a b", program=PROGRAM, pipeline=pipeline, spark=elsewhere)
    for name in ("named", "weight"):
        (lake.root / name).mkdir(parents=True)
    pq.write_table(pa.table({"x": [1, 2, 3, 4], "name": list("abcd")}), lake.root / "named" / "1.parquet")
    pyarrow.csv.write_csv(pa.table({"x": [1, 2, 3, 4], "w": [10, 20, 30, 40]}), lake.root / "weight" / "1.csv")
    write_deltalake(lake.root / "priced", pa.table({"x": [1, 2, 3, 4], "price": [7, 7, 8, 9]}))
    lake.change(insert=[(1, 2), (2, 3), (3, 4)], bad=["1", "2", "3"])
    lake.run()
    lake.change(insert=[(4, 1)], delete=[(1, 2)])
    lake.run()
    assert lake.view() == summed(lake.log()) == [(2, 1), (2, 3), (2, 4), (3, 1), (3, 4), (4, 1)]
    assert lake.snapshot() == summed(lake.parquet_log()) == [("a", 10, 7), ("c", 30, 8), ("d", 40, 9)]
    assert [raw for raw, *_ in lake.quarantine()] == ["1", "2", "3"]


def test_a_database_reads_and_writes_local_paths_where_the_default_file_system_is_another(
    elsewhere: Any, tmp_path: Path
) -> None:
    rows = [(x, x + 1) for x in range(6_000)]
    file = tmp_path / "a b [1]" / "edge.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table({"x": [x for x, _ in rows], "y": [y for _, y in rows]}), file)
    with upshot.connect(tmp_path / "store", spark=elsewhere, engine="spark") as db:
        db.define(".decl edge(x: number, y: number)\n.decl back(y: number, x: number)\nback(Y, X) :- edge(X, Y).")
        with db.transaction() as tx:
            tx.insert("edge", file)
        assert db.rows("back").to_spark().count() == len(rows)
        db.rows("back").to_parquet(tmp_path / "back")
    with upshot.connect(tmp_path / "store", spark=elsewhere, engine="spark") as db:
        assert sorted(db.rows("edge")) == rows
    assert pq.read_table(tmp_path / "back").num_rows == len(rows)
