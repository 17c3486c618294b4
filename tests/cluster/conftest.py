"""Two clusters, one whose machines share a disk and one whose machines share nothing, and sessions on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, session
from tests.cluster.hdfs import Hdfs
from tests.cluster.object_store import ObjectStore
from tests.cluster.processes import HOST
from tests.missing import missing_for_spark


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


@pytest.fixture(scope="module")
def spark_apart(apart: Cluster, hdfs: Hdfs, object_store: ObjectStore) -> Iterator[Any]:
    """A session of one module on the cluster that shares nothing, which reaches HDFS and the object store, but not the
    server of the bucket `elsewhere`."""
    nobody = {"spark.hadoop.fs.s3a.bucket.elsewhere.endpoint": f"http://{HOST}:1"}
    made = session(apart, **object_store.settings, **nobody)
    yield made
    made.stop()
