"""One PostgreSQL server for the whole run, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pipeline.postgres import Cluster, started


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with started() as found:
        yield found
