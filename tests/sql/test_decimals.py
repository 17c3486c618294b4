"""Quotients, averages and what is computed from them are the decimals of PostgreSQL, and are kept exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest

import upshot
from tests.pipeline.postgres import started
from tests.properties.settings import case_count, seed_of
from tests.sql.against_postgres import Postgres
from tests.sql.random_queries import Table

TABLE = Table(
    "t",
    (
        ("id", "BIGINT", False), ("k", "BIGINT", False), ("n", "BIGINT", True),
        ("a", "NUMERIC(10, 2)", True), ("b", "NUMERIC(8, 4)", False), ("f", "DOUBLE PRECISION", False),
    ),
)  # fmt: skip
_Row = tuple[object, ...]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with started() as cluster:
        peer = Postgres(cluster, [TABLE])
        yield peer
        peer.close()


def rows(choice: random.Random, count: int) -> set[_Row]:
    made: set[_Row] = set()
    for id in range(count):
        a = Decimal(choice.choice((0, 1, 7, 999, choice.randint(-(10**8), 10**8)))).scaleb(-2)
        b = Decimal(choice.choice((1, 3, -7, 10**4, choice.randint(1, 10**7)))).scaleb(-4)
        n = choice.choice((None, 0, 1, 3, -9, 10**6, choice.randint(-999, 999)))
        made.add((id, id % 3, n, None if choice.random() < 0.1 else a, b, float(choice.randint(1, 9))))
    return made


QUERIES = {
    "of_columns": "SELECT id, a / b AS y FROM t",
    "of_numbers": "SELECT id, a / 3 AS y, 100.0 * a / NULLIF(n, 0) AS z, n / b AS w, 1 / b AS v FROM t",
    "small": "SELECT id, a / 1000000.0 AS y, 0.01 / b AS z FROM t",
    "of_quotients": "SELECT id, a / b / 7 AS y, a / (b + 1000) * 0.5 AS z, (a / b) + (1 / b) AS w FROM t",
    "products": "SELECT id, (a / b) * (1 / b) AS y FROM t WHERE b > 1",
    "rounded": "SELECT id, round(a / b, 4) AS y, trunc(a / 7, 3) AS z, floor(a / b) AS w, (a / b)::numeric(12, 1) AS v "
    "FROM t",
    "compared": "SELECT id FROM t WHERE a / b > 0.5 OR a / 3 = 0.07 OR a / b BETWEEN b AND n",
    "beside_floats": "SELECT id, a / b / f AS y, round((a / b)::float8) AS z FROM t",
    "averages": "SELECT k, avg(a) AS x, avg(a * b) AS y, avg(DISTINCT b) AS w FROM t GROUP BY k",
    "averages_of_quotients": "SELECT k, avg(a / b) AS z FROM t GROUP BY k",
    "sums": "SELECT k, sum(a / b) AS x, min(a / b) AS y, max(1 / b) AS z, sum(a) / sum(b) AS w FROM t GROUP BY k",
    "all_rows": "SELECT avg(a) AS x, sum(a / b) AS y, 100.0 * count(a) / NULLIF(count(*), 0) AS z FROM t",
    "above_average": "SELECT id FROM t WHERE a > (SELECT avg(a) FROM t)",
    "of_group": "SELECT id FROM t AS u WHERE a >= 0.9 * (SELECT avg(a) FROM t WHERE t.k = u.k)",
    "windows": "SELECT id, avg(a) OVER (PARTITION BY k ORDER BY id) AS y, "
    "sum(1 / b) OVER (PARTITION BY k ORDER BY id) AS z, rank() OVER (PARTITION BY k ORDER BY a / b) AS r "
    "FROM t WHERE a IS NOT NULL",
    "first": "SELECT id, a / b AS y FROM t WHERE a IS NOT NULL ORDER BY y DESC, id LIMIT 3",
    "joined": "SELECT s.id AS x, t.id AS y FROM t AS s JOIN t ON s.a / 4 = t.a / 4 WHERE s.id < t.id",
    "keys": "SELECT a / b AS q, count(*) AS c, min(id) AS i FROM t GROUP BY a / b",
    "differences": "SELECT a / b AS q FROM t EXCEPT SELECT a / 3 FROM t",
    "members": "SELECT id FROM t WHERE a / b IN (SELECT a / 3 FROM t) OR a IN (SELECT a / 1.0 FROM t WHERE a < 0)",
    "neighbors": "SELECT id, lag(a / b, 1, 0.5) OVER (ORDER BY id) AS y FROM t",
    "functions": "SELECT id, nullif(a / b, 1) AS y, greatest(a / b, 1, n) AS z, abs(a / b) AS w, sign(a / b) AS v "
    "FROM t",
    "halves": "WITH RECURSIVE w(n, y) AS (SELECT id, a / b FROM t UNION SELECT n + 1, y / 2 FROM w WHERE n < 3) "
    "SELECT n, y FROM w",
    "shares": "SELECT k, 100.0 * count(*) / (SELECT count(*) FROM t) AS p FROM t GROUP BY k",
    "texts": "SELECT k, string_agg(id::text, ',' ORDER BY a / b, id) AS s FROM t WHERE a IS NOT NULL GROUP BY k",
    "parts": "SELECT id, rank() OVER (PARTITION BY a / b ORDER BY id) AS r FROM t WHERE a IS NOT NULL",
    "cases": "SELECT id, CASE WHEN n > 0 THEN a / n ELSE 0 END AS y, coalesce(a / b, -1) AS z FROM t",
    "united": "SELECT id, a / b AS y FROM t UNION SELECT id, a FROM t",
    "of_groups": "SELECT k, count(*) AS c FROM t GROUP BY k HAVING avg(a) > 100 OR sum(a / b) < 0",
}  # fmt: skip


@pytest.mark.parametrize("part", range(max(1, case_count(40, least=2) // 10)))
def test_quotients_and_averages_are_those_of_postgresql_after_every_change(part: int, postgres: Postgres) -> None:
    choice = random.Random(seed_of("decimals", part))
    with upshot.connect() as db:
        db.define(TABLE.definition() + ";\n" + ";\n".join(f"CREATE VIEW {n} AS {q}" for n, q in QUERIES.items()))
        state: set[_Row] = set()
        for _ in range(3):
            old, state = state, rows(choice, choice.randint(0, 12))
            before = {name: set(db.rows(name)) for name in QUERIES}
            with db.transaction() as tx:
                tx.delete("t", sorted(old - state, key=str))
                tx.insert("t", sorted(state - old, key=str))
            postgres.replace({"t": state})
            for name, query in QUERIES.items():
                now, wanted = set(db.rows(name)), postgres.rows(query, db.schemas[name])
                assert wanted is not None, name
                digits = 16 if name == "averages_of_quotients" else 24
                assert shown(now, digits) == shown(wanted, digits), (name, state)
                assert (set(tx.changes[name].inserted), set(tx.changes[name].deleted)) == (
                    now - before[name],
                    before[name] - now,
                )
        db.verify()


def test_the_average_of_quotients_has_places_without_trailing_zeros() -> None:
    """In PostgreSQL, zero divided by three has 20 places, and the average of what stands beside it has them too."""
    with upshot.connect() as db:
        db.define("CREATE TABLE t (a NUMERIC(10, 2), b NUMERIC(8, 4));\nCREATE VIEW v AS SELECT avg(a / b) AS z FROM t")
        with db.transaction() as tx:
            tx.insert("t", [(Decimal("743873.56"), Decimal("0.0003")), (Decimal(0), Decimal(3))])
        assert set(db.rows("v")) == {(Decimal("1239789266.66666667"),)}


def shown(found: object, digits: int = 24) -> list[_Row]:
    """The rows with decimals to 15 places and so many digits, and floats to 12: a quotient of quotients is rounded
    twice."""
    return sorted((tuple(_shown(value, digits) for value in row) for row in found), key=str)  # type: ignore[attr-defined]


def _shown(value: object, digits: int) -> object:
    if isinstance(value, float):
        return f"{value:.12g}"
    if not isinstance(value, Decimal):
        return value
    with localcontext(prec=digits):
        near = +value
    with localcontext(prec=120):
        return near.quantize(Decimal("1E-15"), ROUND_HALF_UP).normalize() + 0


@pytest.mark.parametrize("literal", ["0." + "0" * 38 + "1", "1." + "0" * 39 + "5"])
def test_a_literal_of_more_places_than_any_decimal_is_refused_as_too_long(literal: str) -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE t (a NUMERIC(8, 2))")
        with pytest.raises(upshot.ProgramError, match="this decimal is too long"):
            db.sql("SELECT a FROM t WHERE a / 3 > " + literal)  # noqa: S608
        with pytest.raises(upshot.ProgramError, match="this decimal is too long"):
            db.sql("SELECT a FROM t WHERE a > :x", x=Decimal(literal))
