"""clingo: the closure by grounding; a solver pays for much that a closure does not need."""

from __future__ import annotations

import time

import clingo

from bench import memory
from bench.tasks import Answer, Task

CLOSURE = "closure(X,Y) :- edge(X,Y). closure(X,Y) :- edge(X,Z), closure(Z,Y)."


def run(task: Task) -> Answer:
    if task.kind != "closure" or task.graph is None or task.graph.form != "integer":
        return Answer(missing="not asked")
    control = clingo.Control(["--warn=none"])
    facts = "".join(f"edge({a},{b})." for a, b in task.graph.edges().tolist())
    control.add("base", [], facts + CLOSURE)
    before = memory.reset_peak()
    began = time.perf_counter()
    control.ground([("base", [])])
    seconds = time.perf_counter() - began
    size = sum(1 for _ in control.symbolic_atoms.by_signature("closure", 2))
    return Answer(seconds, size, memory.peak() - before, memory.peak())
