"""clingo: the closure by grounding; a solver pays for much that a closure does not need."""

from __future__ import annotations

import time
from collections.abc import Callable

import clingo

from bench import memory
from bench.programs import WORKLOADS, Workload
from bench.tasks import Answer, Task

CLOSURE = "closure(X,Y) :- edge(X,Y). closure(X,Y) :- edge(X,Z), closure(Z,Y)."


def run(task: Task) -> Answer:
    if task.kind == "program":
        return _program(WORKLOADS[task.options["program"]], task.options["size"])
    if task.kind != "closure" or task.graph is None or task.graph.form != "integer":
        return Answer(missing="not asked")
    facts = "".join(f"edge({a},{b})." for a, b in task.graph.edges().tolist())
    return _grounded(facts + CLOSURE, "closure", 2, time.perf_counter)


def _program(workload: Workload, size: int) -> Answer:
    """The seconds are processor time."""
    rows = ((name, row) for name, rows in workload.relations(size).items() for row in rows.tolist())
    facts = "".join(f"{name}({','.join(map(str, row))})." for name, row in rows)
    view = workload.counted
    return _grounded(facts + workload.rules, view, workload.columns[view], time.process_time)


def _grounded(text: str, view: str, columns: int, clock: Callable[[], float]) -> Answer:
    control = clingo.Control(["--warn=none"])
    control.add("base", [], text)
    before = memory.reset_peak()
    began = clock()
    control.ground([("base", [])])
    seconds = clock() - began
    size = sum(1 for _ in control.symbolic_atoms.by_signature(view, columns))
    return Answer(seconds, size, memory.peak() - before, memory.peak())
