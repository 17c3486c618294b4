"""The Spark session of the benchmarks: one per process, for Upshot and its peers."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from bench.tasks import Answer

PARTITIONS = 2

# Settings that suit two cores; anything that Upshot or the plain loop wants beyond that is its own business.
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "6g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.default.parallelism": str(PARTITIONS),
    # Twice the time for tiny jobs, and co-partitioning is lost: measured, so it is off for everybody.
    "spark.sql.adaptive.enabled": "false",
}


def session(**settings: str) -> Any:
    """A classic session; ends with the process."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("upshot bench").config("spark.sql.warehouse.dir", tempfile.gettempdir())
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def missing() -> Answer | None:
    """The answer if Spark cannot run here, with the reason; None if it can."""
    from tests.missing import missing_for_spark  # noqa: PLC0415  (what the tests ask, too)

    reason = missing_for_spark()
    return Answer(missing=reason) if reason else None
