"""Upshot on the local engine, by its public API."""

from __future__ import annotations

import time
from typing import Any

import pyarrow

import upshot
from bench import memory
from bench.edge_changes import EdgeChange, edge_changes
from bench.inventory import PROGRAM as INVENTORY
from bench.inventory import RULES, Inventory
from bench.tasks import Answer, Graph, Task

PAIR = """
.decl edge(a: {type}, b: {type})
.decl closure(a: {type}, b: {type})
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
"""

TERNARY = """
.decl edge(a: number, b: number, l: number)
.decl closure(a: number, b: number, l: number)
closure(X, Y, L) :- edge(X, Y, L).
closure(X, Y, L) :- edge(X, Z, L), closure(Z, Y, L).
"""

SAME_GENERATION = """
.decl edge(a: number, b: number)
.decl sg(x: number, y: number)
sg(X, Y) :- edge(P, X), edge(P, Y), X != Y.
sg(X, Y) :- edge(A, X), sg(A, B), edge(B, Y).
"""


def run(task: Task) -> Answer:
    warm_up()
    match task.kind:
        case "closure" | "same_generation":
            return _load(task)
        case "changes":
            return _changes(task)
        case "inventory":
            return _inventory(task)
    raise ValueError(f"no such task: {task.kind}")


def warm_up() -> None:
    """Load the compiled kernels before the measurement; a process does this once."""
    db = _define(Graph("grid", (20,)), "closure")
    db.register("edge", _table(Graph("grid", (20,))))
    db.close()


def _define(graph: Graph, view: str) -> Any:
    db = upshot.connect()
    if view == "sg":
        db.define(SAME_GENERATION)
    elif graph.form == "ternary":
        db.define(TERNARY)
    else:
        db.define(PAIR.format(type="symbol" if graph.form == "text" else "number"))
    return db


def _table(graph: Graph) -> Any:
    names = ["a", "b", "l"] if graph.form == "ternary" else ["a", "b"]
    return pyarrow.table(graph.columns(), names=names)


def _load(task: Task) -> Answer:
    assert task.graph is not None
    view = "sg" if task.kind == "same_generation" else "closure"
    db, answer = _loaded(task.graph, view)
    answer.size = len(db.rows(view))
    return answer


def _loaded(graph: Graph, view: str) -> tuple[Any, Answer]:
    """The database with its view materialized, and the seconds for that."""
    db, table = _define(graph, view), _table(graph)
    before = memory.reset_peak()
    began = time.perf_counter()
    db.register("edge", table)
    seconds = time.perf_counter() - began
    peak = memory.peak()
    return db, Answer(seconds, 0, peak - before, peak)


def _changes(task: Task) -> Answer:
    """An edge is deleted and inserted in two transactions; both deltas are read completely."""
    assert task.graph is not None
    changes = edge_changes(task.graph, task.options["edges"])
    db, answer = _loaded(task.graph, "closure")
    answer.size = size = len(db.rows("closure"))
    times: dict[str, list[float]] = {"delete": [], "insert": []}
    for change in changes:
        began = time.perf_counter()
        with db.transaction() as tx:
            tx.delete("edge", [change.row])
        lost = sum(1 for _ in tx.changes["closure"].deleted)
        times["delete"].append(time.perf_counter() - began)
        _expect(change, lost, len(tx.changes["closure"].inserted))
        began = time.perf_counter()
        with db.transaction() as tx:
            tx.insert("edge", [change.row])
        won = sum(1 for _ in tx.changes["closure"].inserted)
        times["insert"].append(time.perf_counter() - began)
        _expect(change, won, len(tx.changes["closure"].deleted))
    if len(db.rows("closure")) != size:
        raise AssertionError(f"the closure has {len(db.rows('closure'))} tuples, {size} before the changes")
    answer.times = times
    answer.peak = memory.peak()
    return answer


def _expect(change: EdgeChange, changed: int, wrong_side: int) -> None:
    if (changed, wrong_side) != (change.lost, 0):
        raise AssertionError(f"edge {change.row}: {changed} and {wrong_side} changed, {change.lost} and 0 expected")


def _inventory(task: Task) -> Answer:
    """Quantities fall under their thresholds, 1, 10 or 1,000 in a transaction, and rise again (not timed). A rule that
    answers is defined after the load."""
    inventory = Inventory(task.options["items"])
    db = upshot.connect()
    db.define(INVENTORY)
    tables = {name: pyarrow.table(columns) for name, columns in inventory.relations().items()}
    before = memory.reset_peak()
    began = time.perf_counter()
    with db.transaction() as tx:
        for name, table in tables.items():
            tx.insert(name, table)
    seconds = time.perf_counter() - began
    answer = Answer(seconds, len(db.rows("low")), memory.peak() - before, memory.peak())
    if answer.size != int(inventory.low.sum()):
        raise AssertionError(f"low has {answer.size} items, {int(inventory.low.sum())} expected")
    rule = task.options.get("rule", "")
    db.action("order", _CALLED.extend)
    db.define(RULES[rule])
    for batch, repeat in task.options["batches"]:
        answer.times[str(batch)] = (_orders if rule else _crossings)(db, inventory, batch, repeat)
    return answer


_CALLED: list[Any] = []
"""The arguments of the function that the rule calls."""


def _orders(db: Any, inventory: Inventory, batch: int, repeat: int) -> list[float]:
    """As `_crossings`, until the order is made: the row in `order`, or the call."""
    times = []
    rows = list(inventory.crossings(batch * repeat))
    for start in range(0, len(rows), batch):
        under = rows[start : start + batch]
        expected = sorted(inventory.order(*row) for row in under)
        _CALLED.clear()
        began = time.perf_counter()
        with db.transaction() as tx:
            tx.upsert("quantity", under)
        made = _CALLED or list(tx.changes["order"].inserted)
        times.append(time.perf_counter() - began)
        if sorted(made) != expected or tx.stats.firings != {"reorder": 1}:
            raise AssertionError(f"{len(made)} orders, {len(under)} expected")
        with db.transaction() as tx:
            tx.upsert("quantity", [(item, inventory.quantity_of(item)) for item, _ in under])
            if not _CALLED:
                tx.delete("order", expected)
        if tx.firings:
            raise AssertionError("a rule fired for an item that is not low any more")
    return times


def _crossings(db: Any, inventory: Inventory, batch: int, repeat: int) -> list[float]:
    times = []
    rows = list(inventory.crossings(batch * repeat))
    for start in range(0, len(rows), batch):
        under = rows[start : start + batch]
        began = time.perf_counter()
        with db.transaction() as tx:
            tx.upsert("quantity", under)
        fired = list(tx.changes["low"].inserted)
        times.append(time.perf_counter() - began)
        if sorted(fired) != sorted((item,) for item, _ in under):
            raise AssertionError(f"{len(fired)} items became low, {len(under)} expected")
        with db.transaction() as tx:
            tx.upsert("quantity", [(item, inventory.quantity_of(item)) for item, _ in under])
    return times
