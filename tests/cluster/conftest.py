"""One cluster of a master and two workers, and one session on it, for all fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, session
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
