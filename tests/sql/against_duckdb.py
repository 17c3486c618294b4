"""Views in SQL held against DuckDB: after every transaction the same rows, and exactly the difference as the change."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

import upshot
from tests.sql.random_queries import Row, Table, random_row

State = Mapping[str, set[Row]]


class Peer:
    """DuckDB with the same tables."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables, self._connection = tables, duckdb.connect()
        for table in tables:
            self._connection.execute(table.definition())

    def answer(self, query: str) -> set[Row]:
        return set(self._connection.execute(query).fetchall())

    def replace(self, state: State) -> None:
        for table in self._tables:
            self._connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - a name of ours
            if state[table.name]:
                marks = ", ".join("?" * len(table.columns))
                rows = [list(row) for row in state[table.name]]
                self._connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)  # noqa: S608

    def close(self) -> None:
        self._connection.close()


def random_change(choice: random.Random, tables: Sequence[Table], state: State) -> tuple[State, State]:
    """Rows to insert and to delete, some of them there already or not there."""
    insert = {t.name: {random_row(choice, t) for _ in range(choice.randint(0, 4))} for t in tables}
    delete = {}
    for table in tables:
        present = sorted(state[table.name], key=repr)
        delete[table.name] = set(choice.sample(present, min(len(present), choice.randint(0, 2))))
    return insert, delete


def follow(
    choice: random.Random,
    db: upshot.Database,
    peer: Peer,
    tables: Sequence[Table],
    views: Mapping[str, str],
    steps: int,
) -> None:
    """Makes random transactions in both; asserts that rows and changes of all views are the same."""
    state: dict[str, set[Row]] = {table.name: set() for table in tables}
    before: dict[str, set[Any]] = {view: set(db.rows(view)) for view in views}
    for view, query in views.items():
        assert before[view] == peer.answer(query), query
    for step in range(steps):
        insert, delete = random_change(choice, tables, state)
        with db.transaction() as tx:
            for table in tables:
                tx.delete(table.name, list(delete[table.name]))
                tx.insert(table.name, list(insert[table.name]))
        state = {name: (rows - delete[name]) | insert[name] for name, rows in state.items()}
        peer.replace(state)
        for view, query in views.items():
            wanted = peer.answer(query)
            place = f"step {step} of {query} over {state}"
            assert set(db.rows(view)) == wanted, place
            assert set(tx.changes[view].inserted) == wanted - before[view], place
            assert set(tx.changes[view].deleted) == before[view] - wanted, place
            before[view] = wanted
