"""DuckDB: recursive common table expressions, in process, with its default number of threads."""

from __future__ import annotations

import time
from typing import Any

import duckdb
import numpy as np
import pyarrow

from bench import memory
from bench.inventory import Inventory
from bench.programs import WORKLOADS, Workload
from bench.tasks import Answer, Graph, Task

CLOSURE = """
with recursive closure(a, b) as (
  select a, b from edge
  union
  select edge.a, closure.b from edge join closure on edge.b = closure.a)
select count(*) from closure"""

LABELED_CLOSURE = """
with recursive closure(a, b, l) as (
  select a, b, l from edge
  union
  select edge.a, closure.b, edge.l from edge join closure on edge.b = closure.a and edge.l = closure.l)
select count(*) from closure"""

SAME_GENERATION = """
with recursive sg(x, y) as (
  select l.b, r.b from edge l join edge r on l.a = r.a where l.b <> r.b
  union
  select l.b, r.b from sg join edge l on l.a = sg.x join edge r on r.a = sg.y)
select count(*) from sg"""

LOW = """
select count(*) from quantity q, consume_freq f, delivery_time d, supplies s, min_stock m
where q.item = f.item and d.item = f.item and s.supplier = d.supplier and s.item = f.item and m.item = f.item
  and q.n < f.n * d.days + m.n"""


def run(task: Task) -> Answer:
    if task.kind == "inventory":
        return _inventory(task)
    if task.kind == "program":
        return _program(WORKLOADS[task.options["program"]], task.options["size"])
    if task.kind not in ("closure", "same_generation"):
        return Answer(missing="no incremental maintenance of recursive queries")
    assert task.graph is not None
    queries = {"closure": CLOSURE, "same_generation": SAME_GENERATION}
    query = LABELED_CLOSURE if task.graph.form == "ternary" else queries[task.kind]
    _load(Graph("grid", (8,), "integer")).execute(queries[task.kind])  # everything is loaded once before the clock runs
    connection = _load(task.graph)
    before = memory.reset_peak()
    began = time.perf_counter()
    (size,) = _one(connection, query)
    seconds = time.perf_counter() - began
    return Answer(seconds, size, memory.peak() - before, memory.peak())


def _load(graph: Graph) -> Any:
    connection = duckdb.connect()
    table = pyarrow.table(graph.columns(), names=["a", "b", "l"][: 3 if graph.form == "ternary" else 2])
    connection.register("given", table)
    connection.execute("create table edge as select * from given")
    connection.unregister("given")
    return connection


def _program(workload: Workload, size: int) -> Answer:
    """The seconds are processor time of all threads."""
    if not workload.query:
        return Answer(missing="mutual or non-linear recursion")
    connection = duckdb.connect()
    for name, rows in workload.relations(size).items():
        columns = [np.ascontiguousarray(column) for column in rows.T]
        connection.register("given", pyarrow.table(columns, names=[f"c{i}" for i in range(len(columns))]))
        connection.execute(f"create table {name} as select * from given")  # noqa: S608 - names are constants
        connection.unregister("given")
    before, began = memory.reset_peak(), time.process_time()
    (found,) = _one(connection, workload.query)
    return Answer(time.process_time() - began, found, memory.peak() - before, memory.peak())


def _inventory(task: Task) -> Answer:
    """The method without maintenance: change the row, repeat the query."""
    inventory = Inventory(task.options["items"])
    connection = duckdb.connect()
    for name, columns in inventory.relations().items():
        connection.register("given", pyarrow.table(columns))
        connection.execute(f"create table {name} as select * from given")  # noqa: S608 - names are constants
        connection.unregister("given")
    (size,) = _one(connection, LOW)
    times = []
    for item, quantity in inventory.crossings(task.options["repeat"]):
        began = time.perf_counter()
        connection.execute("update quantity set n = ? where item = ?", [quantity, item])
        (now,) = _one(connection, LOW)
        times.append(time.perf_counter() - began)
        size, before = now, size
        if now != before + 1:
            raise AssertionError(f"low has {now} items, {before + 1} expected")
    return Answer(sum(times), size, times={"1": times})


def _one(connection: Any, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return tuple(row)
