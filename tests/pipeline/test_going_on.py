"""A pipeline goes on after what goes wrong on the way, after stops, and beside whatever else runs in the process."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import upshot
from tests.pipeline.lake import CLOSURE, Lake, Make, refused, summed
from upshot.pipeline import run
from upshot.pipeline.batch import ranges
from upshot.pipeline.config.config import PipelineConfig, read_config
from upshot.pipeline.metrics import BatchMetrics
from upshot.pipeline.run import Pipeline, Watchers
from upshot.pipeline.session import delta_support, pipeline_session
from upshot.pipeline.sinks.delta_native import NativeDelta
from upshot.pipeline.sources import advanced
from upshot.pipeline.streaming import Stream


def test_a_pipeline_that_was_stopped_can_run_again(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    pipeline = Pipeline(lake.file, spark=lake.spark)
    assert pipeline.run(watchers=Watchers(batch=lambda _: pipeline.stop())).batches == 1
    lake.change(insert=[(2, 3)])
    assert pipeline.run(watchers=Watchers(batch=lambda _: pipeline.stop())).batches == 1
    assert lake.view() == [(1, 2), (1, 3), (2, 3)]


# ---- what goes wrong on the way ---------------------------------------------------------------------------------


def test_what_may_succeed_the_next_time_is_tried_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, stage, failures = make(), ranges.Range.stage, []

    def unlucky(self: ranges.Range, transaction: Any) -> None:
        stage(self, transaction)
        if len(failures) < 2:
            failures.append(upshot.EngineError("a worker was lost", code="lost-worker"))
            failures[-1].retryable = True
            raise failures[-1]

    monkeypatch.setattr(ranges.Range, "stage", unlucky)
    lake.change(insert=[(1, 2)], bad=["nonsense"])
    lake.run()
    assert len(failures) == 2
    assert lake.view() == [(1, 2)]
    assert len(lake.quarantine()) == 1


def test_a_stream_that_spark_ends_is_started_again(make: Make) -> None:
    lake, notes = make(), []

    def end_stream(metrics: BatchMetrics) -> None:
        if metrics.batch == 0:
            lake.change(insert=[(2, 3)])
            # What Spark does when a process of its own does not answer: the query ends, the pipeline does not.
            threading.Timer(0.0, lambda: [q.stop() for q in started[0]._session.streams.active]).start()

    started: list[Stream] = []
    start = Stream.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "start", lambda self, pace: (started.append(self), start(self, pace))[1])
        lake.change(insert=[(1, 2)])
        lake.run(batch=end_stream, note=notes.append)
    assert lake.view() == [(1, 2), (1, 3), (2, 3)]
    assert any("restarting it" in note for note in notes)


@pytest.mark.parametrize("once", [False, True])
def test_a_source_that_does_not_answer_for_a_while_does_not_end_a_run_without_end(
    make: Make, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    lake, notes, looks = make(), [], []

    def looked(*given: Any) -> Any:
        looks.append(given)
        if len(looks) < 3:
            outage = upshot.EngineError("the database does not answer", code="source-unreachable")
            outage.retryable = True
            raise outage
        return advanced(*given)

    monkeypatch.setattr(run, "advanced", looked)
    monkeypatch.setattr(run, "PAUSES", (0.0, 0.5, 5.0))
    lake.change(insert=[(1, 2)])
    pipeline = Pipeline(lake.file, spark=lake.spark)
    watchers = Watchers(batch=lambda _: pipeline.stop(), note=notes.append)
    if once:
        with pytest.raises(upshot.EngineError, match="does not answer"):
            pipeline.run(once=True, watchers=watchers)
    else:
        assert pipeline.run(watchers=watchers).batches == 1
        assert lake.view() == [(1, 2)]
        assert notes == [f"the database does not answer; retrying in {pause} seconds" for pause in ("0", "0.5")]


def test_a_source_that_never_answers_ends_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any) -> Any:
        outage = upshot.EngineError("the database does not answer", code="source-unreachable")
        outage.retryable = True
        raise outage

    monkeypatch.setattr(run, "advanced", unreachable)
    monkeypatch.setattr(run, "PAUSES", (0.0, 0.0))
    with pytest.raises(upshot.EngineError, match="does not answer"):
        Pipeline((lake := make()).file, spark=lake.spark).run()


def test_a_batch_that_was_taken_back_leaves_no_bad_rows_behind(make: Make) -> None:
    program = CLOSURE + ".decl far(x: number)\n.deny acyclic(X) :- path(X, X).\n"
    lake = make(program=program, pipeline=Lake.pipeline + '[source.far]\nformat = "changes"\npath = "far"\n')
    far = lake.root / "far"
    far.mkdir()
    # `far` is looked at for the first time, and moves though it has nothing; the second time it does not move.
    for _ in range(2):
        (far / "1.ndjson").write_text("nonsense\n")
        lake.change(insert=[(1, 1)])
        assert refused(lake).code == "constraint-violated"
        assert list((lake.state / "quarantine").rglob("*.parquet"))
        (far / "1.ndjson").unlink()
        lake.change(delete=[(1, 1)])
        assert lake.run().batches == 1
        assert not list((lake.state / "quarantine").rglob("*.parquet"))


# ---- sinks that went away and came back -------------------------------------------------------------------------


def test_a_sink_that_was_removed_is_written_again(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    lake.run()
    shutil.rmtree(lake.root / "out")
    lake.run()
    assert lake.view() == [(1, 2)]
    assert lake.log() == [(1, 2, 1, 2)]
    assert lake.snapshot() == [(1, 1)]


def test_a_delta_sink_whose_first_write_was_interrupted_is_written_again(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    lake.run()
    places = json.loads((lake.state / "sinks.json").read_text())
    for place in places:
        if "delta" in place:
            places[place] = {"held": -1, "seen": -1}
    (lake.state / "sinks.json").write_text(json.dumps(places))
    for name in ("path", "path_changes"):
        shutil.rmtree(lake.root / "out" / name / "_delta_log")
    Pipeline(lake.file, spark=lake.spark).check()
    lake.run()
    assert lake.view() == [(1, 2)]
    assert lake.log() == [(1, 2, 1, 2)]


def test_a_removed_sink_that_is_interrupted_while_it_is_written_again_goes_on(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    lake.run()
    shutil.rmtree(lake.root / "out" / "path")

    def dies(self: NativeDelta, path: str, *_: Any) -> None:
        Path(path).mkdir()
        (Path(path) / "part-00000.parquet").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NativeDelta, "create", dies)
        with pytest.raises(KeyboardInterrupt):
            lake.run()
    lake.run()
    assert lake.view() == [(1, 2)]


def test_a_sink_that_was_left_out_goes_on_where_it_was(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2)])
    lake.run()
    whole = lake.pipeline
    lake.pipeline = whole.partition("[sink.path]")[0] + "[sink.away]" + whole.partition("[sink.away]")[2]
    lake.write()
    lake.change(insert=[(2, 3)])
    lake.run()
    lake.pipeline = whole
    lake.write()
    lake.run()
    assert lake.view() == summed(lake.log()) == [(1, 2), (1, 3), (2, 3)]
    assert {version for *_, version in lake.log()} == {2, 3}


def test_a_sink_whose_view_was_dropped_meanwhile_is_not_guessed_at(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2), (2, 3)])
    lake.run()
    whole = lake.pipeline
    lake.pipeline, lake.program = whole.partition("[sink.away]")[0], CLOSURE.partition(".decl away")[0]
    lake.write()
    lake.change(delete=[(1, 2)])
    lake.run()
    lake.pipeline, lake.program = whole, CLOSURE
    lake.write()
    error = refused(lake)
    assert error.code == "state-mismatch"
    assert "remove the sink" in error.help
    shutil.rmtree(lake.root / "out" / "away_changes")
    lake.run()
    assert lake.snapshot() == summed(lake.parquet_log()) == [(2, 1)]


# ---- beside the sessions of others ------------------------------------------------------------------------------


def test_a_session_that_runs_already_keeps_its_settings_whatever_thread_asks(spark: Any) -> None:
    default = SparkSession._instantiatedSession
    assert default is not None
    default.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    found: list[Any] = []
    config = PipelineConfig(Path("p"), "other", Path("p.dl"), Path("state"), {}, {})
    asking = threading.Thread(target=lambda: found.append(pipeline_session(config)))
    asking.start()
    asking.join(60)
    try:
        assert found[0]._jsparkSession != default._jsparkSession
        assert found[0].conf.get("spark.sql.session.timeZone") == "UTC"
        assert default.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        default.conf.set("spark.sql.session.timeZone", "UTC")


def test_settings_of_our_own_reach_the_session_of_the_pipeline(spark: Any, tmp_path: Path) -> None:
    beside = spark.newSession()
    beside.conf.set("upshot.partitions", "7")
    beside.conf.set("upshot.scratch", "elsewhere")
    named = {"upshot.scratch": str(tmp_path)}
    config = PipelineConfig(Path("p"), "settings", Path("p.dl"), Path("state"), {}, {}, spark=named)
    session = pipeline_session(config, beside)
    assert session.conf.get("upshot.partitions") == "7"
    assert session.conf.get("upshot.scratch") == str(tmp_path)


@pytest.mark.parametrize(("first", "second"), [("spark", "deltalake"), ("deltalake", "spark")])
def test_a_pipeline_may_change_who_writes_its_delta_tables(make: Make, first: str, second: str) -> None:
    lake = make(pipeline=Lake.pipeline.replace('"deltalake"', '"auto"').partition("[sink.away]")[0])
    if delta_support(lake.spark, read_config(lake.file)) != "spark":
        pytest.skip("the Delta package could not be fetched from Maven Central")
    lake.pipeline = lake.pipeline.replace('"auto"', f'"{first}"')
    lake.write()
    lake.change(insert=[(1, 2), (2, 3)])
    lake.run()
    lake.change(delete=[(2, 3)], insert=[(2, 4)])
    lake.run()
    lake.pipeline = lake.pipeline.replace(f'delta = "{first}"', f'delta = "{second}"')
    lake.write()
    lake.change(delete=[(1, 2)])
    lake.run()
    assert lake.view() == [(2, 4)]
    assert summed(lake.log()) == lake.view()
