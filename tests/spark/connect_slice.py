"""`python -m tests.spark.connect_slice`: a slice of the conformance suite through Spark Connect, in its own process.

A classic session and a Connect session cannot live in one process. Prints what failed, as JSON, by name.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import upshot
from tests.cluster.cluster import script
from tests.cluster.processes import eventually
from tests.properties.engines import Make
from tests.properties.settings import is_soak
from tests.spark.packing import failures
from tests.spark.test_conformance_random import PACK, named, packs
from tests.spark.test_conformance_scripts import parts
from tests.spark.test_realize import GOLDENS, answers, filled

SCRIPTS = (
    "closure_with_one_deletion_and_one_insertion",
    "aggregates_and_their_groups",
    "nan_and_negative_zero",
    "null_joins_with_nothing",
    "deletion_inside_a_cycle",
    "modules_of_different_systems",
    "mutual_recursion",
    "zero_arity_relations",
)
TURNS = ("production", "rod", "epf", "differencing", "propagation", "maintenance", "bf", "recompute")
"""The strategies of the scripts, one after another; the random cases begin with the others."""
SHARE = (len(SCRIPTS), PACK) if is_soak() else (5, 4)
"""How many scripts and random cases: the client of Spark Connect takes its time over every plan."""


@contextmanager
def server() -> Iterator[str]:
    """The address of a Connect server in a process of its own, as far from this one as any other machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    command = [script("spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", "--driver-memory", "1g"]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [*command, "spark-internal"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: is_open(port), "the Connect server", seconds=120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def given_ways(make: Make) -> list[tuple[set[str], str]]:
    """What the first worked examples of view updating come to."""
    with make() as db:
        filled(db, GOLDENS[:2])
        return answers(db, GOLDENS[:2])


def main() -> int:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (optional package)

    with server() as address:
        spark = SparkSession.builder.remote(address).config("spark.sql.shuffle.partitions", "2").getOrCreate()

        def make() -> Any:
            return upshot.connect(spark=spark, engine="spark")

        played = list(zip(SCRIPTS, TURNS, strict=True))[: SHARE[0]]
        scripts = {f"{name}, {strategy}": parts(strategy)[f"{name}, {strategy}"] for name, strategy in played}
        random = named(packs("connect")[0][: SHARE[1]])
        found = failures(make, {**scripts, **random})
        if given_ways(make) != given_ways(upshot.connect):
            found["realisations"] = "other ones than in process"
        told = {"session": type(spark).__module__, "ran": len(scripts) + len(random), "failed": found}
        sys.stdout.write(json.dumps(told) + "\n")
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
