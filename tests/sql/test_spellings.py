"""Other spellings of what SQL has anyway, arrays as text, and aggregates over EXCEPT ALL: as in PostgreSQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

import upshot
from tests.pipeline.postgres import Cluster
from tests.sql.against_postgres import Postgres
from tests.sql.random_queries import Table

TABLE = Table(
    "t",
    (
        ("id", "BIGINT", False),
        ("g", "BIGINT", True),
        ("name", "TEXT", True),
        ("n", "BIGINT", True),
        ("d", "DATE", True),
    ),
)
WORDS = ["a", "", "null", "NULL", "two words", 'a "b"', "back\\slash", "{}", "a,b", None, "tab\there", "ä", "%"]
QUERIES = [
    "SELECT g, array_agg(name ORDER BY id)::text AS a FROM t GROUP BY g",
    "SELECT array_agg(DISTINCT n)::text AS a FROM t",
    "SELECT g, array_agg(n ORDER BY n DESC, id) FILTER (WHERE n > 1)::text AS a FROM t GROUP BY g",
    "SELECT array_agg(d ORDER BY d, id)::text AS a FROM t WHERE id < 0",
    "SELECT g, array_agg(n > 1 ORDER BY id)::text AS a FROM t GROUP BY g",
    "SELECT g, array_agg(x ORDER BY id)::text AS a FROM (SELECT g, id, n > 1 AS x FROM t) AS q GROUP BY g",
    r"SELECT id, E'\t\\ \x41 \'' || id AS a FROM t ORDER BY id LIMIT ALL",
    "SELECT g, every(n > 0) AS a FROM t GROUP BY g",
    "SELECT id FROM t WHERE n = ANY (ARRAY[1, 2])",
    "SELECT id FROM t WHERE n <> ALL (ARRAY[1, 2])",
    "SELECT id FROM t WHERE ROW(g, n) = ROW(1, 2)",
    "SELECT id, starts_with(name, 'a') AS x, name ^@ 'nul' AS y FROM t",
    "SELECT to_char(d, 'YYYY-MM') AS m, count(*) AS n FROM t GROUP BY to_char(d, 'YYYY-MM')",
    "SELECT id, to_char(d, 'DD.MM.YYYY') AS x FROM t",
    "SELECT id, n & 3 AS a, n | 4 AS b, n # 1 AS c FROM t",
    "SELECT count(*) AS c, sum(n) AS s FROM (SELECT n FROM t EXCEPT ALL SELECT g FROM t) AS q",
    "SELECT n, count(*) AS c FROM (SELECT n FROM t INTERSECT ALL SELECT g FROM t) AS q GROUP BY n",
    "SELECT count(*) AS c FROM ((SELECT g, n FROM t EXCEPT ALL SELECT n, g FROM t) UNION ALL SELECT 1, 1) AS q",
    "SELECT g, round(avg(n)) AS a, avg(n)::int AS b, round(avg(n), 2) AS c FROM t GROUP BY g",
]


def _rows(first: int, last: int) -> list[tuple[object, ...]]:
    days = [None, dt.date(2024, 2, 29), dt.date(2026, 12, 1)]
    return [(i, (None, 1, 2)[i % 3], WORDS[i], (None, 1, 2, 5)[i % 4], days[i % 3]) for i in range(first, last)]


@pytest.fixture(scope="module")
def postgres(cluster: Cluster) -> Iterator[Postgres]:
    peer = Postgres(cluster, [TABLE])
    yield peer
    peer.close()


@pytest.mark.slow
def test_each_spelling_has_the_rows_that_postgresql_gives_it_after_every_change(postgres: Postgres) -> None:
    with upshot.connect() as db:
        db.define(TABLE.definition())
        for number, query in enumerate(QUERIES):
            db.define(f"CREATE VIEW v{number} AS {query}")
        for insert, delete in ((_rows(0, 9), []), (_rows(9, 13), _rows(2, 6)), ([], _rows(7, 12))):
            with db.transaction() as tx:
                tx.delete("t", delete)
                tx.insert("t", insert)
            postgres.replace({"t": set(db.rows("t"))})
            for number, query in enumerate(QUERIES):
                schema = db.rows(f"v{number}").schema
                wanted = postgres.rows(f"SELECT DISTINCT * FROM ({query}) AS q", schema)  # noqa: S608
                assert wanted is not None, query
                assert set(db.rows(f"v{number}")) == set(wanted), query
        db.verify()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT to_char(d, 'Mon YYYY') FROM t",
        "SELECT ARRAY(SELECT n FROM t)",
        "SELECT n FROM t WHERE n > ANY (ARRAY[1])",
    ],
)
def test_what_has_no_other_spelling_is_refused_by_name(query: str) -> None:
    with upshot.connect() as db:
        db.define(TABLE.definition())
        with pytest.raises(upshot.ProgramError) as caught:
            db.define(f"CREATE VIEW v AS {query}")
        assert caught.value.code == "sql-unsupported"
