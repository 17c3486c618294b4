"""The driver of a pipeline dies on a cluster, in the middle of a batch; the next run makes good what is missing."""

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
from tests.cluster.cluster import HOST, Cluster

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
CHANGES = (
    {"insert": {"edge": [[n, n + 1] for n in range(8)]}},
    {"insert": {"edge": [[3, 1]]}, "delete": {"edge": [[5, 6]]}},
    {"insert": {"edge": [[5, 6]]}, "delete": {"edge": [[0, 1], [3, 1]]}},
)


def pipeline(folder: Path, cluster: Cluster) -> Path:
    (folder / "edges").mkdir(parents=True)
    (folder / "closure.dl").write_text(PROGRAM)
    (folder / "pipeline.toml").write_text(CONFIG.format(master=cluster.master, host=HOST))
    return folder


def add(folder: Path, number: int) -> None:
    (folder / "edges" / f"{number}.json").write_text(json.dumps(CHANGES[number]) + "\n")


def run(folder: Path, fault: str = "") -> int:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    if fault:
        environment |= {"UPSHOT_TESTING": "1", "UPSHOT_FAULT_AT": fault}
    command = [sys.executable, "-c", RUN, str(folder / "pipeline.toml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def change_log(folder: Path) -> list[dict[str, Any]]:
    rows = pyarrow.parquet.read_table(folder / "closure_changes").to_pylist()
    return sorted(rows, key=lambda row: (row["_version"], row["_change"], row["x"], row["y"]))


def expected() -> list[tuple[int, int, int]]:
    """The change log as the local engine writes it: version, change, row."""
    log = []
    with upshot.connect() as db:
        db.define(PROGRAM)
        for change in CHANGES:
            with db.transaction() as tx:
                tx.delete("edge", [tuple(row) for row in change.get("delete", {}).get("edge", [])])
                tx.insert("edge", [tuple(row) for row in change.get("insert", {}).get("edge", [])])
            log += [(1, *row) for row in tx.changes["closure"].inserted]
            log += [(-1, *row) for row in tx.changes["closure"].deleted]
    return sorted(log)


def test_a_pipeline_whose_driver_is_killed_ends_as_if_nothing_had_happened(cluster: Cluster, tmp_path: Path) -> None:
    folder = pipeline(tmp_path / "faulty", cluster)
    add(folder, 0)
    assert run(folder) == 0
    add(folder, 1)
    assert run(folder, "recorded") == -signal.SIGKILL
    add(folder, 2)
    assert run(folder) == 0
    log = change_log(folder)
    assert sorted((row["_change"], row["x"], row["y"]) for row in log) == expected()
    assert len({row["_version"] for row in log}) == len(CHANGES)
