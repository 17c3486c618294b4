"""The real parts, one of each for the whole run: a cluster whose machines share a disk, one whose machines share
nothing, HDFS, and an object store that speaks S3. Each is started by the first test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, missing_for_apart, session
from tests.cluster.hdfs import Hdfs
from tests.cluster.jars import missing_for_hdfs
from tests.cluster.object_store import ObjectStore, missing_for_object_store
from tests.run_suites import missing_for_spark


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = missing_for_spark()
    if missing:
        pytest.skip(missing)
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[Any]:
    """A session of one module: it holds all cores of the cluster while it lasts. No task is tried twice in it, so the
    loss of an executor fails the job it worked for, and what happens then is up to Upshot."""
    made = session(cluster, **{"spark.task.maxFailures": "1"})
    yield made
    made.stop()


@pytest.fixture(scope="session")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers that share no disk with the driver, nor with each other."""
    missing = missing_for_spark() or missing_for_apart()
    if missing:
        pytest.skip(missing)
    made = Cluster(tmp_path_factory.mktemp("apart"), apart=True)
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    missing = missing_for_spark() or missing_for_hdfs()
    if missing:
        pytest.skip(missing)
    made = Hdfs(tmp_path_factory.mktemp("hdfs"))
    try:
        made.wait()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    missing = missing_for_spark() or missing_for_object_store()
    if missing:
        pytest.skip(missing)
    made = ObjectStore(tmp_path_factory.mktemp("s3"))
    try:
        made.wait()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def spark_apart(apart: Cluster, hdfs: Hdfs, object_store: ObjectStore) -> Iterator[Any]:
    """A session of one module on the cluster that shares nothing, which reaches HDFS and the object store."""
    made = session(apart, **object_store.settings)
    yield made
    made.stop()
