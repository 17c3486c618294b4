"""Upshot on Spark and its peers, in the same session, on the same frames."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow

import upshot
from bench import spark_session
from bench.spark_loops import Loop, closure_loop, recursive_cte, same_generation_loop
from bench.tasks import Answer, Graph, Task

DECLARED = """
.decl edge(a: {type}, b: {type})
.decl closure(a: {type}, b: {type})
closure(X, Y) :- edge(X, Y).
"""
CLOSURE = {
    "right-linear": DECLARED + "closure(X, Y) :- edge(X, Z), closure(Z, Y).",
    "left-linear": DECLARED + "closure(X, Y) :- closure(X, Z), edge(Z, Y).",
    "non-linear": DECLARED + "closure(X, Y) :- closure(X, Z), closure(Z, Y).",
}
SAME_GENERATION = """
.decl edge(a: {type}, b: {type})
.decl sg(x: {type}, y: {type})
sg(X, Y) :- edge(P, X), edge(P, Y), X != Y.
sg(X, Y) :- edge(A, X), sg(A, B), edge(B, Y).
"""
COMPONENTS = """
.decl edge(a: {type}, b: {type})
.decl link(a: {type}, b: {type})
.decl joined(a: {type}, b: {type})
.decl component(a: {type}, least: {type})
link(X, Y) :- edge(X, Y). link(X, X) :- edge(X, _).
link(X, Y) :- edge(Y, X). link(X, X) :- edge(_, X).
joined(X, Y) :- link(X, Y).
joined(X, Z) :- joined(X, Y), link(Y, Z).
component(X, C) :- link(X, _), C = min Y : { joined(X, Y) }.
"""
TIMES = 3
"""Short measurements are repeated this often; the median counts."""


def run(task: Task) -> Answer:
    """`size` is checked after every run; a wrong one fails the benchmark."""
    cannot = spark_session.missing()
    if cannot is not None:
        return cannot
    spark = spark_session.session()
    assert task.graph is not None
    works: dict[str, Callable[[Any, Task], Answer]] = {
        "spark_closure": _closure,
        "spark_same_generation": _same_generation,
        "spark_components": _components,
    }
    _warm_up(spark, task.graph.form)
    return works[task.kind](spark, task)


def _warm_up(spark: Any, form: str) -> None:
    """Run Spark and Upshot once before the measurement, on a graph of both kinds."""
    small = Task("spark_closure", Graph("grid", (8,), form))
    size = small.graph.closure_size() if small.graph else 0
    for text in CLOSURE.values():
        _upshot(spark, _table(small), text, "closure", form, size)
    closure_loop(spark.createDataFrame(_table(small)), cap=60)


def _closure(spark: Any, task: Task) -> Answer:
    assert task.graph is not None
    table, size, form = _table(task), task.options["size"], task.graph.form
    answer = Answer(size=size)
    for name in task.options["programs"]:
        answer.figures[name] = _middle(partial(_upshot, spark, table, CLOSURE[name], "closure", form, size))
    edges = spark.createDataFrame(table)
    if task.options.get("loop"):
        _note(answer, closure_loop(edges, task.options["loop"]), size)
    if task.options.get("cte"):
        answer.notes |= dict(recursive_cte(spark, edges))
    return answer


def _same_generation(spark: Any, task: Task) -> Answer:
    assert task.graph is not None
    table, size, form = _table(task), task.options["size"], task.graph.form
    answer = Answer(size=size)
    answer.figures["upshot"] = _middle(partial(_upshot, spark, table, SAME_GENERATION, "sg", form, size))
    _note(answer, same_generation_loop(spark.createDataFrame(table), task.options["loop"]), size)
    return answer


def _components(spark: Any, task: Task) -> Answer:
    """The number of nodes with a component."""
    assert task.graph is not None
    table, size, form = _table(task), task.options["size"], task.graph.form
    answer = Answer(size=size)
    answer.figures["upshot"] = _middle(partial(_upshot, spark, table, COMPONENTS, "component", form, size))
    return answer


def _upshot(spark: Any, table: Any, text: str, view: str, form: str, size: int) -> float:
    """The seconds from a table of edges to the view as a DataFrame, counted by Spark."""
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(text.replace("{type}", "symbol" if form == "text" else "number"))
        began = time.perf_counter()
        db.register("edge", table)
        found = db.rows(view).to_spark().count()
        seconds = time.perf_counter() - began
    if found != size:
        raise AssertionError(f"{view} has {found:,} tuples, exactly {size:,} expected\n{text}")
    return seconds


def _middle(work: Callable[[], float]) -> float:
    return statistics.median(work() for _ in range(TIMES))


def _note(answer: Answer, loop: Loop, size: int) -> None:
    if loop.size is not None and loop.size != size:
        raise AssertionError(f"the loop found {loop.size:,} tuples, exactly {size:,} expected")
    answer.figures |= {"loop": loop.seconds, "loop rounds": float(loop.rounds)}
    if loop.size is None:
        answer.notes["loop"] = f"stopped after {loop.rounds} rounds"


def _table(task: Task) -> Any:
    assert task.graph is not None
    return pyarrow.table(task.graph.columns(), names=["a", "b"])
