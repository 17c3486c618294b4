"""`python -m tests.spark.one_core_slice`: a slice of the conformance suite with one core and one partition.

What takes a second task to go on would wait for ever there. In its own process, since one has one session. Prints what
failed, as JSON, by name.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import upshot
from tests.properties.settings import is_soak
from tests.spark.conftest import SETTINGS
from tests.spark.packing import failures
from tests.spark.test_conformance_random import PACK, histories, named, packs

ALONE = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}
SHARE = PACK if is_soak() else 3
"""How many random cases, and as many histories."""


def main() -> int:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    builder = SparkSession.builder.appName("upshot tests, one core")
    for name, value in {**SETTINGS, **ALONE}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def make() -> Any:
        return upshot.connect(spark=spark, engine="spark")

    random = named(packs("one core")[0][:SHARE])
    evolving = dict(list(histories("one core").items())[:SHARE])
    found = failures(make, {**random, **evolving})
    cores = spark.sparkContext.defaultParallelism
    sys.stdout.write(json.dumps({"cores": cores, "ran": len(random) + len(evolving), "failed": found}) + "\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
