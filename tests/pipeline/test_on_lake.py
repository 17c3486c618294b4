"""Nothing but the lake is shared: a pipeline there goes on, exactly once, wherever it is started next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.cluster.object_store import ObjectStore
from tests.pipeline.lake import CLOSURE, Lake, summed
from tests.pipeline.remote_lake import RemoteLake, remote_pipeline
from tests.pipeline.test_exactly_once import Died, random_changes, strike_down, uninterrupted
from upshot.pipeline import steps
from upshot.spark import delta
from upshot.spark.lake_path import LakePath, located
from upshot.store import lake, record_table

FAULTS = (
    "create:1",
    "read:1",
    "quarantine:1",
    "stage:1",
    "record:1",
    "recorded:1",
    # In the sinks that the end before left behind, then in those of the batch.
    "publish:3",
    "publish:6",
    "rename:1",
    "pointer:1",
    "finish:1",
)
"""Each ends a run; the next one begins with a new temporary directory, and with nothing but the lake."""
FEW_FAULTS = ("stage:1", "recorded:1", "publish:3")
"""Before the commit, after it, and in the sinks; on a disk `make test` goes through every place."""


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    def die() -> None:
        raise Died

    monkeypatch.setattr(steps, "die", die)
    monkeypatch.setenv("UPSHOT_TESTING", "1")
    yield monkeypatch
    steps._passed.clear()


@pytest.fixture
def remote(spark: Any, object_store: ObjectStore, tmp_path: Path) -> Callable[[str], RemoteLake]:
    def make(name: str) -> RemoteLake:
        uri = f"{object_store.uri}/{tmp_path.name}/{name}"
        return RemoteLake(tmp_path / name, pipeline=remote_pipeline(uri, object_store), spark=spark, uri=uri)

    return make


@pytest.fixture
def uri(spark: Any, object_store: ObjectStore, tmp_path: Path) -> str:
    return f"{object_store.uri}/{tmp_path.name}/db"


@pytest.fixture(params=["deltalake", pytest.param("spark", marks=pytest.mark.deep)])
def record(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who writes the records of a store: `deltalake` where it reaches the location, else Delta's classes in Spark."""
    if request.param == "spark":
        monkeypatch.setattr(record_table, "reaches", lambda session, path: None)
    return str(request.param)


# ---- pipelines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [FEW_FAULTS, pytest.param(FAULTS, marks=pytest.mark.deep)], ids=["few", "all"])
def test_a_driver_struck_down_at_every_step_is_continued_by_one_with_another_disk(
    spark: Any, tmp_path: Path, remote: Callable[[str], RemoteLake], mortal: pytest.MonkeyPatch, faults: tuple[str, ...]
) -> None:
    changes = random_changes(1, len(faults) + 1)
    struck = remote("struck")
    for change, fault in zip(changes, faults, strict=False):
        struck.change(*change)
        strike_down(struck, mortal, fault)
    struck.change(*changes[-1])
    mortal.setenv("UPSHOT_FAULT_AT", "")
    struck.run()
    found, calm = struck.everything(), uninterrupted(Lake(tmp_path / "calm", spark=spark), changes)
    # What was planned and not recorded is planned again, with the files that have come since: there are fewer batches.
    assert [row[:3] for row in found["quarantine"]] == [row[:3] for row in sorted(calm["quarantine"], key=repr)]
    assert found["store"][1] == calm["store"][1]
    for name in ("path", "away"):
        assert found[name] == calm[name]
        assert summed(found[f"{name} changes"]) == found[name]


def test_a_pipeline_in_an_object_store_ends_as_one_on_a_disk(
    spark: Any, tmp_path: Path, remote: Callable[[str], RemoteLake]
) -> None:
    changes = random_changes(2, 3)
    calm = uninterrupted(Lake(tmp_path / "calm", spark=spark), changes)
    there = remote("there")
    for change in changes:
        there.change(*change)
        there.run()
    assert there.everything() == calm
    metrics = sorted(entry.name for entry in (there.lake / "state" / "metrics").entries())
    assert metrics == [f"batch={number:08}.json" for number in range(len(changes))]
    assert json.loads((there.lake / "state" / "metrics" / metrics[0]).read_text())["batch"] == 0


# ---- stores -------------------------------------------------------------------------------------------------


def changed(database: Any, insert: list[tuple[int, int]]) -> int:
    with database.transaction() as tx:
        tx.insert("edge", insert)
    version: int = tx.version
    return version


def test_a_database_on_a_lake_is_opened_as_it_was_left(spark: Any, uri: str, record: str) -> None:
    with upshot.connect(uri, spark=spark, engine="local") as database:
        database.define(CLOSURE)
        changed(database, [(1, 2), (2, 3)])
        changed(database, [(number, -number) for number in range(10, 20_010)])
        database.snapshot()
        changed(database, [(3, 4)])
        rows, identity = database.rows("path").sorted(), database.identity
    with upshot.connect(uri, spark=spark, engine="local") as again:
        assert (again.rows("path").sorted(), again.identity, again.version) == (rows, identity, 4)
        again.verify()
        assert [len(past.changes["edge"].inserted) for past in again.history(1)] == [2, 20_000, 1]


@pytest.mark.parametrize("record", ["deltalake", "spark"], indirect=True)
def test_who_opens_a_store_on_a_lake_last_has_it(spark: Any, uri: str, record: str) -> None:
    first = upshot.connect(uri, spark=spark, engine="local")
    first.define(CLOSURE)
    changed(first, [(1, 2)])
    second = upshot.connect(uri, spark=spark, engine="local")
    for _ in range(2):
        with pytest.raises(upshot.Error) as lost:
            changed(first, [(2, 3)])
        assert lost.value.code == "store-taken-over"
    assert changed(second, [(3, 4)]) == 3
    first.close()
    second.close()
    with upshot.connect(uri, spark=spark, engine="local") as third:
        assert third.rows("edge").sorted() == [(1, 2), (3, 4)]


@pytest.mark.parametrize("record", ["deltalake", "spark"], indirect=True)
def test_a_store_that_cannot_be_taken_over_says_so(
    spark: Any, uri: str, record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`deltalake` creates the files of S3 atomically, Spark's Delta only with a log store for it."""
    if record == "spark":
        monkeypatch.setattr(delta, "reaches", lambda session, path: None)
    with upshot.connect(uri, spark=spark, engine="local") as database:
        assert [each.slug for each in database.warnings] == ["store-unguarded"] * (record == "spark")
    session = spark.newSession()
    session.conf.set("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    assert delta.creates_atomically(session, LakePath(uri))


def test_records_are_put_together_and_lose_nothing(
    spark: Any, uri: str, record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "_MOST_RECORDS", 4)
    with upshot.connect(uri, spark=spark, engine="local") as database:
        database.define(CLOSURE)
        for number in range(9):
            changed(database, [(number, number + 1)])
    files = [entry for entry in located(f"{uri}/log", spark).entries() if entry.name.endswith(".parquet")]
    assert len(files) < 8
    with upshot.connect(uri, spark=spark, engine="local") as again:
        assert len(again.rows("path")) == 45
        assert len(list(again.history(0))) == 10


def test_what_is_lazy_is_durable_with_the_next_commit(spark: Any, uri: str) -> None:
    database = upshot.connect(uri, spark=spark, engine="local")
    database.define(CLOSURE)
    database.records("note").put_all({"a": {"n": 1}}, lazy=True)
    changed(database, [(1, 2)])
    database.records("note").put_all({"b": {"n": 2}}, lazy=True)
    # Not closed: as a process that is killed.
    with upshot.connect(uri, spark=spark, engine="local") as again:
        assert again.records("note").all() == {"a": {"n": 1}}
    database.close()


def test_something_else_at_the_uri_is_never_touched(spark: Any, uri: str) -> None:
    (located(uri, spark) / "notes.txt").write_bytes(b"mine")
    with pytest.raises(upshot.UsageError) as refused:
        upshot.connect(uri, spark=spark)
    assert refused.value.code == "not-a-store"


def test_a_uri_without_a_session_is_refused() -> None:
    from upshot.database.durable.opening import _opened  # noqa: PLC0415 - another test may have started a session
    from upshot.store.retention import Retention  # noqa: PLC0415

    with pytest.raises(upshot.UsageError, match="needs a Spark session"):
        _opened("s3a://lake/db", Retention(), None)


def test_a_database_on_a_lake_is_backed_up_whole(spark: Any, uri: str, tmp_path: Path) -> None:
    with upshot.connect(uri, spark=spark, engine="local") as database:
        database.define(CLOSURE)
        changed(database, [(number, -number) for number in range(1, 20_000)])
    with upshot.connect(uri, spark=spark, engine="local") as database:
        database.backup(tmp_path / "copy")
        rows = database.rows("path").sorted()
    with upshot.connect(tmp_path / "copy") as copy:
        assert copy.rows("path").sorted() == rows
        assert [len(past.changes["edge"].inserted) for past in copy.history(1)] == [19_999]
