"""The 22 queries of TPC-H as views, as they are written, through refreshes: rows as DuckDB and PostgreSQL answer them,
and exactly the difference as the change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import upshot
from bench.tpch import SCHEMA, queries
from bench.tpch.data import Generator, Row, Rows
from tests.pipeline.postgres import Cluster
from tests.sql.against_postgres import Postgres, literal_text
from upshot.core.schema import Schema

Answers = Callable[[str], Iterable[Row]]
_TABLES = [f"{each.strip()}" for each in SCHEMA.split(";") if each.strip()]


def comparable(rows: Iterable[Row]) -> set[Row]:
    """The rows with decimals and floats to ten digits: a quotient is a float here, and a longer decimal elsewhere."""
    return {tuple(f"{float(v):.10g}" if isinstance(v, float | Decimal) else v for v in row) for row in rows}


def in_order(rows: Iterable[Row], query: str, columns: list[str]) -> list[Row]:
    """The rows as ORDER BY and, for rows alike in it, the columns from left to right order them; cut at LIMIT."""
    order = query.rpartition("order by")[2] if "order by" in query else ""
    keys, _, limit = order.partition("limit")
    wanted = list(rows)
    for column in range(len(columns) - 1, -1, -1):
        wanted.sort(key=lambda row: row[column])
    for key in reversed([each.split() for each in keys.split(",") if each.strip()]):
        place = columns.index(key[0])
        wanted.sort(key=lambda row: row[place], reverse="desc" in key)
    return wanted[: int(limit)] if limit.strip() else wanted


def without_limit(query: str) -> str:
    return query.rpartition("limit")[0] if query.rpartition("limit")[2].strip().isdigit() else query


class DuckJudge:
    def __init__(self) -> None:
        self._connection = duckdb.connect()
        for table in _TABLES:
            self._connection.execute(table)

    def change(self, insert: Rows, delete: Rows) -> None:
        for name, rows in insert.items():
            columns = [each[0] for each in self._connection.execute(f"SELECT * FROM {name} LIMIT 0").description or ()]  # noqa: S608
            table = pa.table({column: [row[at] for row in rows] for at, column in enumerate(columns)})
            self._connection.register("new_rows", table)
            self._connection.execute(f"INSERT INTO {name} SELECT * FROM new_rows")  # noqa: S608
            self._connection.unregister("new_rows")
        for statement in deletions(delete):
            self._connection.execute(statement)

    def answer(self, query: str, schema: Schema) -> list[Row]:
        return in_order(self._connection.execute(without_limit(query)).fetchall(), query, _names(schema))


class PostgresJudge:
    def __init__(self, server: Postgres) -> None:
        self._server = server
        for table in _TABLES:
            assert not server.say(table.replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1))

    def change(self, insert: Rows, delete: Rows) -> None:
        for name, rows in insert.items():
            for start in range(0, len(rows), 500):
                values = ", ".join(f"({', '.join(map(literal_text, row))})" for row in rows[start : start + 500])
                assert not self._server.say(f"INSERT INTO {name} VALUES {values}")  # noqa: S608
        for statement in deletions(delete):
            assert not self._server.say(statement)

    def answer(self, query: str, schema: Schema) -> list[Row]:
        rows = self._server.rows(without_limit(query), schema)
        assert rows is not None, query
        # CHAR(n) is filled with blanks there, and has none at its end here.
        stripped = [tuple(v.rstrip() if isinstance(v, str) else v for v in row) for row in rows]
        return in_order(stripped, query, _names(schema))


def _names(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns]


def deletions(delete: Rows) -> list[str]:
    keys = ", ".join(str(row[0]) for row in delete.get("orders", []))
    columns = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
    return [f"DELETE FROM {name} WHERE {columns[name]} IN ({keys})" for name in delete if keys]  # noqa: S608


def follow(
    db: upshot.Database, judge: Any, chosen: Mapping[str, str], scale: float, orders: int, *, refreshes: int = 4
) -> None:
    """Load the tables and refresh them; after every transaction rows and changes must be those of the judge."""
    generator = Generator(scale)
    tables = generator.tables()
    steps = [({name: list(rows) for name, rows in tables.items()}, {}), *generator.refreshes(tables, orders, refreshes)]
    db.define(SCHEMA)
    db.define("".join(f"CREATE VIEW {name} AS {query};\n" for name, query in chosen.items()))
    before = {name: comparable(db.rows(name)) for name in chosen}
    for insert, delete in steps:
        with db.transaction() as tx:
            for name, rows in delete.items():
                tx.delete(name, rows)
            for name, rows in insert.items():
                tx.insert(name, rows)
        judge.change(insert, delete)
        for name, query in chosen.items():
            now = comparable(db.rows(name))
            assert now == comparable(judge.answer(query, db.schemas[name])), name
            assert comparable(tx.changes[name].inserted) == now - before[name], name
            assert comparable(tx.changes[name].deleted) == before[name] - now, name
            before[name] = now
    assert sum(map(bool, before.values())) > len(before) * 0.9


@pytest.mark.slow
def test_all_queries_follow_refreshes_as_duckdb_answers() -> None:
    with upshot.connect() as db:
        follow(db, DuckJudge(), queries(), 0.01, 15)


@pytest.mark.slow
def test_all_queries_follow_refreshes_as_postgres_answers(cluster: Cluster) -> None:
    with upshot.connect() as db:
        server = Postgres(cluster, [])
        try:
            follow(db, PostgresJudge(server), queries(), 0.002, 5)
        finally:
            server.close()


def test_all_queries_are_defined_with_few_rules() -> None:
    with upshot.connect() as db:
        db.define(SCHEMA)
        db.define("".join(f"CREATE VIEW {name} AS {query};\n" for name, query in queries().items()))
        rules = [item for item in db.program.items if type(item).__name__ == "Rule"]
        assert len(queries()) == 22
        assert len(rules) < 200


def test_values_around_an_inequality_in_exists_come_from_the_table_that_shares_a_key() -> None:
    """As in query 21: the rows of an order are paired with each other, not with all suppliers."""
    db = upshot.connect()
    db.define("""
        CREATE TABLE supplier (s int NOT NULL);
        CREATE TABLE line (o int NOT NULL, n int NOT NULL, s int NOT NULL);
        CREATE VIEW shared AS SELECT supplier.s, l1.o FROM supplier, line l1 WHERE supplier.s = l1.s
            AND EXISTS (SELECT * FROM line l2 WHERE l2.o = l1.o AND l2.s <> l1.s);
        CREATE VIEW alone AS SELECT supplier.s, l1.o FROM supplier, line l1 WHERE supplier.s = l1.s
            AND NOT EXISTS (SELECT * FROM line l2 WHERE l2.o = l1.o AND l2.s <> l1.s);
    """)
    lines = [(order, number, (order + number * (order % 3)) % 50) for order in range(200) for number in range(3)]
    with db.transaction() as tx:
        tx.insert("supplier", [(s,) for s in range(50)])
        tx.insert("line", lines)
    suppliers = {order: {s for o, _, s in lines if o == order} for order in range(200)}
    pairs = {(s, order) for order, found in suppliers.items() for s in found}
    assert set(db.rows("shared")) == {(s, order) for s, order in pairs if len(suppliers[order]) > 1}
    assert set(db.rows("alone")) == {(s, order) for s, order in pairs if len(suppliers[order]) == 1}
    assert tx.stats.matched < 20 * len(lines)
    with db.transaction() as tx:
        tx.delete("line", [lines[3]])
    assert tx.stats.matched < 100
    db.verify()
