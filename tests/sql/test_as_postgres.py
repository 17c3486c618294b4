"""Expressions over numbers, text and time have the values that PostgreSQL gives them, digit by digit."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

import upshot
from tests.pipeline.postgres import Cluster
from tests.sql.against_postgres import Postgres
from tests.sql.random_queries import Table

TABLE = Table(
    "t", (("id", "BIGINT", False), ("n", "BIGINT", True), ("d", "NUMERIC(8, 2)", True), ("f", "DOUBLE PRECISION", True))
)
ROWS = {
    (1, 3, Decimal("2.50"), 2.5),
    (2, -7, Decimal("-2.50"), -2.5),
    (3, 0, Decimal("0.50"), 0.5),
    (4, 2, Decimal("1.05"), 1.5),
    (5, None, None, None),
    (6, 10, Decimal("12.34"), 1e20),
    (7, 1, Decimal("0.10"), 0.1),
}


@pytest.fixture(scope="module")
def postgres(cluster: Cluster) -> Iterator[Postgres]:
    peer = Postgres(cluster, [TABLE])
    peer.replace({"t": ROWS})
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def db() -> Iterator[upshot.Database]:
    with upshot.connect() as db:
        db.define(TABLE.definition())
        with db.transaction() as tx:
            tx.insert("t", sorted(ROWS, key=str))
        yield db


ROUNDED = ["round(f)", "round(f * 3)", "round(d)", "round(d, 1)", "floor(f)", "ceil(f)", "f::bigint", "d::bigint"]


@pytest.mark.parametrize("value", ROUNDED)
def test_a_tie_of_floats_is_rounded_to_the_even_neighbor_and_one_of_decimals_away_from_zero(
    value: str, db: upshot.Database, postgres: Postgres
) -> None:
    # Beyond 64 bits a float is no integer, neither here nor there.
    agree(f"SELECT id, {value} AS y FROM t WHERE id <> 6", db, postgres)  # noqa: S608


SCALED = [
    "1.0 * n",
    "n * 1.00 * 2.0",
    "d * 1.50",
    "d + 1.000",
    "n - 0.10",
    "2. * n",
    "-1.0 * d",
    "n + d",
    "d * d",
    "d - n",
]


@pytest.mark.parametrize("value", SCALED)
def test_a_literal_gives_its_decimal_places_to_the_result(value: str, db: upshot.Database, postgres: Postgres) -> None:
    agree(f"SELECT id, ({value})::text AS y FROM t", db, postgres)  # noqa: S608


QUOTIENTS = [
    "SELECT id, round(d / 3, 10) AS y FROM t",
    "SELECT id, round(100.0 * d / n, 8) AS y FROM t WHERE n <> 0",
    "SELECT id, d / 4 > 0.26 AS y FROM t",
    "SELECT id FROM t WHERE d / 5 = 0.5 OR d / 2 = 0.05",
    "SELECT round(avg(d), 12) AS y, round(avg(d * d), 10) AS z FROM t",
    "SELECT n % 2 AS k, avg(d) > 0.5 AS y FROM t GROUP BY n % 2",
]


@pytest.mark.parametrize("query", QUOTIENTS)
def test_a_rounded_or_compared_quotient_or_mean_of_decimals_is_that_of_postgresql(
    query: str, db: upshot.Database, postgres: Postgres
) -> None:
    agree(query, db, postgres)


COMMON = [
    "d % 2",
    "d % 0.7",
    "n % 2.5",
    "-d % n::numeric(4, 1)",
    "(d % 2)::text",
    "n::numeric",
    "(n::numeric)::text",
    "d::numeric",
    "'1.50'::numeric + d",
    "f::text",
    "(f * 1000000)::text",
    "(f / 100000)::text",
    "(f / 3)::text",
    "(f * 1e14)::text",
    "'x' || f",
    "concat_ws(', ', n, d, 'end')",
    "concat_ws('', n, 'a')",
    "concat_ws(NULL, 'a')",
    "concat_ws('-', NULL, n, NULL)",
    "(n > 1)::text",
    "'x' || (n > 1)",
    "concat('x', n > 1, true)",
    "concat_ws('-', n > 1, (n > 1)::text, false)",
    "(n > 1)::int",
    "(n > 1) = 'yes'",
    "(n > 1) IN ('t', 'OFF')",
    "'f'::boolean OR n > 1",
    "n BETWEEN SYMMETRIC 5 AND 1",
    "n NOT BETWEEN SYMMETRIC 1 AND 5",
    "n IN (VALUES (1), (3))",
    "n NOT IN (VALUES (1), (NULL))",
    "TIMESTAMP '2024-01-01 10:00:00' > '2024-01-01'",
    "TIMESTAMP '2024-01-01 10:00:00' < '2024-01-02'",
    "TIMESTAMP '2024-01-01' + n * INTERVAL '1 day' > '2024-01-03'",
]


@pytest.mark.parametrize("value", COMMON)
def test_what_people_write_has_the_value_that_postgresql_gives(
    value: str, db: upshot.Database, postgres: Postgres
) -> None:
    agree(f"SELECT id, {value} AS y FROM t WHERE n <> 0 OR n IS NULL", db, postgres)  # noqa: S608


_LATER = "TIMESTAMP '2024-03-01' + n * INTERVAL '7 hours' - TIMESTAMP '2024-02-29 23:59:59.250001'"
LENGTHS = [
    *(f"EXTRACT({part} FROM {_LATER})" for part in ("EPOCH", "DAY", "HOUR", "MINUTE", "SECOND")),
    f"{_LATER} > INTERVAL '7 hours'",
    f"{_LATER} <= n * INTERVAL '7 hours 1 second'",
    f"NOT (INTERVAL '-1 day' < {_LATER})",
    f"{_LATER} = INTERVAL '0.749999 seconds'",
    "DATE '2024-03-01' - TIMESTAMP '2024-01-31 12:00:00' < INTERVAL '1 month'",
    "EXTRACT(EPOCH FROM TIMESTAMP '9999-12-31 23:59:59.999999' - TIMESTAMP '0001-01-01')",
]


@pytest.mark.parametrize("value", LENGTHS)
def test_a_difference_of_timestamps_has_parts_and_is_compared_with_intervals(
    value: str, db: upshot.Database, postgres: Postgres
) -> None:
    agree(f"SELECT id, {value} AS y FROM t WHERE n <> 0 OR n IS NULL", db, postgres)  # noqa: S608


def test_table_is_a_query_of_all_columns(db: upshot.Database) -> None:
    assert set(db.sql("TABLE t")) == set(db.rows("t"))
    assert [row[0] for row in db.sql("TABLE t ORDER BY id LIMIT 1")] == [1]


WALKS = [
    "WITH RECURSIVE w(x, y) AS (SELECT a, b FROM e WHERE a = 1 UNION ALL SELECT e.a, e.b FROM w JOIN e ON e.a = w.y) "
    "CYCLE x, y SET again USING path SELECT x, y, again FROM w",
    "WITH RECURSIVE w(x, y) AS (SELECT a, b FROM e WHERE a = 3 UNION SELECT e.a, e.b FROM w JOIN e ON e.a = w.y) "
    "SEARCH DEPTH FIRST BY x, y SET place SELECT x, y, row_number() OVER (ORDER BY place) AS n FROM w",
]


@pytest.mark.parametrize("query", WALKS)
def test_cycle_and_search_go_by_several_columns(query: str, db: upshot.Database, postgres: Postgres) -> None:
    rows = "VALUES (1, 2), (2, 1), (2, 2), (3, 4), (3, 5), (4, 5), (4, 6)"
    with_edges = query.replace("FROM e WHERE", f"FROM ({rows}) AS e(a, b) WHERE").replace(
        "JOIN e ON", f"JOIN ({rows}) AS e(a, b) ON"
    )
    agree(with_edges, db, postgres)


def agree(query: str, db: upshot.Database, postgres: Postgres) -> None:
    """A view and `db.sql` give the rows of PostgreSQL; values are compared as they are, and texts letter by letter."""
    db.define(f"CREATE VIEW v AS {query}")
    schema = db.schemas["v"]
    expected = postgres.rows(query, schema)
    assert expected is not None, postgres.say(query)
    assert set(db.rows("v")) == set(expected)
    assert set(db.sql(query)) == set(expected)
