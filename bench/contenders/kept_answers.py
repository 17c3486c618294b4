"""Upshot: repeated queries on an unstored recursive view, with many values."""

from __future__ import annotations

import time

import upshot
from bench.contenders.live_queries import CHAIN, PROGRAM
from bench.tasks import Answer, Task


def run(task: Task) -> Answer:
    """Chains of ten nodes; each of the first nodes is queried three times, then a commit affects ten of them."""
    count = int(task.options["parameters"])
    with upshot.connect(keep_answers=20 * CHAIN * count) as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(2 * count) if i % CHAIN != CHAIN - 1])
        times = {name: [_ask(db, number) for number in range(count)] for name in ("on demand", "begin", "kept")}
        commits = {}
        for name, edge in (("beside", ("elsewhere", "nowhere")), ("of ten", (f"n{CHAIN - 1}", "end"))):
            with db.transaction() as tx:
                tx.insert("edge", [edge])
            commits[name] = float(tx.stats.probed)
        use = db.kept_answers
        size = len(db.query("reach($x, Y)", x="n0"))
    figures = {"beside": commits["beside"], "of ten": commits["of ten"], "rows": float(use.rows)}
    figures |= {"hits": float(use.hits), "kept": float(use.parameters)}
    return Answer(size=size, times=times, figures=figures)


def _ask(db: upshot.Database, number: int) -> float:
    began = time.process_time()
    db.query("reach($x, Y)", x=f"n{number}")
    return time.process_time() - began
