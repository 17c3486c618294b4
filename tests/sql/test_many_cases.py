"""Values with many cases: few rules, and the rows that DuckDB gives."""
# ruff: noqa: S608 - SQL is what is made here

from __future__ import annotations

import itertools

import duckdb
import pytest

import upshot

TABLE = "CREATE TABLE t (a BIGINT, b BIGINT, c BIGINT, d BIGINT)"
ROWS = list(itertools.product((None, 0, 1, 2), repeat=4))
NESTED = "coalesce(nullif(greatest({0}, {1}), {2}), {3})"
CASES = "CASE WHEN {0} > {1} THEN 1 WHEN {0} < {2} THEN 2 WHEN {3} IS NULL THEN 3 WHEN {2} = {3} THEN {0} END"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {NESTED.format(*'abcd')} AS x, {NESTED.format(*'bcda')} AS y, {NESTED.format(*'cdab')} AS z FROM t",
        f"SELECT a, b, c, d, {CASES.format(*'abcd')} AS x, {CASES.format(*'bcda')} AS y FROM t",
        f"SELECT a FROM t WHERE {NESTED.format(*'abcd')} > {NESTED.format(*'dcba')} OR {CASES.format(*'abcd')} = 1",
        f"SELECT {CASES.format(*'abcd')} AS x, sum({NESTED.format(*'abcd')}) AS s, count(*) AS n FROM t GROUP BY 1",
        f"SELECT d, {CASES.replace('{', '').replace('}', '').translate(str.maketrans('0123', 'mnop'))} AS x, m FROM "
        "(SELECT d, max(a) AS m, min(b) AS n, max(b) AS o, sum(c) AS p FROM t GROUP BY d) AS g",
        "SELECT concat(a, b, c, d) AS x, a FROM t",
        f"SELECT t.a, s.b FROM t LEFT JOIN t s ON {NESTED.format('t.a', 't.b', 's.c', 's.d')} = 2 AND s.a = 1",
    ],
)
def test_a_value_of_many_cases_takes_few_rules(query: str) -> None:
    peer = duckdb.connect()
    peer.execute(TABLE)
    peer.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row) for row in ROWS])
    with upshot.connect() as db:
        db.define(TABLE)
        db.define(f"CREATE VIEW v AS {query}")
        assert len(db.program.items) < 150
        with db.transaction() as tx:
            tx.insert("t", ROWS)
        assert set(db.rows("v")) == set(peer.execute(query).fetchall())
        with db.transaction() as tx:
            tx.delete("t", ROWS[::3])
        peer.execute("DELETE FROM t")
        peer.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row) for n, row in enumerate(ROWS) if n % 3])
        assert set(db.rows("v")) == set(peer.execute(query).fetchall())


def test_nested_cases_add_up_and_do_not_multiply() -> None:
    query = "a"
    for column in "bcdbcd":
        query = f"NULLIF({query}, {column})"
    peer = duckdb.connect()
    peer.execute(TABLE)
    peer.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row) for row in ROWS])
    with upshot.connect() as db:
        db.define(TABLE)
        db.define(f"CREATE VIEW v AS SELECT a, b, {query} AS x FROM t")
        assert len(db.program.items) < 20
        with db.transaction() as tx:
            tx.insert("t", ROWS)
        assert set(db.rows("v")) == set(peer.execute(f"SELECT a, b, {query} AS x FROM t").fetchall())
