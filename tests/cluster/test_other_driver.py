"""The driver of a pipeline dies in the middle of a batch, and with it its disk; a driver on another machine, which has
nothing but the lake in common with it, makes good what is missing."""

from __future__ import annotations

import io
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
from tests.cluster.cluster import Cluster, in_a_namespace_apart
from tests.cluster.hdfs import Hdfs
from tests.cluster.processes import HOST
from tests.spark_jvm import jvm_options
from upshot.pipeline.steps import Point, Step

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
engine = "{engine}"
state = "{lake}/state"

[pipeline.spark]
"spark.master" = "{master}"
"spark.driver.host" = "{host}"
"spark.driver.bindAddress" = "{host}"
"spark.driver.memory" = "1g"
"spark.executor.memory" = "1g"
"spark.executor.extraJavaOptions" = "{jvm}"
"spark.ui.enabled" = "false"
"spark.sql.shuffle.partitions" = "2"

[source.edge]
format = "changes"
path = "{lake}/edges"

[sink.closure]
format = "parquet"
changes = "{lake}/closure_changes"
"""
RUN = "import sys; from upshot.pipeline.run import run_pipeline; run_pipeline(sys.argv[1], once=True)"
STEPS: tuple[str, ...] = (*Step, Point.RECORDED)
"""Where every batch with bad rows can die; the other points depend on the kind of sink."""
CHAIN = [[n, n + 1] for n in range(10)]
CHANGES: tuple[dict[str, dict[str, list[list[int]]]], ...] = (
    {"insert": {"edge": CHAIN}},
    *(
        {"insert": {"edge": [[6, n % 5], CHAIN[n - 1]]}, "delete": {"edge": [CHAIN[n], [6, (n - 1) % 5]]}}
        for n in range(1, len(CHAIN))
    ),
)


def add(hdfs: Hdfs, lake: str, number: int) -> None:
    """A file of the next change, with a line that goes to quarantine."""
    hdfs.write(f"{lake}/edges/{number}.json", (json.dumps(CHANGES[number]) + "\n{\n").encode())


def run(folder: Path, machine: int, fault: str = "") -> int:
    """The exit code of a driver on a machine with an empty disk of its own, on which only `folder` can be read."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    if fault:
        environment |= {"UPSHOT_TESTING": "1", "UPSHOT_FAULT_AT": fault}
    disk = folder.parent / f"{folder.name}-disk{machine}"
    command = [*in_a_namespace_apart(disk, folder), sys.executable, "-c", RUN, str(folder / "pipeline.toml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode


def change_log(hdfs: Hdfs, lake: str) -> list[dict[str, Any]]:
    files = [path for path in hdfs.files(f"{lake}/closure_changes") if path.endswith(".parquet")]
    tables = [pyarrow.parquet.read_table(io.BytesIO(hdfs.read(path))) for path in files]
    return [row for table in tables for row in table.to_pylist()]


def expected(count: int) -> list[tuple[int, int, int]]:
    """The change log as the local engine writes it: change, row."""
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


@pytest.mark.parametrize(
    ("engine", "faults"),
    [
        ("spark", (str(Point.RECORDED),)),
        pytest.param("spark", STEPS, marks=pytest.mark.deep),
        pytest.param("auto", STEPS, marks=pytest.mark.deep),
    ],
    ids=["spark, once recorded", "spark, at every step", "auto, at every step"],
)
def test_a_driver_with_another_disk_goes_on_where_one_was_killed(
    apart: Cluster, hdfs: Hdfs, tmp_path: Path, engine: str, faults: tuple[str, ...]
) -> None:
    lake, count = f"pipeline-{engine}-{len(faults)}", len(faults) + 1
    settings = {"master": apart.master, "host": HOST, "jvm": jvm_options(), "lake": f"{hdfs.uri}/{lake}"}
    (tmp_path / "closure.dl").write_text(PROGRAM)
    (tmp_path / "pipeline.toml").write_text(CONFIG.format(engine=engine, **settings))
    for number, fault in enumerate(faults):
        add(hdfs, lake, number)
        assert run(tmp_path, 2 * number, fault) == -signal.SIGKILL, fault
        if len(faults) > 1:
            # Else the next fault would strike in the repetition of this batch, and files would wait to be one batch.
            assert run(tmp_path, 2 * number + 1) == 0, fault
    add(hdfs, lake, count - 1)
    assert run(tmp_path, 2 * count) == 0
    log = change_log(hdfs, lake)
    assert sorted((row["_change"], row["x"], row["y"]) for row in log) == expected(count)
    assert len({row["_version"] for row in log}) == count
