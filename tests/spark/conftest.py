"""One Spark session for the whole run, started by the first test that asks for it: on this machine or, with
`--storage`, on a cluster whose machines share nothing but HDFS or an object store."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import upshot
from tests.cluster.cluster import session as cluster_session
from tests.missing import missing_for_spark
from tests.properties.engines import Make
from upshot.database.database import Database
from upshot.engine.spark.engine import SparkEngine
from upshot.spark.location import LocationEntry, child, files_of, location_of, uri_of

# Every setting with its reason; what is not here is as a user's session would have it.
SETTINGS = {
    "spark.master": "local[2]",  # two tasks at a time: enough to see what depends on the order of partitions
    "spark.driver.memory": "2g",  # master and executor in one JVM; the machine runs other suites beside it
    "spark.driver.extraJavaOptions": "-Xmn512m",  # plans die young: a quarter of the collections, half their time
    "spark.driver.bindAddress": "127.0.0.1",  # a machine without a resolvable host name has loopback all the same
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",  # on a busy machine Python and Java take long to meet
    "spark.ui.enabled": "false",  # no port, no web server thread, no job history in memory
    "spark.ui.showConsoleProgress": "false",  # the bar would be drawn over pytest's output
    "spark.sql.shuffle.partitions": "2",  # of the user's session; 200 empty tasks would cost a second a shuffle
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "America/St_Johns",  # half an hour off: a time zone that leaks shows in every value
}
_OF_THIS_MACHINE = ("spark.master", "spark.driver.extraJavaOptions")
_UNSHARED = "unshared"
_REFUSALS = ("location-not-shared", "do not share the location", "lost-rows")
"""How work ends at a location that executors do not see: when it is opened or, where a test opens nothing, when what
they wrote is read."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """At a location that executors do not see, an error that says so is the right end of a test; any other failure, a
    wrong answer among them, stays one."""
    report = yield
    refused = call.excinfo is not None and any(words in str(call.excinfo.value) for words in _REFUSALS)
    if report.failed and refused and item.config.getoption("--storage") == _UNSHARED:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], "refused: the location is not shared")
    return report


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session of this run, as a user would hand it to `connect`; the tests using it are skipped where there is no
    Spark, and say what is missing."""
    missing = missing_for_spark()
    if missing:
        pytest.skip(missing)
    storage = request.config.getoption("--storage")
    session = _on_a_cluster(request, storage) if storage else _here(request.getfixturevalue("tmp_path_factory"))
    session.sparkContext.setLogLevel("OFF")  # failing tasks are what several tests provoke
    yield session
    session.stop()


def _here(tmp_path_factory: pytest.TempPathFactory) -> Any:
    # Workers take `python3` from the path unless told.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    builder = SparkSession.builder.appName("upshot tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    # Where tables of the user go, if a test saves any: not into the working folder.
    return builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()


def _on_a_cluster(request: pytest.FixtureRequest, storage: str) -> Any:
    """Databases that name no location have theirs on the storage, by the session's setting."""
    cluster = request.getfixturevalue("apart")
    settings = {name: value for name, value in SETTINGS.items() if name not in _OF_THIS_MACHINE}
    if storage == _UNSHARED:
        hidden = request.getfixturevalue("tmp_path_factory").mktemp("unshared")
        return cluster_session(cluster, **settings, **{"upshot.location": uri_of(hidden)})
    part = request.getfixturevalue({"hdfs": "hdfs", "s3": "object_store"}[storage])
    return cluster_session(
        cluster,
        **settings,
        **part.settings,
        **{"upshot.location": f"{part.uri}/upshot", "spark.sql.warehouse.dir": f"{part.uri}/warehouse"},
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A location of a test's own, on this machine or on the cluster's storage."""

    uri: str
    session: Any

    def files(self) -> set[str]:
        """The URIs of everything below it."""
        return {entry.uri for entry in self._entries()}

    def bytes(self) -> int:
        """The size of all files below it."""
        return sum(entry.size for entry in self._entries() if not entry.is_folder)

    def _entries(self) -> Iterator[LocationEntry]:
        files, left = files_of(self.session, self.uri), [self.uri]
        while left:
            for entry in list(files.entries(left.pop())):
                yield entry
                left += [entry.uri] if entry.is_folder else []


@pytest.fixture
def place(spark: Any, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.config.getoption("--storage"):
        return Place(child(location_of(spark), f"place-{uuid4()}"), spark)
    return Place(uri_of(tmp_path), spark)


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> None:
    """Skip a test that writes without `connect` where executors do not see the location: nothing proves it there."""
    if request.config.getoption("--storage") == _UNSHARED:
        pytest.skip("writes without `connect`, which would refuse the location")


@pytest.fixture(scope="session")
def on_spark(spark: Any) -> Make:
    """Makes databases whose every row is Spark's; recursion and demand programs are small enough for the driver."""
    return lambda: upshot.connect(spark=spark, engine="spark")


@pytest.fixture(scope="session")
def on_files(spark: Any) -> Make:
    """The same, but a set of more than two rows is a file already, and the driver holds no relation: what many rows
    would take, with few."""
    return lambda: Database(lambda: SparkEngine(spark, small=2, driver=0))


@pytest.fixture(scope="session")
def in_parts(spark: Any) -> Make:
    """Makes databases whose driver holds no relation whole: what has a pivot runs in parts, the rest by rounds."""
    return lambda: Database(lambda: SparkEngine(spark, driver=0))


@pytest.fixture(scope="session")
def by_rounds(spark: Any) -> Make:
    """Makes databases in which nobody holds a relation whole, as if all were too large for that."""
    return lambda: Database(lambda: SparkEngine(spark, driver=0, most_shared=0))
