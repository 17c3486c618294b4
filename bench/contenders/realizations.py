"""Upshot: requests to a view, each answered with all its realizations and their effects."""

from __future__ import annotations

import json
import time

import upshot
from bench.permissions import PROGRAM, base_facts, wishes
from bench.tasks import Answer, Task

WARMING = 2
"""Requests of each kind before the measured ones, which compile queries."""


def run(task: Task) -> Answer:
    facts = base_facts(task.options["facts"])
    db = upshot.connect()
    db.define(PROGRAM)
    with db.transaction() as tx:
        for name, rows in facts.items():
            tx.insert(name, rows)
    answer = Answer(times={}, size=sum(map(len, facts.values())))
    found: list[list[str]] = []
    seen: dict[str, int] = {}
    for wish in wishes(facts, task.options["each"] + WARMING):
        seen[wish.kind] = seen.get(wish.kind, 0) + 1
        started = time.process_time()
        given = {"access": [wish.row]}
        asked = (None, given) if wish.kind == "take" else (given, None)
        ways = db.realize(*asked, frozen=wish.frozen, bounds=upshot.Bounds(new_constants=0))
        listed = sorted("; ".join(_changes(way)) for way in ways)
        spent = time.process_time() - started
        if seen[wish.kind] > WARMING:
            answer.times.setdefault(wish.kind, []).append(spent)
            found.append(listed)
            for name, number in ways.work.items():
                answer.figures[name] = max(answer.figures.get(name, 0), number)
    answer.notes["found"] = json.dumps(found)
    return answer


def _changes(way: upshot.Realization) -> list[str]:
    lines = [f"+{name}{row}" for name, rows in way.insert.items() for row in rows]
    return sorted([*lines, *(f"-{name}{row}" for name, rows in way.delete.items() for row in rows)])
