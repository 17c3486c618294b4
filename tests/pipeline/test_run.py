"""A pipeline keeps its views and their change logs current, says what it did, and refuses what it cannot do."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import upshot
from tests.pipeline.lake import CLOSURE, Lake, Make, refused, summed
from upshot.pipeline.batch import ranges
from upshot.pipeline.batch.ranges import read_range
from upshot.pipeline.config.config import read_config
from upshot.pipeline.lock import locked
from upshot.pipeline.metrics import BatchMetrics
from upshot.pipeline.run import Pipeline, Watchers
from upshot.pipeline.sources.reading.fitting import SourceBatch
from upshot.spark.net_effect import CLASS


def closure(edges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    paths = set(edges)
    while more := {(x, z) for x, y in paths for v, z in edges if y == v} - paths:
        paths |= more
    return sorted(paths)


# ---- what it does ---------------------------------------------------------------------------------------------


def test_views_and_logs_follow_the_files_batch_by_batch(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2), (2, 3)])
    told: list[BatchMetrics] = []
    assert lake.run(batch=told.append).batches == 1
    assert lake.view() == closure({(1, 2), (2, 3)})
    lake.change(insert=[(3, 4)], delete=[(1, 2)], bad=['{"x": 1, "y": null, "_change": 1}', "nonsense"])
    lake.run(batch=told.append)
    assert lake.view() == closure({(2, 3), (3, 4)})
    assert [(row, sign) for *row, sign, version in lake.log() if version == 3] == [
        ([1, 2], -1),
        ([1, 3], -1),
        ([2, 4], 1),
        ([3, 4], 1),
    ]
    assert summed(lake.log()) == lake.view()
    assert lake.snapshot() == summed(lake.parquet_log()) == [(2, 2), (3, 1)]
    assert [(raw, batch) for raw, _, _, batch in lake.quarantine()] == [
        ("nonsense", 1),
        ('{"x": 1, "y": null, "_change": 1}', 1),
    ]
    last = told[-1]
    assert (last.batch, last.version, last.rows, last.bad, last.engine) == (1, 3, 2, 2, "local")
    assert last.views["path"].inserted == 2
    assert last.views["path"].deleted == 2
    assert last.jobs > 0
    assert set(last.seconds) == {"read", "quarantine", "stage", "record", "publish", "finish"}
    assert lake.metrics() == [json.loads(metrics.as_json()) for metrics in told]
    # Nothing new: nothing is done, not even a version.
    assert lake.run().batches == 0
    assert len(lake.metrics()) == 2


def test_a_running_pipeline_follows_its_sources_until_it_is_stopped(make: Make) -> None:
    lake = make()
    pipeline = Pipeline(lake.file, spark=lake.spark)
    seen: list[int] = []
    running = threading.Thread(
        target=pipeline.run, kwargs={"watchers": Watchers(batch=lambda metrics: seen.append(metrics.batch))}
    )
    running.start()
    try:
        for number in range(2):
            lake.change(insert=[(number, number + 1)])
            for _ in range(600):
                if len(seen) > number:
                    break
                time.sleep(0.1)
        with pytest.raises(upshot.UsageError) as second:
            lake.run()
    finally:
        pipeline.stop()
        running.join(120)
    assert seen == [0, 1]
    assert second.value.code == "pipeline-running"
    assert lake.view() == closure({(0, 1), (1, 2)})
    assert lake.run().batches == 0, "what was stopped cleanly has nothing to be handed over again"


def test_one_batch_of_several_sources_is_one_transaction(make: Make) -> None:
    program = CLOSURE + ".decl far(x: number)\n.deny unknown(X) :- edge(X, _), !far(X).\n"
    lake = make(program=program, pipeline=Lake.pipeline + '[source.far]\nformat = "changes"\npath = "far"\n')
    (lake.root / "far").mkdir()
    (lake.root / "far" / "1.ndjson").write_text('{"x": 1, "_change": 1}\n')
    lake.change(insert=[(1, 2)])
    assert lake.run().batches == 1


def test_a_key_without_its_row_removes_whatever_row_has_it(spark: Any) -> None:
    with upshot.connect() as database:
        database.define(".decl stock(item: symbol, day: date, n: number, note: symbol?) key(item)\n")
        schema, day = database.schemas["stock"], dt.date(2026, 1, 31)
        with database.transaction() as tx:
            tx.insert("stock", [("a", day, 1, None), ("b", day, 2, "x"), ("", day, 0, None)])
        net = spark.createDataFrame(
            [("a", None, None, None, "remove"), ("none", None, None, None, "remove"), ("b", day, 9, None, "upsert")],
            f"c0 string, c1 date, c2 long, c3 string, {CLASS} string",
        )
        found = read_range(SourceBatch(schema, net=net))
        with database.transaction() as tx:
            found.stage(tx)
        found.release()
        assert found.rows == 3
        assert database.rows("stock").sorted() == [("", day, 0, None), ("b", day, 9, None)]


def test_many_rows_stay_with_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "FEW", 2)
    with upshot.connect(spark=spark, engine="local") as database:
        database.define(".decl edge(x: number, y: number)\n")
        schema = database.schemas["edge"]
        rows = [(n, n, "insert") for n in range(4)] + [(9, 9, "delete")]
        many = SourceBatch(schema, net=spark.createDataFrame(rows, f"c0 long, c1 long, {CLASS} string"))
        whole = SourceBatch(schema, replaced=spark.createDataFrame([(n, 0) for n in range(3)], "x long, y long"))
        for batch, count, expected in ((many, 5, {(n, n) for n in range(4)}), (whole, 3, {(n, 0) for n in range(3)})):
            found = read_range(batch)
            assert found.rows == count
            assert not any(isinstance(part, pa.Table) for part in found.parts.values())
            with database.transaction() as tx:
                found.stage(tx)
            assert database.rows("edge") == expected


@pytest.mark.slow
def test_on_the_spark_engine_everything_is_the_same(make: Make) -> None:
    lake = make(pipeline=Lake.pipeline.replace('"local"', '"spark"'))
    lake.change(insert=[(1, 2), (2, 3), (3, 1)])
    lake.run()
    lake.change(insert=[(3, 4)], delete=[(2, 3)])
    told: list[BatchMetrics] = []
    lake.run(batch=told.append)
    assert told[0].engine == "spark"
    edges = {(1, 2), (3, 1), (3, 4)}
    assert lake.view() == summed(lake.log()) == closure(edges)
    assert lake.snapshot() == summed(lake.parquet_log()) == [(1, 1), (3, 3)]


# ---- what it refuses ------------------------------------------------------------------------------------------


def test_a_violated_constraint_applies_nothing_and_can_be_put_right(make: Make) -> None:
    lake = make(program=CLOSURE + ".deny acyclic(X) :- path(X, X).\n")
    lake.change(insert=[(1, 2)])
    lake.run()
    before = lake.everything()
    lake.change(insert=[(2, 1), (5, 6)])
    error = refused(lake)
    assert isinstance(error, upshot.ConstraintError)
    assert error.violations == {"acyclic": [(1,), (2,)]}
    assert lake.everything() == before
    lake.change(delete=[(2, 1)])
    lake.run()
    assert lake.view() == [(1, 2), (5, 6)]


def test_bad_rows_stop_the_run_where_the_source_says_so(make: Make) -> None:
    lake = make(pipeline=Lake.pipeline.replace('"edges"', '"edges"\non_bad_row = "fail"'))
    lake.change(insert=[(1, 2)], bad=['{"x": 1, "y": "two", "_change": 1}'])
    error = refused(lake)
    assert (type(error), error.code) == (upshot.DataError, "bad-rows")
    assert "001.ndjson:2" in error.message
    assert lake.view() == []
    assert lake.quarantine() == []
    # What was not consumed may be corrected where it is.
    (lake.root / "edges" / "001.ndjson").write_text('{"x": 1, "y": 2, "_change": 1}\n')
    lake.run()
    assert lake.view() == [(1, 2)]
    (lake.root / "edges" / "001.ndjson").write_text('{"x": 3, "y": 4, "_change": 1}\n')
    assert refused(lake).code == "source-rewritten"


def test_a_torn_state_is_told_apart_from_a_new_one(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    lake.run()
    for part, other in (("stream", "checkpoint"), ("store", "store")):
        kept = lake.root / "kept"
        shutil.move(lake.state / part, kept)
        error = refused(lake)
        assert error.code == "state-mismatch"
        assert other in error.message
        shutil.rmtree(lake.state / part, ignore_errors=True)
        shutil.move(kept, lake.state / part)
    shutil.rmtree(lake.state)
    error = refused(lake)
    assert error.code == "state-mismatch"
    assert "remove the sink too" in error.help


@pytest.mark.parametrize("place", ["state", "state/deeper"])
def test_a_state_that_is_a_file_is_refused(make: Make, place: str) -> None:
    lake = make(pipeline=Lake.pipeline.replace('state = "state"', f'state = "{place}"'))
    (lake.root / "state").write_text("a file")
    assert refused(lake).code == "unusable-state"
    with pytest.raises(upshot.UsageError) as found:
        Pipeline(lake.file, spark=lake.spark).check()
    assert found.value.code == "unusable-state"


def test_a_locked_state_is_refused_with_its_holder(make: Make) -> None:
    lake = make()
    with locked(lake.state):
        error = refused(lake)
    assert error.code == "pipeline-running"
    assert "process " in error.message


def test_a_spark_connect_session_is_refused(make: Make) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(upshot.UsageError) as found:
        Pipeline(make().file, spark=remote)
    assert found.value.code == "pipeline-needs-classic"


# ---- other programs -------------------------------------------------------------------------------------------


def test_a_changed_program_is_picked_up_and_the_rest_is_untouched(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2), (2, 3)])
    lake.run()
    untouched = lake.snapshot(), lake.parquet_log()
    # Only steps over two edges from now on; `away` loses its rules, `from_one` is new.
    lake.program = """\
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Z) :- edge(X, Y), edge(Y, Z).
.decl from_one(y: number)
from_one(Y) :- path(1, Y).
"""
    lake.pipeline = lake.pipeline.replace("[sink.away]", "[sink.from_one]").replace("out/away", "out/from_one")
    lake.write()
    notes: list[str] = []
    assert lake.run(note=notes.append).batches == 0
    assert notes == ["`from_one` is redefined: +1 -0, version 3", "`path` is redefined: +0 -2, version 3"]
    assert lake.view() == [(1, 3)]
    assert summed(lake.log()) == lake.view()
    assert lake.snapshot("from_one") == [(3,)]
    assert (lake.snapshot(), lake.parquet_log()) == untouched
    with upshot.connect(lake.state / "store") as database:
        assert sorted(database.schemas) == ["edge", "from_one", "path"]


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("edge(x: number,", "edge(x: symbol,", "edge(x: number, y: number) becomes edge(x: symbol, y: number)"),
        ("path(x: number, y: number)\n", "path(a: number, b: number)\n", "`a` is new; `b` is new; `x` is missing"),
    ],
)
def test_an_incompatible_schema_is_refused_with_the_difference(make: Make, old: str, new: str, difference: str) -> None:
    lake = make(
        program=".decl edge(x: number, y: number)\n.decl path(x: number, y: number)\npath(X, Y) :- edge(X, Y).\n"
    )
    lake.pipeline = lake.pipeline.partition("[sink.away]")[0]
    lake.write()
    lake.change(insert=[(1, 2)])
    lake.run()
    before = lake.store(), lake.view(), lake.log()
    lake.program = lake.program.replace(old, new)
    if "symbol" in new:
        lake.program = lake.program.replace("path(x: number", "path(x: symbol")
    lake.write()
    error = refused(lake)
    assert error.code == "schema-change"
    assert difference in error.message or "`x` was number and is now symbol" in error.message
    assert (lake.store(), lake.view(), lake.log()) == before


# ---- dry runs -------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_done_and_makes_nothing(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    before = sorted(lake.root.rglob("*"))
    found = Pipeline(lake.file, spark=lake.spark).check()
    assert sorted(lake.root.rglob("*")) == before
    assert [(view.name, view.recursive) for view in found.views] == [("path", True), ("away", False)]
    assert [sink.holds for sink in found.sinks] == [None] * 4
    assert "view path: recursive, strategy maintenance" in str(found)
    json.dumps(found.as_dict())
    lake.run()
    assert [sink.holds for sink in Pipeline(lake.file, spark=lake.spark).check().sinks] == [2] * 4


def test_a_dry_run_finds_what_a_run_would_refuse(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    lake.run()
    config = read_config(lake.file)
    lake.program = CLOSURE.replace("x: number", "x: symbol").replace("y: number", "y: symbol")
    lake.write()
    with pytest.raises(upshot.DataError) as found:
        Pipeline(config, spark=lake.spark).check()
    assert found.value.code == "schema-change"
    shutil.rmtree(lake.root / "edges")
    with pytest.raises(upshot.Error):
        Pipeline(replace(config, state=lake.root / "other", sinks={}), spark=lake.spark).check()


def test_a_dry_run_tells_all_that_is_wrong_with_sources_and_sinks(make: Make) -> None:
    lake = make()
    shutil.rmtree(lake.root / "edges")
    (lake.root / "out" / "away").mkdir(parents=True)
    (lake.root / "out" / "away" / "notes.txt").write_text("not ours")
    with pytest.raises(upshot.DataError) as found:
        Pipeline(lake.file, spark=lake.spark).check()
    assert found.value.code == "several-mistakes"
    assert found.value.message.startswith("2 errors\nerror[source-missing]:")
    assert "\nerror[sink-occupied]:" in found.value.message
