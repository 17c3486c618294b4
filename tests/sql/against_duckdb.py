"""Views in SQL held against other systems: after every transaction the same rows, and exactly the difference as the
change."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

import duckdb

import upshot
from tests.sql.random_queries import LONG, Row, Table, random_row
from upshot.core.schema import Schema
from upshot.core.types import Kind

QUOTIENT = 9
"""More places than a stored decimal has."""

State = Mapping[str, set[Row]]


class Judge(Protocol):
    """Another system with the same tables."""

    def define(self, view: str, query: str) -> bool:
        """Makes a view of the distinct rows of a query; false if the system cannot."""

    def answer(self, query: str, schema: Schema) -> set[Row] | None:
        """The rows, in the types of the schema; nothing if the system cannot tell."""

    def replace(self, state: State) -> None: ...
    def close(self) -> None: ...


def distinct(query: str) -> str:
    """Rows of views are a set."""
    return f"SELECT DISTINCT * FROM ({query}) AS every_row"  # noqa: S608 - random SQL is what is made here


class Peer:
    """DuckDB with the same tables."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables, self._connection = tables, duckdb.connect()
        # With it, DuckDB 2.0.0 has no rows for `x < (SELECT sum(x) FROM s LEFT JOIN t ON s.k = t.k AND FALSE)`.
        self._connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        for table in tables:
            self._connection.execute(table.definition())

    def define(self, view: str, query: str) -> bool:
        try:
            self._connection.execute(f"CREATE VIEW {view} AS {distinct(query)}")
        except duckdb.Error:
            return False
        return True

    def answer(self, query: str, schema: Schema | None = None) -> set[Row] | None:
        try:
            found = self._connection.execute(query)
            rows = found.fetchall()
        except duckdb.Error:
            # Decimals that grow beyond its digits, and recursions it has no plan for.
            return None
        if schema is not None and _rounds(found.description or (), schema):
            return None
        return comparable(rows)

    def replace(self, state: State) -> None:
        for table in self._tables:
            self._connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - a name of ours
            if state[table.name]:
                marks = ", ".join("?" * len(table.columns))
                rows = [list(row) for row in state[table.name]]
                self._connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)  # noqa: S608

    def close(self) -> None:
        self._connection.close()


def _rounds(columns: Sequence[Any], schema: Schema) -> bool:
    """DuckDB drops places of decimals that meet sums, which have 38 digits there, of fewer places."""
    scales = (re.fullmatch(r"DECIMAL\(\d+, ?(\d+)\)", str(column[1])) for column in columns)
    return any(
        type.kind is Kind.DECIMAL and scale is not None and int(scale[1]) < type.scale
        for scale, type in zip(scales, schema.types, strict=True)
    )


def comparable(rows: Iterable[Row]) -> set[Row]:
    """The rows with means and quotients to ten digits: systems round the last ones each in their own way."""
    return {tuple(f"{float(value):.10g}" if _is_rounded(value) else value for value in row) for row in rows}


def _is_rounded(value: object) -> bool:
    """A float, or a decimal with the places of a quotient."""
    return isinstance(value, float) or (isinstance(value, Decimal) and value.as_tuple().exponent <= -QUOTIENT)


def random_change(choice: random.Random, tables: Sequence[Table], state: State) -> tuple[State, State]:
    """Rows to insert and to delete, some of them there already or not there."""
    insert = {t.name: {random_row(choice, t) for _ in range(choice.randint(0, 4))} for t in tables}
    delete = {}
    for table in tables:
        present = sorted(state[table.name], key=repr)
        delete[table.name] = set(choice.sample(present, min(len(present), choice.randint(0, 2))))
    return insert, delete


def has_long(state: State) -> bool:
    """There are decimals from which too long ones can be computed."""
    every = (value for rows in state.values() for row in rows for value in row)
    return any(isinstance(value, Decimal) and abs(value) >= LONG for value in every)


def follow(
    choice: random.Random,
    db: upshot.Database,
    judges: Sequence[Judge],
    tables: Sequence[Table],
    views: Mapping[str, str],
    steps: int,
) -> Counter[str]:
    """Makes random transactions in all; asserts that rows and changes of all views are the same. Counted are the
    answers that were compared, those that no judge could give, and the transactions that had no room for a value."""
    counted: Counter[str] = Counter()
    state: dict[str, set[Row]] = {table.name: set() for table in tables}
    before: dict[str, set[Any]] = {view: comparable(db.rows(view)) for view in views}
    _compare(db, judges, views, before, counted, f"no rows of {views}")
    for step in range(steps):
        insert, delete = random_change(choice, tables, state)
        after = {name: (rows - delete[name]) | insert[name] for name, rows in state.items()}
        place = f"step {step} of {views} over {after}"
        try:
            with db.transaction() as tx:
                for table in tables:
                    tx.delete(table.name, list(delete[table.name]))
                    tx.insert(table.name, list(insert[table.name]))
        except upshot.OverflowError_:
            assert has_long(after), place
            counted["overflow"] += 1
            assert {view: comparable(db.rows(view)) for view in views} == before, place
            continue
        state = after
        for judge in judges:
            judge.replace(state)
        now = {view: comparable(db.rows(view)) for view in views}
        for view in views:
            db.rows(view).to_arrow()
            inserted, deleted = (comparable(rows) for rows in (tx.changes[view].inserted, tx.changes[view].deleted))
            # Means that differ only beyond ten digits are one row here.
            assert inserted >= now[view] - before[view], place
            assert deleted >= before[view] - now[view], place
            assert inserted <= now[view], place
            assert deleted <= before[view], place
        _compare(db, judges, views, now, counted, place)
        before = now
    return counted


def _compare(
    db: upshot.Database,
    judges: Sequence[Judge],
    views: Mapping[str, str],
    rows: Mapping[str, set[Row]],
    counted: Counter[str],
    place: str,
) -> None:
    for view, query in views.items():
        answers = [(judge, judge.answer(query, db.schemas[view])) for judge in judges]
        for judge, wanted in answers:
            if wanted is not None:
                counted[type(judge).__name__] += 1
                assert rows[view] == wanted, f"{type(judge).__name__}, `{query}`: {place}"
        counted["unjudged"] += all(wanted is None for _, wanted in answers)
