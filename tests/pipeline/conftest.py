"""One Spark session for the whole run, as a pipeline starts it, and a database of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.object_store import ObjectStore, missing_for_object_store, session_settings
from tests.missing import missing_for_spark
from tests.pipeline.kafka import connector_jars
from tests.pipeline.lake import Lake, Make
from tests.pipeline.postgres import Cluster, started
from upshot.core.errors import UsageError
from upshot.pipeline.config.config import PipelineConfig, SourceConfig
from upshot.pipeline.formats import SOURCES
from upshot.pipeline.session import delta_support, pipeline_session

# Every setting with its reason; what is not here is as `upshot pipeline run` has it.
SETTINGS = {
    "spark.master": "local[2]",  # two tasks at a time: enough to see what depends on the order of partitions
    "spark.driver.memory": "2g",  # driver and executor in one JVM; the machine runs other suites beside it
    "spark.driver.bindAddress": "127.0.0.1",  # a machine without a resolvable host name has loopback all the same
    "spark.driver.host": "127.0.0.1",
    # A zone that leaks shows in every value; plans die young, and room for them halves the time of their collection.
    "spark.driver.extraJavaOptions": "-Duser.timezone=America/St_Johns -Xmn512m",
    "spark.python.authenticate.socketTimeout": "120s",  # on a busy machine Python and Java take long to meet
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 tasks for the log of a table of three rows
    "spark.log.level": "OFF",  # failing tasks are what several tests provoke
}


def _config(*packages: str) -> PipelineConfig:
    delta = SourceConfig("r", "delta", "nowhere")
    nothing = Path("nothing")
    return PipelineConfig(nothing, "tests", nothing, nothing, {"r": delta}, {}, packages=packages, spark=SETTINGS)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of this run; the tests using it are skipped where there is no Spark, and say what is missing."""
    missing = missing_for_spark()
    if missing:
        pytest.skip(missing)
    SETTINGS["spark.sql.warehouse.dir"] = str(tmp_path_factory.mktemp("warehouse"))
    jars = [session_settings().get("spark.jars", ""), *(jar.as_uri() for jar in connector_jars())]
    SETTINGS["spark.jars"] = ",".join(filter(None, jars))
    try:
        session = pipeline_session(_config(*(each.coordinates for each in SOURCES["jdbc"].packages)))
    except UsageError:
        session = pipeline_session(_config())
    yield session
    session.stop()


@pytest.fixture(params=["spark", "deltalake"])
def support(request: pytest.FixtureRequest, spark: Any) -> str:
    """Who reads Delta tables; what holds for one holds for the other."""
    support: str = request.param
    if support == "spark" and delta_support(spark, _config()) != "spark":
        pytest.skip("the Delta package could not be fetched from Maven Central")
    return support


@pytest.fixture(scope="session")
def database(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A PostgreSQL server for this run only."""
    if "org.postgresql" not in (spark.conf.get("spark.jars.packages", "") or ""):
        pytest.skip("PostgreSQL's driver could not be fetched from Maven Central")
    with started() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def object_store(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A server that speaks S3, for this run only."""
    if missing := missing_for_object_store():
        pytest.skip(missing)
    made = ObjectStore(tmp_path_factory.mktemp("s3"))
    try:
        made.wait()
        for name, value in made.options.items():
            spark.conf.set(f"fs.s3a.{name}", value)
        yield made
    finally:
        made.stop()


@pytest.fixture
def make(spark: Any, tmp_path: Path) -> Make:
    """Makes lakes whose pipelines run on the session of this run."""
    return lambda **given: Lake(tmp_path, spark=spark, **given)
