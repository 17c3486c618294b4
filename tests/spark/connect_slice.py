"""`python -m tests.spark.connect_slice`: a slice of the conformance suite through Spark Connect, in its own process.

A classic session and a Connect session cannot live in one process. Prints what failed, as JSON, by name.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import upshot
from tests.spark.packing import failures
from tests.spark.test_conformance_random import named, packs
from tests.spark.test_conformance_scripts import parts

SCRIPTS = (
    "closure_with_one_deletion_and_one_insertion",
    "aggregates_and_their_groups",
    "deletion_inside_a_cycle",
    "modules_of_different_systems",
    "mutual_recursion",
    "nan_and_negative_zero",
    "null_joins_with_nothing",
    "zero_arity_relations",
)
RANDOM = 8


def connected() -> Any:
    """A Connect session with a server of its own, which ends with this process."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.simplefilter("ignore")  # the settings below belong to the server, which the client says of each
    builder = SparkSession.builder.remote("local[2]").config("spark.driver.memory", "1g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def main() -> int:
    spark = connected()
    if "connect" not in type(spark).__module__:
        raise SystemExit(f"{type(spark)} is not a Connect session")

    def make() -> Any:
        return upshot.connect(spark=spark, engine="spark")

    scripts = {name: part for name, part in parts("maintenance").items() if name.partition(",")[0] in SCRIPTS}
    random = named(packs("connect")[0][:RANDOM])
    found = failures(make, {**scripts, **random})
    sys.stdout.write(json.dumps({"ran": len(scripts) + len(random), "failed": found}) + "\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
