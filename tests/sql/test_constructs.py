"""Every construct once, over a company with NULL in it: the rows that SQL demands, which DuckDB gives too, and
that they are kept when the company changes. The cases are in `constructs.sql`."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import upshot
from tests.sql.company import ROWS, TABLES

Row = tuple[Any, ...]


def _cases() -> Iterator[Any]:
    """A name, a query up to the semicolon, and behind it the rows, one a line."""
    for block in (Path(__file__).parent / "constructs.sql").read_text().split("\n\n"):
        query, _, rows = block.partition(";\n")
        name, _, query = query.partition("\n")
        written = [line.removeprefix("--> ") for line in rows.splitlines()]
        found = {eval(line, {"Decimal": Decimal}) for line in written if line != "none"}
        yield pytest.param(query, found, id=name.removeprefix("-- "))


@pytest.fixture(scope="module")
def peer() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(TABLES)
    for table, rows in ROWS.items():
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", [list(row) for row in rows])  # noqa: S608
    return connection


@pytest.mark.parametrize(("query", "rows"), list(_cases()))
def test_a_view_has_the_rows_that_sql_demands(query: str, rows: set[Row], peer: duckdb.DuckDBPyConnection) -> None:
    assert set(peer.execute(query).fetchall()) == rows
    with upshot.connect() as db:
        db.define(TABLES)
        db.define(f"CREATE VIEW v AS {query}")
        empty = set(db.rows("v"))
        with db.transaction() as tx:
            for table, given in ROWS.items():
                tx.insert(table, given)
        assert set(db.rows("v")) == rows
        assert set(tx.changes["v"].inserted) == rows - empty
        assert set(tx.changes["v"].deleted) == empty - rows
        assert set(db.sql(query)) == rows
        with db.transaction() as tx:
            for table, given in ROWS.items():
                tx.delete(table, given)
        assert set(db.rows("v")) == empty
        assert set(tx.changes["v"].deleted) == rows - empty
