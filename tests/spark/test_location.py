"""Locations of the engine on Spark: named by call or setting, folders or schemas, proven to be shared."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

import upshot
from tests.spark.conftest import Place
from upshot.core.errors import EngineError, UsageError

pytest.importorskip("pyspark")

from upshot.database.database import Database
from upshot.engine.spark.engine import SparkEngine
from upshot.spark import catalog_workspace, preflight
from upshot.spark.catalog_workspace import CatalogWorkspace
from upshot.spark.lent_rows import MOST_IN_PLAN
from upshot.spark.location import SETTING, HadoopFiles, child, local_path, location_of, uri_of
from upshot.spark.session import is_connect
from upshot.spark.workspace import StoredRows, Workspace, owner_record

CLOSURE = """
.decl edge(x: number, y: symbol?)
.decl step(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- step(X, Y).
path(X, Z) :- path(X, Y), step(Y, Z).
"""
CHAIN = [(x, x + 1) for x in range(60)]


@dataclass
class ConnectSession:
    """As much of a session of Spark Connect as tells one server from another."""

    conf: Any
    session_id: str


ConnectSession.__module__ = "pyspark.sql.connect.session"


def rows_at(place: Place) -> list[str]:
    return [file for file in place.files() if file.endswith(".parquet")]


def test_the_location_is_the_one_of_the_call_then_of_the_settings_then_the_temporary_directory(
    spark: Any, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.unset(SETTING)
    here = location_of(session)
    assert local_path(here) is not None
    session.conf.set("upshot.scratch", str(tmp_path / "old"))
    assert location_of(session) == uri_of(tmp_path / "old")
    session.conf.set("upshot.location", "s3a://bucket/folder/")
    assert location_of(session) == "s3a://bucket/folder"
    assert location_of(session, tmp_path / "a b") == f"{tmp_path.as_uri()}/a%20b"


def test_rows_are_at_the_location_of_the_call_until_the_database_is_closed(spark: Any, place: Place) -> None:
    place = Place(child(place.uri, quote("a b [1]")), spark)
    with Database(lambda: SparkEngine(spark, location=place.uri, small=10, driver=0)) as db:
        db.define(CLOSURE)
        with db.transaction() as tx:
            tx.insert("step", CHAIN)
        assert rows_at(place)
        assert len(db.rows("path")) == 60 * 61 // 2
        assert db.rows("path").to_spark().where("x = 0").count() == 60
        db.verify()
    assert not place.files()


def test_a_location_is_refused_where_nothing_is_done_on_spark(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        upshot.connect(location=tmp_path)
    assert caught.value.code == "wrong-argument"


@pytest.mark.parametrize("driver", [None, 0], ids=["in the driver", "on executors"])
def test_a_schema_of_the_catalog_is_a_location(spark: Any, driver: int | None) -> None:
    spark.sql("CREATE SCHEMA IF NOT EXISTS upshot_location")
    with Database(lambda: SparkEngine(spark, location="schema:upshot_location", small=10, driver=driver)) as db:
        db.define(CLOSURE)
        with db.transaction() as tx:
            tx.insert("step", CHAIN)
            tx.insert("edge", [(x, None if x % 2 else f"n{x}") for x in range(50)])
        assert len(db.rows("path")) == 60 * 61 // 2
        with db.transaction() as tx:
            tx.delete("step", [(30, 31)])
        assert len(tx.changes["path"].deleted) == 31 * 30
        assert len(set(db.rows("edge"))) == 50
        assert spark.sql("SHOW TABLES IN upshot_location").filter("NOT isTemporary").count() > 0
    # Temporary views of the session, which other tests leave, are listed for every schema.
    assert spark.sql("SHOW TABLES IN upshot_location").filter("NOT isTemporary").count() == 0
    spark.sql("DROP SCHEMA upshot_location")


def test_a_schema_is_removed_once_its_owner_has_not_signed_for_days(spark: Any, tmp_path: Path) -> None:
    record = {**owner_record(), "host": "another.example"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog_workspace, "owner_record", lambda: record)
        made = [CatalogWorkspace(uri_of(tmp_path), spark) for _ in range(2)]
        names = [workspace.uri.rpartition("/")[2] for workspace in made]
        record["alive"] = 0.0
        for workspace in made:
            workspace.sign()
        record["alive"] = time.time()
        made[0].sign()
    CatalogWorkspace(uri_of(tmp_path), spark).remove()
    assert [spark.catalog.databaseExists(name) for name in names] == [True, False]
    made[0].remove()
    made[1]._forget()


@pytest.mark.usefixtures("shared")
def test_a_table_that_lost_a_file_does_not_count_fewer_rows(spark: Any, place: Place) -> None:
    workspace = CatalogWorkspace(place.uri, spark)
    stored = workspace.write(spark.createDataFrame([(1,), (2,)], "x long").repartition(2))
    assert sum(workspace.counts(stored.files)) == 2
    with pytest.raises(EngineError) as found:
        workspace.counts([*stored.files, stored.files[0] + ".gone"])
    workspace.remove()
    assert found.value.code == "lost-rows"


def test_a_location_that_is_not_shared_is_refused_by_name_and_asked_about_once(
    spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "runs_here", lambda session: False)
    monkeypatch.setattr(preflight, "_proven", set())
    asked = []
    write = Workspace.write

    def lost(workspace: Workspace, frame: Any, label: str = "rows") -> StoredRows:
        asked.append(label)
        stored = write(workspace, frame, label)
        return StoredRows(stored.folder, (), 0) if len(asked) == 1 else stored

    monkeypatch.setattr(Workspace, "write", lost)
    with pytest.raises(EngineError, match="the driver does not see files written by executors") as caught:
        SparkEngine(spark, location=place.uri)
    assert caught.value.code == "location-not-shared"
    assert not place.files()
    for _ in range(2):
        SparkEngine(spark, location=place.uri).close()
    assert asked == ["probe", "probe"]


def test_what_was_proven_of_one_server_is_not_taken_for_proven_of_another_on_the_same_host() -> None:
    def server(application: str | None, number: str) -> Any:
        settings = SimpleNamespace(get=lambda name, default: application if name == "spark.app.id" else default)
        return ConnectSession(settings, number)

    first, second = server("app-1", "a"), server("app-2", "b")
    assert preflight._application(first) != preflight._application(second)
    assert preflight._application(first) == preflight._application(server("app-1", "c"))
    assert preflight._application(server(None, "a")) != preflight._application(server(None, "b"))


def test_a_file_whose_writer_dies_keeps_its_old_bytes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system such as HDFS shows a file while it is written."""
    if is_connect(spark):
        pytest.skip("this process has no Java")
    monkeypatch.setattr(upshot.spark.location, "_RENAMED", {"file"})
    files, uri = HadoopFiles(spark), uri_of(tmp_path / "a" / "sinks.json")
    for data in (b"old", b"new"):
        files.write(uri, data)
        assert files.read(uri) == data
    assert [entry.name for entry in files.entries(uri_of(tmp_path / "a"))] == ["sinks.json"]
    monkeypatch.setattr(HadoopFiles, "_rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write(uri, b"newest")
    assert files.read(uri) == b"new"


def test_a_file_whose_writer_dies_between_delete_and_rename_has_its_new_bytes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connector of Azure replaces a file in two steps."""
    if is_connect(spark):
        pytest.skip("this process has no Java")
    monkeypatch.setattr(upshot.spark.location, "_RENAMED", {"file"})
    files, uri = HadoopFiles(spark), uri_of(tmp_path / "a" / "sinks.json")
    assert files.read(uri) is None

    def dies(here: HadoopFiles, source: Any, target: Any) -> None:
        here.delete(uri)
        raise KeyboardInterrupt

    for data in (b"first", b"second"):
        with monkeypatch.context() as patch:
            patch.setattr(HadoopFiles, "_rename", dies)
            with pytest.raises(KeyboardInterrupt):
                files.write(uri, data)
        assert files.read(uri) == data
        time.sleep(0.01)  # the newest counts
    half = tmp_path / "a" / f".sinks.json.6-{'0' * 32}"
    half.write_bytes(b"thi")
    assert files.read(uri) == b"second"
    files.write(uri, b"third")
    assert files.read(uri) == b"third"


def test_many_rows_of_the_local_engine_become_a_frame_by_way_of_a_file(spark: Any, place: Place) -> None:
    rows = [(x, f"n{x}" if x % 3 else None) for x in range(MOST_IN_PLAN + 1)]
    with upshot.connect(spark=spark, location=place.uri) as db:
        db.define(CLOSURE)
        with db.transaction() as tx:
            tx.insert("edge", rows)
        frame = db.rows("edge").to_spark()
        assert frame.columns == ["x", "y"]
        assert len(rows_at(place)) == 1
        mine = spark.range(10).withColumnRenamed("id", "x")
        assert sorted(map(tuple, frame.join(mine, "x").collect())) == rows[:10]
        assert frame.where("y IS NULL").count() == sum(y is None for _, y in rows)
        with db.transaction() as tx:
            tx.delete("edge", rows[:5])
        assert db.rows("edge").to_spark().count() == MOST_IN_PLAN - 4
        assert len(rows_at(place)) == 1, "few rows are part of the plan"


def test_frames_that_the_engine_on_spark_hands_out_are_those_of_the_users_session(spark: Any, place: Place) -> None:
    rows = [(x, str(x)) for x in range(MOST_IN_PLAN + 1)]
    for small in (10, 100_000):
        with Database(lambda small=small: SparkEngine(spark, location=place.uri, small=small)) as db:
            db.define(CLOSURE)
            with db.transaction() as tx:
                tx.insert("edge", rows)
            frame = tx.changes["edge"].inserted.to_spark()
            assert frame.sparkSession is spark
            assert frame.count() == len(rows)
            assert rows_at(place)
