"""The driver of a pipeline dies on a cluster, in the middle of a batch; the next run makes good what is missing.

Deep: that of `test_other_driver.py` loses its disk, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import upshot
from tests.cluster.cluster import Cluster
from tests.cluster.processes import HOST
from tests.spark_jvm import jvm_options

pytestmark = pytest.mark.slow
"""Drivers are started and killed."""

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""
CONFIG = """
[pipeline]
name = "closure"
program = "closure.dl"
engine = "spark"
state = "state"

[pipeline.spark]
"spark.master" = "{master}"
"spark.driver.host" = "{host}"
"spark.driver.bindAddress" = "{host}"
"spark.driver.memory" = "1g"
"spark.executor.memory" = "512m"
"spark.executor.extraJavaOptions" = "{jvm}"
"spark.ui.enabled" = "false"
"spark.sql.shuffle.partitions" = "2"

[source.edge]
format = "changes"
path = "edges"

[sink.closure]
format = "parquet"
changes = "closure_changes"
"""
RUN = "import sys; from upshot.pipeline.run import run_pipeline; run_pipeline(sys.argv[1], once=True)"
FAULTS = ("read", "stage", "record", "recorded", "publish", "rename", "finish")
"""Where the driver is killed, one batch after another; on a single machine all points are gone through every time."""

CHAIN = [[n, n + 1] for n in range(10)]
CHANGES: tuple[dict[str, dict[str, list[list[int]]]], ...] = (
    {"insert": {"edge": CHAIN}},
    *(
        {"insert": {"edge": [[6, n % 5], CHAIN[n - 1]]}, "delete": {"edge": [CHAIN[n], [6, (n - 1) % 5]]}}
        for n in range(1, len(CHAIN))
    ),
)


def pipeline(folder: Path, cluster: Cluster) -> Path:
    (folder / "edges").mkdir(parents=True)
    (folder / "closure.dl").write_text(PROGRAM)
    (folder / "pipeline.toml").write_text(CONFIG.format(master=cluster.master, host=HOST, jvm=jvm_options()))
    return folder


def add(folder: Path, number: int) -> None:
    (folder / "edges" / f"{number}.json").write_text(json.dumps(CHANGES[number]) + "\n")


def run(folder: Path, fault: str = "") -> int:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    if fault:
        environment |= {"UPSHOT_TESTING": "1", "UPSHOT_FAULT_AT": fault}
    command = [sys.executable, "-c", RUN, str(folder / "pipeline.toml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def change_log(folder: Path) -> list[dict[str, Any]]:
    rows = pyarrow.parquet.read_table(folder / "closure_changes").to_pylist()
    return sorted(rows, key=lambda row: (row["_version"], row["_change"], row["x"], row["y"]))


def expected(count: int) -> list[tuple[int, int, int]]:
    """The change log as the local engine writes it: version, change, row."""
    log = []
    with upshot.connect() as db:
        db.define(PROGRAM)
        for change in CHANGES[:count]:
            with db.transaction() as tx:
                tx.delete("edge", [tuple(row) for row in change.get("delete", {}).get("edge", [])])
                tx.insert("edge", [tuple(row) for row in change.get("insert", {}).get("edge", [])])
            log += [(1, *row) for row in tx.changes["closure"].inserted]
            log += [(-1, *row) for row in tx.changes["closure"].deleted]
    return sorted(log)


@pytest.mark.deep
@pytest.mark.parametrize("faults", [("recorded",), FAULTS], ids=["once recorded", "at every step"])
def test_a_pipeline_whose_driver_is_killed_ends_as_if_nothing_had_happened(
    cluster: Cluster, tmp_path: Path, faults: tuple[str, ...]
) -> None:
    folder, count = pipeline(tmp_path / "faulty", cluster), len(faults) + 1
    for number, fault in enumerate(faults):
        add(folder, number)
        assert run(folder, fault) == -signal.SIGKILL, fault
        if len(faults) > 1:
            # Else the next fault would strike in the repetition of this batch, and files would wait to be one batch.
            assert run(folder) == 0, fault
    add(folder, count - 1)
    assert run(folder) == 0
    log = change_log(folder)
    assert sorted((row["_change"], row["x"], row["y"]) for row in log) == expected(count)
    assert len({row["_version"] for row in log}) == count
