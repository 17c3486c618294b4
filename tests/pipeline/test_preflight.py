"""What is found out before a pipeline runs, most of it before Spark starts, and where in its file it says so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import upshot

pytest.importorskip("pyspark")

from pyspark.sql import DataFrameReader

from tests.pipeline.lake import CLOSURE, PIPELINE, Lake, Make, summed
from upshot.pipeline import preflight, run
from upshot.pipeline.run import Pipeline
from upshot.spark import preflight as spark_preflight
from upshot.spark.workspace import StoredRows, Workspace


@pytest.fixture
def on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors are said to be on other machines."""
    for module in (preflight, spark_preflight):
        monkeypatch.setattr(module, "runs_here", lambda session: False)
    monkeypatch.setattr(spark_preflight, "_proven", set())


@pytest.mark.usefixtures("on_a_cluster")
def test_local_paths_that_every_machine_mounts_are_used_as_they_are(make: Make) -> None:
    lake = make()
    lake.change(insert=[(1, 2), (2, 3)])
    lake.run()
    lake.change(delete=[(1, 2)])
    lake.run()
    assert lake.view() == summed(lake.log()) == [(2, 3)]
    assert not list(lake.root.rglob(".upshot-probe")), "the proof leaves nothing behind"


@pytest.mark.usefixtures("on_a_cluster")
@pytest.mark.parametrize(
    ("hidden", "place"),
    [("state", "closure.toml:5:1"), ("quarantine", "closure.toml:9:1"), ("edges", "closure.toml:9:1"),
     ("out/path", "closure.toml:14:1"), ("out/away_changes", "closure.toml:19:1")],
)  # fmt: skip
def test_a_local_path_that_executors_do_not_share_is_refused_where_the_pipeline_file_names_it(
    make: Make, monkeypatch: pytest.MonkeyPatch, hidden: str, place: str
) -> None:
    keys = 'path = "edges"'
    lake = make(pipeline=PIPELINE.replace(keys, f'{keys}\nquarantine = "quarantine"'))
    lake.change(insert=[(1, 2)])
    write, load = Workspace.write, DataFrameReader.load

    def lost(workspace: Workspace, frame: Any, label: str = "rows") -> StoredRows:
        stored = write(workspace, frame, label)
        return StoredRows(stored.folder, (), 0) if f"/{hidden}/.upshot-probe" in workspace.location else stored

    def gone(reader: Any, path: str, *arguments: Any) -> Any:
        if f"/{hidden}/" in path:
            raise FileNotFoundError(path)
        return load(reader, path, *arguments)

    monkeypatch.setattr(Workspace, "write", lost)
    monkeypatch.setattr(DataFrameReader, "load", gone)
    with pytest.raises(upshot.EngineError) as caught:
        lake.run()
    assert caught.value.code == "location-not-shared"
    assert f"/{hidden}" in caught.value.message
    assert place in str(caught.value)
    assert "every machine of the cluster mounts" in caught.value.help
    assert not (lake.root / "out").exists()
    assert not (lake.state / "store").exists()


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
