"""Databases on a cluster whose machines share nothing but HDFS or an object store, compared with the local engine."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.cluster.cluster import Cluster
from tests.cluster.hdfs import Hdfs
from tests.cluster.object_store import ObjectStore
from tests.properties.settings import is_slice
from tests.spark import test_engine_statements
from tests.spark.engine_driver import IN_FILES
from tests.spark.one_core_slice import commit_beyond_memory
from tests.spark.test_conformance_random import Trial, agree, packs
from upshot.core.errors import EngineError
from upshot.pipeline.run import run_pipeline
from upshot.spark.lake_path import LakePath

pytestmark = pytest.mark.slow
"""A cluster is started."""

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl same(x: number, y: number)
same(X, Y) :- edge(A, X), edge(A, Y).
same(X, Y) :- edge(A, X), same(A, B), edge(B, Y).
.decl reached(x: number, n: number, farthest: number)
reached(X, N, M) :- edge(X, _), N = count : { closure(X, _) }, M = max Y : { closure(X, Y) }.
.decl total(n: number)
total(N) :- N = sum Y : { same(_, Y) }.
.decl apart(x: number, y: number)
apart(X, Y) :- edge(X, _), edge(_, Y), !closure(X, Y).
.decl two(x: number, y: number)
two(X, Z) :- edge(X, Y), edge(Y, Z).
.view two strategy=rod
"""
"""A recursion that decomposes, one that does not, aggregates over both, a negation, and a view on demand."""
PIPELINE = """\
[pipeline]
name = "closure"
program = "closure.dl"
engine = "spark"
state = "{state}"

[source.edge]
format = "changes"
path = "{edges}"

[sink.closure]
format = "parquet"
path = "{out}"
"""
VIEWS = ("closure", "same", "reached", "total", "apart", "two")
SIDE = 15
DOWN = [(i * SIDE + j, i * SIDE + j + SIDE) for i in range(SIDE - 1) for j in range(SIDE)]
GRID = DOWN + [(i * SIDE + j, i * SIDE + j + 1) for i in range(SIDE) for j in range(SIDE - 1)]
"""420 edges, whose closure has 14,175 rows."""
CHANGES: tuple[tuple[list[tuple[int, int]], list[tuple[int, int]]], ...] = (
    (GRID, []),
    ([], [(0, 1), (100, 101), (100, 115)]),
    ([(224, 210), (0, 1)], [(16, 17)]),
    ([(100, 101), (300, 301)], [(224, 210), (112, 113)]),
)
"""Insertions and deletions of four transactions; the third closes a cycle."""

Change = dict[str, tuple[set[Any], set[Any]]]


def changed(db: Any, insert: Any, delete: Any) -> Change:
    with db.transaction() as tx:
        tx.delete("edge", delete)
        tx.insert("edge", insert)
    return {view: (set(tx.changes[view].inserted), set(tx.changes[view].deleted)) for view in VIEWS}


def states(db: Any) -> dict[str, set[Any]]:
    return {view: set(db.rows(view)) for view in VIEWS}


@pytest.fixture(scope="module")
def expected() -> Iterator[tuple[list[Change], dict[str, set[Any]]]]:
    """The changes of every transaction and the last state, by the local engine."""
    with upshot.connect() as db:
        db.define(PROGRAM)
        yield [changed(db, *change) for change in CHANGES], states(db)


@pytest.fixture
def location(request: pytest.FixtureRequest, hdfs: Hdfs, object_store: ObjectStore) -> str:
    return {"hdfs": f"{hdfs.uri}/upshot", "s3a": f"{object_store.uri}/upshot"}[request.param]


CROSSED = [
    ("hdfs", "on executors"),
    ("s3a", "in the driver"),
    pytest.param("hdfs", "in the driver", marks=pytest.mark.deep),
    pytest.param("s3a", "on executors", marks=pytest.mark.deep),
]


@pytest.fixture
def way(request: pytest.FixtureRequest, spark_apart: Any) -> Iterator[None]:
    """Small recursions run in the driver, unless nothing may."""
    if request.param == "on executors":
        spark_apart.conf.set("upshot.driver.memory", "0")
    yield
    spark_apart.conf.unset("upshot.driver.memory")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("location", "way"), CROSSED, indirect=True)
def test_a_closure_of_420_edges_and_its_changes_are_those_of_the_local_engine(
    spark_apart: Any, location: str, expected: tuple[list[Change], dict[str, set[Any]]]
) -> None:
    with upshot.connect(spark=spark_apart, engine="spark", location=location) as db:
        db.define(PROGRAM)
        assert len(expected[0][0]["closure"][0]) == 14_175
        for number, (change, wanted) in enumerate(zip(CHANGES, expected[0], strict=True)):
            assert changed(db, *change) == wanted, f"transaction {number}"
        assert states(db) == expected[1]
        db.verify()


@pytest.mark.parametrize("location", ["hdfs", pytest.param("s3a", marks=pytest.mark.deep)], indirect=True)
def test_rows_enter_and_leave_as_frames(
    spark_apart: Any, location: str, expected: tuple[list[Change], dict[str, set[Any]]]
) -> None:
    """By every engine: what the driver holds goes to executors by way of the location."""
    edges = spark_apart.createDataFrame(GRID, "x long, y long")
    for engine in ("auto", "spark"):
        with upshot.connect(spark=spark_apart, engine=engine, location=location) as db:
            db.define(PROGRAM)
            assert changed(db, edges, []) == expected[0][0], engine
            closure = db.rows("closure").to_spark()
            assert {tuple(row) for row in closure.collect()} == expected[0][0]["closure"][0], engine
            assert closure.join(edges, ["x", "y"], "left_anti").count() == 14_175 - len(GRID), engine


RANDOM = [(1, "hdfs"), (0, "s3a"), (1, "s3a")]


@pytest.mark.parametrize(
    ("pack", "storage"), [(0, "hdfs"), *(pytest.param(*each, marks=pytest.mark.deep) for each in RANDOM)]
)
def test_random_programs_are_exact(
    spark_apart: Any, hdfs: Hdfs, object_store: ObjectStore, storage: str, pack: int
) -> None:
    """On S3 a slice of those on HDFS, and in the soak only: `make test` has the closure there."""
    place = f"{hdfs.uri}/upshot" if storage == "hdfs" else f"{object_store.uri}/upshot"
    made: list[list[Trial]] = packs(f"apart {storage} {pack}")
    trials = [trial for trials in made for trial in trials][: 4 if storage == "s3a" else 6 if is_slice() else 12]
    agree(lambda: upshot.connect(spark=spark_apart, engine="spark", location=place), trials)


STATEMENTS = (
    test_engine_statements.test_rows_of_every_type_come_as_tuples_arrow_and_frames_and_go_the_same_ways,
    *(
        pytest.param(each, marks=pytest.mark.deep)
        for each in (
            test_engine_statements.test_statements_in_any_order_mean_what_they_mean_locally,
            test_engine_statements.test_upserts_and_conflicts_by_key,
            test_engine_statements.test_a_key_of_a_counted_view_compares_rows_without_their_number_of_derivations,
        )
    ),
)


@pytest.mark.parametrize("statements", STATEMENTS, ids=lambda each: each.__name__.removeprefix("test_"))
def test_statements_mean_the_same_in_files_on_hdfs(
    spark_apart: Any, hdfs: Hdfs, statements: Callable[[Any, int], None]
) -> None:
    spark_apart.conf.set("upshot.location", f"{hdfs.uri}/statements")
    try:
        statements(spark_apart, IN_FILES)
    finally:
        spark_apart.conf.unset("upshot.location")


def test_keys_that_were_set_at_run_time_reach_executors(spark_apart: Any, object_store: ObjectStore) -> None:
    """Only the user's session knows the server of this bucket."""
    object_store.make_bucket("elsewhere")
    session = spark_apart.newSession()
    session.conf.set("fs.s3a.bucket.elsewhere.endpoint", object_store.endpoint)
    with upshot.connect(spark=session, engine="spark", location="s3a://elsewhere/upshot") as db:
        db.define(".decl edge(x: number, y: number)")
        with db.transaction() as tx:
            tx.insert("edge", session.range(0, 5000).selectExpr("id as x", "id + 1 as y"))
        assert len(tx.changes["edge"].inserted) == 5000
        assert db.rows("edge").to_spark().count() == 5000


# ---- the parts are as they claim ------------------------------------------------------------------


def listed_by_executors(spark: Any, folder: Path) -> list[set[str]]:
    """The names in a folder, as a task on each of the two executors sees them."""

    def names(batches: Iterator[Any]) -> Iterator[Any]:
        import time  # noqa: PLC0415 - in the worker

        import pyarrow  # noqa: PLC0415

        for _ in batches:
            time.sleep(1)  # so that the other task goes to the other executor
            found = sorted(os.listdir(folder)) if folder.exists() else []
            yield pyarrow.RecordBatch.from_pydict({"names": ["\n".join(found)]})

    rows = spark.range(0, 2, 1, 2).mapInArrow(names, "names string").collect()
    return [set(row.names.splitlines()) for row in rows]


def test_executors_see_nothing_of_the_drivers_temporary_directory_nor_of_each_other(
    spark_apart: Any, apart: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "seen").touch()
    assert listed_by_executors(spark_apart, tmp_path) == [set(), set()]
    apart.wait_for_executors()
    seen = listed_by_executors(spark_apart, Path(tempfile.gettempdir()))
    assert sorted(sorted(name for name in names if name.startswith("worker")) for names in seen) == [
        ["worker0", "worker0-local"],
        ["worker1", "worker1-local"],
    ]


@pytest.mark.parametrize("storage", ["hdfs", "object_store"])
def test_executors_write_what_the_driver_reads(spark_apart: Any, storage: str, request: pytest.FixtureRequest) -> None:
    part: Hdfs | ObjectStore = request.getfixturevalue(storage)
    place = f"{part.uri}/{uuid.uuid4().hex}"
    spark_apart.range(0, 1000, 1, 2).write.parquet(place)
    assert spark_apart.read.parquet(place).count() == 1000
    assert len(spark_apart.read.parquet(place).inputFiles()) == 2


# ---- a location that executors cannot see -----------------------------------------------------------


def _commit(db: Any) -> None:
    db.define(PROGRAM)
    with db.transaction() as tx:
        tx.insert("edge", GRID)


def _read(db: Any) -> None:
    db.define(PROGRAM)
    list(db.rows("closure"))


CALLS: dict[str, Callable[[Any], object]] = {
    "define": lambda db: db.define(PROGRAM),
    "commit": _commit,
    "read": _read,
    "query": lambda db: (db.define(PROGRAM), list(db.query("closure(0, X)"))),
    "frame": lambda db: (db.define(PROGRAM), db.rows("closure").to_spark().count()),
    "verify": lambda db: (db.define(PROGRAM), db.verify()),
}
OTHERWISE = ("by the setting", "by nobody")
REFUSED = [
    *(("by the call", call) for call in CALLS),
    *(pytest.param(n, c, marks=[pytest.mark.deep] if c != "commit" else []) for n in OTHERWISE for c in CALLS),
]


@pytest.mark.parametrize(("named", "call"), REFUSED)
def test_every_call_on_a_folder_of_the_driver_ends_in_an_error_that_names_it(
    spark_apart: Any, tmp_path: Path, named: str, call: str
) -> None:
    with ExitStack() as after:
        if named == "by the setting":
            spark_apart.conf.set("upshot.location", tmp_path.as_uri())
            after.callback(spark_apart.conf.unset, "upshot.location")
        options = {"location": tmp_path.as_uri()} if named == "by the call" else {}
        with pytest.raises(EngineError) as caught:
            CALLS[call](after.enter_context(upshot.connect(spark=spark_apart, engine="spark", **options)))
    assert caught.value.code == "location-not-shared"
    assert "location" in str(caught.value)
    assert named == "by nobody" or tmp_path.as_uri() in str(caught.value)


def test_what_the_driver_holds_cannot_be_handed_out_by_a_folder_that_executors_do_not_see(
    spark_apart: Any, tmp_path: Path
) -> None:
    with upshot.connect(spark=spark_apart, location=tmp_path.as_uri()) as db:
        _commit(db)
        assert len(list(db.rows("closure"))) == 14_175
        with pytest.raises(EngineError, match="location") as caught:
            db.rows("closure").to_spark().count()
    assert caught.value.code == "location-not-shared"


@pytest.mark.parametrize("storage", ["hdfs", "s3a"])
def test_a_small_file_is_replaced_as_a_whole(
    spark_apart: Any, hdfs: Hdfs, object_store: ObjectStore, storage: str
) -> None:
    folder = LakePath(f"{hdfs.uri if storage == 'hdfs' else object_store.uri}/small").on(spark_apart)
    for data in (b"old", b"new", b""):
        (folder / "sinks.json").write_bytes(data)
        assert (folder / "sinks.json").read_bytes() == data
    assert [entry.name for entry in folder.entries()] == ["sinks.json"]


@pytest.mark.parametrize("hidden", ["state", "edges", "out"])
def test_a_pipeline_refuses_a_local_path_that_executors_do_not_see(
    spark_apart: Any, hdfs: Hdfs, tmp_path: Path, hidden: str
) -> None:
    """Executors would write the rows of a sink to disks of their own, and an empty folder would be taken for it."""
    lake = f"{hdfs.uri}/unshared-{hidden}"
    paths = {name: str(tmp_path / name) if name == hidden else f"{lake}/{name}" for name in ("state", "edges", "out")}
    (tmp_path / "closure.dl").write_text(PROGRAM)
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "1.json").write_text('{"insert": {"edge": [[1, 2]]}}\n')
    hdfs.write(f"unshared-{hidden}/edges/1.json", b'{"insert": {"edge": [[1, 2]]}}\n')
    (tmp_path / "closure.toml").write_text(PIPELINE.format(**paths))
    with pytest.raises(EngineError) as caught:
        run_pipeline(tmp_path / "closure.toml", once=True, spark=spark_apart)
    assert caught.value.code == "location-not-shared"
    assert str(tmp_path / hidden) in caught.value.message
    assert f"closure.toml:{ {'state': 5, 'edges': 7, 'out': 11}[hidden] }:1" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.deep
def test_joins_that_find_no_memory_on_an_executor_are_made_again_by_sorting(spark_apart: Any, hdfs: Hdfs) -> None:
    """Executors have a core and a gigabyte each, as the session of `test_one_core_slice.py` in `make test` has."""
    assert "joins shuffle: Spark ran out of memory" in commit_beyond_memory(spark_apart, f"{hdfs.uri}/upshot")
