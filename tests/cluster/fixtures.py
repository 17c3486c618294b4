"""The real parts that tests run on, one of each for the whole run, started by the first test that asks for it: a
cluster whose machines share nothing, HDFS, and an object store that speaks S3. Where one cannot be started, tests that
need it are skipped and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster, missing_for_apart
from tests.cluster.hdfs import Hdfs
from tests.cluster.jars import missing_for_hdfs
from tests.cluster.object_store import ObjectStore, missing_for_object_store
from tests.missing import missing_for_spark


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
