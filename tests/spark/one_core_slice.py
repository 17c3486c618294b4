"""`python -m tests.spark.one_core_slice`: a slice of the conformance suite with one core and one partition.

What takes a second task to go on would wait for ever there. In its own process, since one has one session. Prints what
failed, as JSON, by name, and what was logged of a commit whose joins find no memory.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any
from unittest import mock

import upshot
from tests.properties.settings import is_slice, is_soak
from tests.spark.conftest import SETTINGS
from tests.spark.engine_driver import SparkDriver
from tests.spark.packing import failures
from tests.spark.test_conformance_random import PACK, histories, named, packs
from upshot.engine.spark.frames import joins

ALONE = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}
SHARE = PACK if is_soak() else 2 if is_slice() else 3
"""How many random cases, and as many histories."""


def commit_beyond_memory(spark: Any, location: str | None = None) -> str:
    """What is logged of two commits that are exact. Without the bound on hashed joins, the one task of the first asks
    for more pages than Spark has on a core with a gigabyte or less, and fails for real."""
    rules = " ".join(f'far(X, W) :- a(X, Y), b(Y, Z), c(Z, W), X != "{n}".' for n in range(16))
    text = " ".join(f".decl {name}(x: symbol, y: symbol)" for name in ("a", "b", "c", "far")) + rules
    chain = [(str(node), str(node + 1)) for node in range(20)]
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("upshot.spark")
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        with mock.patch.object(joins, "MOST_HASHED", 1000), SparkDriver(spark, text, location=location) as it:
            it.change(insert=dict.fromkeys(("a", "b", "c"), chain))
            it.assert_exact()
            it.change(insert={"a": [("30", "3")]}, delete={"b": [chain[9]]})
            it.assert_exact()
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return "\n".join(logged)


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
    cores, ran = spark.sparkContext.defaultParallelism, len(random) + len(evolving)
    told = {"cores": cores, "ran": ran, "failed": found, "logged": commit_beyond_memory(spark)}
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
