"""The parts of the cluster tests are as they claim: machines share nothing, HDFS and the object store take files."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.hdfs import Hdfs
from tests.cluster.object_store import ObjectStore

pytestmark = pytest.mark.slow
"""A cluster is started."""


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
