"""TPC-H with refreshes: Upshot maintains all queries as views, DuckDB recomputes those that a refresh may change."""

from __future__ import annotations

import time
from typing import Any

import duckdb
import pyarrow

import upshot
from bench import memory
from bench.tasks import Answer, Task
from bench.tpch import SCHEMA, queries
from bench.tpch.data import Generator, Row, Rows


def run(task: Task) -> Answer:
    """`system`: Upshot or DuckDB; `size` is the number of rows of all queries at the end."""
    generator = Generator(task.options["scale"])
    tables = generator.tables()
    first = {name: list(rows) for name, rows in tables.items()}
    steps = list(generator.refreshes(tables, task.options["orders"], task.options["steps"]))
    system = _Upshot() if task.options["system"] == "upshot" else _Duck()
    before = memory.reset_peak()
    began = time.perf_counter()
    system.change(first, {})
    answer = Answer(seconds=time.perf_counter() - began)
    for number, (insert, delete) in enumerate(steps):
        began = time.perf_counter()
        system.change(insert, delete)
        sizes = system.sizes()
        answer.times.setdefault("insert" if number % 2 == 0 else "delete", []).append(time.perf_counter() - began)
        answer.size = sizes
        system.check()
    answer.memory, answer.peak = memory.peak() - before, memory.peak()
    answer.figures.update(system.figures)
    return answer


def touched() -> dict[str, str]:
    """The queries that read orders or their lines."""
    return {name: query for name, query in queries().items() if "lineitem" in query or "orders" in query}


class _Upshot:
    def __init__(self) -> None:
        self._db = upshot.connect()
        began = time.perf_counter()
        self._db.define(SCHEMA)
        self._db.define("".join(f"CREATE VIEW {name} AS {query};\n" for name, query in queries().items()))
        self.figures = {"define": time.perf_counter() - began}
        self._copies: dict[str, set[Row]] = {name: set() for name in queries()}
        """The rows of each view, computed from its changes only."""

    def change(self, insert: Rows, delete: Rows) -> None:
        with self._db.transaction() as tx:
            for name, rows in delete.items():
                tx.delete(name, rows)
            for name, rows in insert.items():
                tx.insert(name, rows)
        for name, copy in self._copies.items():
            if name in tx.changes:
                copy.difference_update(tx.changes[name].deleted)
                copy.update(tx.changes[name].inserted)

    def sizes(self) -> int:
        return sum(len(self._db.rows(name)) for name in touched())

    def check(self) -> None:
        """Raise unless the changes lead from the old rows to the new ones."""
        for name, copy in self._copies.items():
            if copy != set(self._db.rows(name)):
                raise AssertionError(f"the changes of {name} do not lead to its rows")


class _Duck:
    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self._connection = duckdb.connect()
        for table in SCHEMA.split(";"):
            if table.strip():
                self._connection.execute(table)

    def change(self, insert: Rows, delete: Rows) -> None:
        for name, rows in insert.items():
            columns = [each[0] for each in self._connection.execute(f"select * from {name} limit 0").description or ()]  # noqa: S608
            given: Any = pyarrow.table({column: [row[at] for row in rows] for at, column in enumerate(columns)})
            self._connection.register("given", given)
            self._connection.execute(f"insert into {name} select * from given")  # noqa: S608
            self._connection.unregister("given")
        keys = ", ".join(str(row[0]) for row in delete.get("orders", []))
        if keys:
            self._connection.execute(f"delete from lineitem where l_orderkey in ({keys})")  # noqa: S608
            self._connection.execute(f"delete from orders where o_orderkey in ({keys})")  # noqa: S608

    def check(self) -> None:
        """Without reported changes there is nothing to check."""

    def sizes(self) -> int:
        return sum(len(self._connection.execute(query).fetchall()) for query in touched().values())
