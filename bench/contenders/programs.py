"""Upshot on the programs of B12: a load from empty, then rows of one relation out and in again."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow

import upshot
from bench import memory
from bench.contenders.upshot import warm_up
from bench.programs import WORKLOADS, Rows
from bench.tasks import Answer, Task


def run(task: Task) -> Answer:
    warm_up()
    workload = WORKLOADS[task.options["program"]]
    relations = {name: table(rows) for name, rows in workload.relations(task.options["size"]).items()}
    db = upshot.connect()
    db.define(workload.declared())
    before, began = memory.reset_peak(), time.process_time()
    with db.transaction() as tx:
        for name, rows in relations.items():
            tx.insert(name, rows)
    answer = Answer(time.process_time() - began, len(db.rows(workload.counted)), memory.peak() - before, memory.peak())
    answer.figures = {"probed": tx.stats.probed, "derived": tx.stats.derived}
    changes = changed_rows(workload.relations(task.options["size"])[workload.changed], task.options["changes"])
    answer.times = {"delete": [], "insert": []}
    for row in changes:
        for kind, seconds in answer.times.items():
            began = time.process_time()
            with db.transaction() as tx:
                getattr(tx, kind)(workload.changed, [row])
            if workload.counted in tx.changes:
                _ = list(tx.changes[workload.counted].inserted), list(tx.changes[workload.counted].deleted)
            seconds.append(time.process_time() - began)
    if len(db.rows(workload.counted)) != answer.size:
        raise AssertionError(f"{len(db.rows(workload.counted))} rows after the changes, {answer.size} before")
    return answer


def table(rows: Rows) -> Any:
    return pyarrow.table([np.ascontiguousarray(c) for c in rows.T], names=[f"c{i}" for i in range(rows.shape[1])])


def changed_rows(rows: Rows, count: int) -> list[tuple[int, ...]]:
    """The rows that are deleted and inserted again, the same for every contender."""
    places = np.random.default_rng(9).permutation(len(rows))[:count]
    return [tuple(row) for row in rows[places].tolist()]
