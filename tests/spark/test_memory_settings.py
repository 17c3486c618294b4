"""What a Python worker may take follows from where Spark runs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

import upshot
from upshot.core.resources import available_memory
from upshot.spark.session import worker_memory


def session(**settings: str) -> Any:
    known = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=known.get))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"upshot_worker_memory": "3g", "spark_master": "local[4]"}, 3 << 30),
        ({"spark_master": "spark://host:7077"}, 1 << 30),
        ({"spark_master": "spark://host:7077", "spark_executor_memory": "8g", "spark_executor_cores": "4"}, 2 << 30),
        ({"spark_master": "yarn", "spark_executor_memory": "20g", "spark_executor_cores": "2"}, 1 << 30),
        ({"spark_master": "yarn", "spark_executor_memory": "1g"}, 384 << 20),
        ({"spark_master": "k8s://host", "spark_executor_memoryOverhead": "6g", "spark_executor_cores": "3"}, 2 << 30),
        ({"spark_master": "yarn", "spark_executor_pyspark_memory": "4096", "spark_executor_cores": "2"}, 2 << 30),
    ],
)
def test_a_worker_takes_its_share(settings: dict[str, str], expected: int) -> None:
    assert worker_memory(session(**settings)) == expected


@pytest.mark.parametrize(
    ("master", "tasks"), [("local", 1), ("local[4]", 4), ("local[4, 2]", 4), ("local[*]", os.cpu_count() or 1)]
)
def test_on_one_machine_half_of_it_is_for_the_tasks_that_run_at_a_time_however_many_parts_there_are(
    master: str, tasks: int
) -> None:
    known = session(spark_master=master, spark_sql_shuffle_partitions="200")
    assert worker_memory(known) == available_memory() // (2 * tasks)


def test_a_size_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(upshot.UsageError, match=r"upshot\.worker\.memory"):
        worker_memory(session(upshot_worker_memory="much"))
