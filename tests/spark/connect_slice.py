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
from tests.properties.settings import is_slice, is_soak
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
SHARE = (len(SCRIPTS), PACK) if is_soak() else (3, 2) if is_slice() else (5, 4)
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


EDGES = [(x, x + 1) for x in range(200)]
"""A chain, whose closure is in files."""


def frames_joined(spark: Any, **place: str) -> list[int]:
    """Rows that came in as a frame and went out as frames, joined with those of the session."""
    with upshot.connect(spark=spark, engine="spark", **place) as db:
        db.define(".decl edge(x: number, y: number) .decl path(x: number, y: number)")
        db.define("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).")
        with db.transaction() as tx:
            tx.insert("edge", spark.createDataFrame(EDGES, "x long, y long"))
        mine = spark.range(3).withColumnRenamed("id", "x")
        frames = (tx.changes["edge"].inserted.to_spark(), db.rows("path").to_spark())
        return [frame.join(mine, "x").count() for frame in frames]


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
            found["realizations"] = "other ones than in process"
        spark.sql("CREATE SCHEMA upshot_connect")
        for place in ({}, {"location": "schema:upshot_connect"}):
            joined = frames_joined(spark, **place)
            if joined != [3, 200 + 199 + 198]:
                found[f"frames at {place}"] = str(joined)
        if spark.sql("SHOW TABLES IN upshot_connect").count():
            found["schema"] = "tables are left behind"
        told = {"session": type(spark).__module__, "ran": len(scripts) + len(random), "failed": found}
        sys.stdout.write(json.dumps(told) + "\n")
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
