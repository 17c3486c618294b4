"""Upshot: one active rule, activated for many items, in commits that affect one of them or none."""

from __future__ import annotations

import time

import upshot
from bench.tasks import Answer, Task

PROGRAM = """
.decl stock(item: number, n: number) key(item)
.decl order(item: number, n: number)
.rule reorder(I) active=false
    when stock(I, N), N < 10
    do insert order(I, N).
"""
COMMITS = 300
LAST = 100
"""The number of timed activations and deactivations."""


def run(task: Task) -> Answer:
    """Items with enough stock; the rule is activated for half of them, then an inactive and an active one are sold."""
    count = int(task.options["activations"])
    with upshot.connect() as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("stock", [(item, 1_000_000) for item in range(2 * count)])
        times = {"commit asleep": _commits(db, 2 * count - 1)}
        db.activate("reorder", I=0)
        times["commit of one"] = _commits(db, 2 * count - 1)
        times["activate"] = [_timed(db.activate, item) for item in range(1, count)][-LAST:]
        times["commit beside"] = _commits(db, 2 * count - 1)
        times["deactivate"] = [_timed(db.deactivate, item) for item in range(LAST)]
        with db.transaction() as beside:
            beside.upsert("stock", [(2 * count - 1, 1)])
        with db.transaction() as tx:
            tx.upsert("stock", [(count - 1, 1)])
    figures = {"beside": float(len(beside.firings)), "probed": float(tx.stats.probed)}
    figures["probed beside"] = float(beside.stats.probed)
    return Answer(size=sum(len(firing.rows) for firing in tx.firings), times=times, figures=figures)


def _timed(switch: object, item: int) -> float:
    began = time.process_time()
    assert callable(switch)
    switch("reorder", I=item)
    return time.process_time() - began


def _commits(db: upshot.Database, item: int) -> list[float]:
    """Processor seconds of commits that do not affect the rule, after some first commits."""
    found = []
    for number in range(2 * COMMITS):
        began = time.process_time()
        with db.transaction() as tx:
            tx.upsert("stock", [(item, 1_000 + number)])
        found.append(time.process_time() - began)
    return found[COMMITS:]
