"""Upshot: followers of one query on an unstored recursive view, each with its own value."""

from __future__ import annotations

import time

import upshot
from bench.tasks import Answer, Task

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
.view reach materialized=false events=none
"""
CHAIN = 10
COMMITS = 300


def run(task: Task) -> Answer:
    """Chains of ten nodes, and a follower for each of the first nodes; commits before, after, and beside them."""
    followers = int(task.options["followers"])
    heard: list[object] = []
    with upshot.connect() as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(2 * followers) if i % CHAIN != CHAIN - 1])
        times = {"commit before": _commits(db, "p")}
        times["subscribe"] = []
        for number in range(followers):
            began = time.process_time()
            db.watch("reach($x, Y)", heard.append, x=f"n{number}")
            times["subscribe"].append(time.process_time() - began)
        heard.clear()
        times["commit beside"] = _commits(db, "q")
        beside, began = len(heard), time.process_time()
        with db.transaction() as tx:
            tx.insert("edge", [(f"n{CHAIN - 1}", "end")])
        times["commit of ten"] = [time.process_time() - began]
    figures = {"beside": float(beside), "probed": float(tx.stats.probed)}
    return Answer(size=len(heard) - beside, times=times, figures=figures)


def _commits(db: upshot.Database, name: str) -> list[float]:
    """Processor seconds of commits that affect no follower, after some first commits."""
    found = []
    for number in range(2 * COMMITS):
        began = time.process_time()
        with db.transaction() as tx:
            tx.insert("edge", [(f"{name}{number}", f"{name}_{number}")])
        found.append(time.process_time() - began)
    return found[COMMITS:]
