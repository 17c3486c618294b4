"""What is found out before Spark starts, and where in the pipeline file it says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import upshot
from tests.pipeline.lake import CLOSURE, PIPELINE, Lake
from upshot.pipeline import run
from upshot.pipeline.run import Pipeline


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "pipeline_session", lambda *_: pytest.fail("Spark was asked for"))


def refused(lake: Lake) -> upshot.Error:
    with pytest.raises(upshot.Error) as found:
        Pipeline(lake.file).run(once=True)
    return found.value


@pytest.mark.usefixtures("without_spark")
def test_a_first_run_misses_a_source_before_spark_starts_and_says_which_line_asks_for_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    shutil.rmtree(lake.root / "edges")
    error = refused(lake)
    assert error.code == "source-missing"
    assert "closure.toml:9:1" in str(error)
    assert "[source.edge]" in str(error)
    assert not (lake.state / "store").exists()


@pytest.mark.usefixtures("without_spark")
def test_a_first_run_misses_a_password_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGE_PASSWORD", raising=False)
    keys = 'format = "jdbc"\nurl = "jdbc:postgresql://127.0.0.1/x"\ntable = "edge"\npassword_env = "EDGE_PASSWORD"'
    lake = Lake(tmp_path, pipeline=PIPELINE.replace('format = "changes"\npath = "edges"', keys))
    error = refused(lake)
    assert error.code == "missing-secret"
    assert "closure.toml:9:1" in str(error)


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_two_sinks_with_one_path_are_refused_before_spark_starts(tmp_path: Path, format: str) -> None:
    lake = Lake(tmp_path, pipeline=f'{PIPELINE}\n[sink.edge]\nformat = "{format}"\nchanges = "out/path"\n')
    error = refused(lake)
    assert error.code == "sink-path"
    assert "closure.toml:23:1" in str(error)


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("dry", [False, True])
def test_other_columns_than_the_store_has_are_refused_before_spark_starts(tmp_path: Path, dry: bool) -> None:
    lake = Lake(tmp_path)
    with upshot.connect(lake.state / "store") as database:
        database.define(CLOSURE)
    lake.program = CLOSURE.replace("x: number", "x: symbol").replace("y: number", "y: symbol")
    lake.write()
    with pytest.raises(upshot.DataError) as found:
        _ = Pipeline(lake.file).check() if dry else Pipeline(lake.file).run(once=True)
    assert found.value.code == "schema-change"
    assert "edge(x: number, y: number) becomes edge(x: symbol, y: symbol)" in found.value.message
