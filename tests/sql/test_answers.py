"""Questions in SQL: bound values, order, limits, helpers that live as long as the question."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal

import pytest

import upshot
from tests.sql.company import ROWS, TABLES


@pytest.fixture
def db() -> Iterator[upshot.Database]:
    with upshot.connect() as db:
        db.define(TABLES)
        with db.transaction() as tx:
            for table, rows in ROWS.items():
                tx.insert(table, rows)
        yield db


def test_rows_come_in_the_order_that_is_asked_for(db: upshot.Database) -> None:
    asked = "SELECT name, salary FROM emp ORDER BY salary DESC, name"
    assert [name for name, _ in db.sql(asked)] == ["cy", "ann", "bob", "ed", "flo", "di"]
    asked = "SELECT name, salary FROM emp ORDER BY 2 NULLS FIRST, 1 DESC"
    assert [name for name, _ in db.sql(asked)] == ["cy", "di", "flo", "ed", "bob", "ann"]
    assert [name for name, _ in db.sql("SELECT name, salary FROM emp ORDER BY salary LIMIT 2 OFFSET 1")] == [
        "ed",
        "flo",
    ]
    assert list(db.sql("SELECT id FROM dept ORDER BY id DESC FETCH FIRST 1 ROW ONLY")) == [(3,)]
    assert list(db.sql("SELECT id FROM dept ORDER BY id DESC FETCH FIRST ROW ONLY")) == [(3,)]
    assert list(db.sql("SELECT id FROM dept UNION SELECT boss FROM emp ORDER BY id LIMIT 2")) == [(1,), (2,)]


def test_a_query_with_ties_is_refused_and_a_limit_of_null_is_none(db: upshot.Database) -> None:
    with pytest.raises(upshot.ProgramError) as error:
        db.sql("SELECT dept FROM emp ORDER BY dept FETCH FIRST 1 ROW WITH TIES")
    assert error.value.code == "sql-unsupported"
    assert len(db.sql("SELECT id FROM dept ORDER BY id LIMIT NULL")) == len(db.sql("SELECT id FROM dept"))


def test_values_are_bound_and_never_spliced(db: upshot.Database) -> None:
    assert db.sql("SELECT name FROM emp WHERE id = :id", id=2) == {("bob",)}
    assert db.sql("SELECT name FROM emp WHERE name = :name", name="x' OR 'a' = 'a") == set()
    assert db.sql("SELECT name FROM emp WHERE since = :day", day=date(2022, 5, 1)) == {("di",)}
    assert db.sql("SELECT name FROM emp WHERE bonus > :least", least=Decimal("1.505")) == {("ann",)}
    assert db.sql("SELECT name FROM emp WHERE boss = :boss", boss=None) == set()
    assert db.sql("SELECT name FROM emp WHERE boss IS NOT DISTINCT FROM :boss", boss=None) == {("ann",), ("ed",)}
    assert list(db.sql("SELECT id FROM dept ORDER BY 1 LIMIT :most", most=1)) == [(1,)]
    assert db.sql("SELECT :what AS what", what="a") == {("a",)}


def test_parameters_are_those_of_the_query(db: upshot.Database) -> None:
    with pytest.raises(upshot.ProgramError) as error:
        db.sql("SELECT name FROM emp WHERE id = :id")
    assert error.value.code == "missing-parameter"
    with pytest.raises(upshot.ProgramError) as error:
        db.sql("SELECT name FROM emp", id=1)
    assert error.value.code == "unused-parameter"
    with pytest.raises(upshot.ProgramError) as error:
        db.sql("SELECT name FROM emp WHERE id = :id", id={1})
    assert error.value.code == "bad-parameter"
    with pytest.raises(upshot.ProgramError) as error:
        db.sql("SELECT name FROM emp WHERE id = :id", id=[1])  # a list is a record
    assert error.value.code == "type-mismatch"


def test_an_answer_has_columns_with_names_and_types(db: upshot.Database) -> None:
    rows = db.sql("SELECT name, count(*), salary > 1 AS rich, avg(salary) FROM emp GROUP BY name, salary")
    assert [str(column.type) for column in rows.schema.columns] == ["symbol", "number", "boolean?", "float?"]
    assert rows.columns == ("name", "count", "rich", "avg")
    assert rows.to_arrow().num_rows == 6


def test_nothing_is_left_of_a_question(db: upshot.Database) -> None:
    before, version = db.program, db.version
    asked = """
        WITH RECURSIVE u(a, b) AS (SELECT id, boss FROM emp UNION SELECT u.a, e.boss FROM u JOIN emp e ON e.id = u.b)
        SELECT a, count(b) AS n FROM u GROUP BY a HAVING count(b) > 1
    """
    assert db.sql(asked) == {(4, 2), (6, 2)}
    assert db.program == before
    assert db.version == version
    assert db.sql("SELECT name FROM emp WHERE id NOT IN (SELECT boss FROM emp)") == set()


def test_an_open_transaction_is_not_seen(db: upshot.Database) -> None:
    with db.transaction() as tx:
        tx.insert("dept", [(7, "new")])
        assert db.sql("SELECT count(*) FROM dept") == {(3,)}
    assert db.sql("SELECT count(*) FROM dept") == {(4,)}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "sql-one-query"),
        ("SELECT 1; SELECT 2", "sql-one-query"),
        ("CREATE VIEW v AS SELECT 1", "sql-not-a-query"),
        ("SELECT DISTINCT name FROM emp ORDER BY id", "sql-order"),
        ("SELECT name FROM emp LIMIT -1", "sql-syntax"),
        ("DELETE FROM emp", "sql-unsupported"),
        ("SELECT name FROM emp WHERE id = ?", "sql-parameter"),
    ],
)
def test_what_is_no_single_query_is_refused(db: upshot.Database, text: str, code: str) -> None:
    with pytest.raises(upshot.ProgramError) as error:
        db.sql(text)
    assert error.value.code == code


def test_a_query_is_text(db: upshot.Database) -> None:
    with pytest.raises(upshot.UsageError) as error:
        db.sql(7)  # type: ignore[arg-type]
    assert error.value.code == "wrong-argument"


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("WITH RECURSIVE w(y) AS (SELECT 1.00 FROM dept UNION SELECT y + y FROM w WHERE y < 40.00) SELECT y FROM w",
         ["1", "2", "4", "8", "16", "32", "64"]),
        ("WITH RECURSIVE w(y) AS (SELECT bonus FROM emp WHERE id = 1 UNION SELECT y * 1 + 99999999.00 FROM w "
         "WHERE y < 99999999.00) SELECT y FROM w", ["2.5", "100000001.5"]),
        ("SELECT sum(y) FROM (SELECT 9.99 AS y FROM dept) q", ["29.97"]),
        ("SELECT CASE WHEN id = 1 THEN 123456789.00 ELSE bonus END AS y FROM emp WHERE id IN (1, 4)",
         ["123456789", "0.1"]),
        ("SELECT COALESCE(bonus, 123456789) AS y FROM emp WHERE id IN (2, 4)", ["123456789", "0.1"]),
        ("VALUES (1.5), (1234.75)", ["1.5", "1234.75"]),
        ("SELECT max(COALESCE(99.99, 12.345)) AS y FROM dept", ["99.99"]),
        ("SELECT bonus FROM emp FULL JOIN (VALUES (1.5), (12345678.125)) AS q(bonus) USING (bonus) WHERE bonus > 1",
         ["1.5", "2.5", "12345678.125"]),
        ("SELECT 0.00000001 AS y FROM dept UNION SELECT bonus FROM emp WHERE id = 1", ["0.00000001", "2.5"]),
        ("SELECT bonus FROM emp WHERE id = 1 UNION SELECT 1234567890.125 FROM dept", ["2.5", "1234567890.125"]),
    ],
)  # fmt: skip
def test_literals_and_sums_have_the_digits_that_they_need(db: upshot.Database, query: str, values: list[str]) -> None:
    found = db.sql(query).to_arrow()
    assert sorted(found.column(0).to_pylist()) == sorted(map(Decimal, values))
    db.define(
        f"CREATE VIEW digits AS {query}" if not query.startswith("VALUES") else "CREATE VIEW digits AS SELECT 1.5"
    )
    db.verify()
    assert db.rows("digits").to_arrow().num_rows


@pytest.mark.parametrize(
    "value", ["max(NULLIF(1.50, 1.50))", "sum(NULLIF(1.50, 1.50))", "min(1.5) FILTER (WHERE 1 > 2)"]
)
def test_an_aggregate_of_nothing_but_null_is_null(db: upshot.Database, value: str) -> None:
    assert list(db.sql(f"SELECT {value} AS y FROM emp")) == [(None,)]  # noqa: S608
    assert set(db.sql(f"SELECT dept, {value} AS y, count(*) AS n FROM emp WHERE dept < 3 GROUP BY dept")) == {  # noqa: S608
        (1, None, 2),
        (2, None, 1),
    }
    assert db.sql(f"SELECT name FROM emp WHERE (SELECT {value} FROM dept WHERE id = emp.dept) IS NULL").sorted()  # noqa: S608
    assert list(db.sql(f"SELECT avg(y) AS y FROM (SELECT {value} AS y FROM emp GROUP BY id) q")) == [(None,)]  # noqa: S608


def test_null_is_in_no_query_also_where_a_subquery_is_the_only_one_to_read_it() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE s (k BIGINT NOT NULL, x BIGINT)")
        with db.transaction() as tx:
            tx.insert("s", [(1, None), (2, 2), (3, 3)])
        outer = "SELECT k FROM s AS u WHERE "
        inner = "EXISTS (SELECT 1 FROM s AS t WHERE u.x IN (SELECT x FROM s WHERE x IS NULL OR x = 2))"
        assert db.sql(outer + inner) == {(2,)}
        assert db.sql(outer + "NOT " + inner) == {(1,), (3,)}


def test_null_is_not_found_with_itself_where_a_table_is_joined_with_itself() -> None:
    queries = {
        "v": "SELECT p.a AS x FROM r AS p JOIN r AS q ON p.a = q.a WHERE p.b = q.b",
        "w": "SELECT p.a AS x FROM r AS p JOIN r AS q USING (a, b)",
        "n": "SELECT a AS x FROM r AS p NATURAL JOIN r AS q",
        "u": "SELECT p.a AS x FROM r AS p, r AS q, r AS s WHERE p.a = q.a AND q.b = s.b AND s.a = p.a AND p.b = q.b",
        "m": "SELECT a AS x FROM r AS p WHERE EXISTS (SELECT 1 FROM r AS q WHERE q.a = p.a AND q.b = p.b)",
    }
    with upshot.connect() as db:
        db.define("CREATE TABLE r (a BIGINT NOT NULL, b NUMERIC(8, 2))")
        for name, query in queries.items():
            db.define(f"CREATE VIEW {name} AS {query}")
        with db.transaction() as tx:
            tx.insert("r", [(3, 1), (0, None)])
        assert {name: set(db.rows(name)) for name in queries} == {name: {(3,)} for name in queries}


def test_groups_of_a_subquery_that_only_compares_with_the_query_around_have_aggregates_of_null() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE r (k BIGINT NOT NULL, n BIGINT, d BIGINT NOT NULL); CREATE TABLE s (d BIGINT NOT NULL)")
        groups = "SELECT k FROM r WHERE r.d < s.d GROUP BY k HAVING "
        db.define(f"CREATE VIEW v AS SELECT d FROM s WHERE EXISTS ({groups} max(n) > 0 AND sum(n) < 9)")  # noqa: S608
        db.define(f"CREATE VIEW w AS SELECT d FROM s WHERE EXISTS ({groups} max(k) FILTER (WHERE TRUE) = 2)")  # noqa: S608
        with db.transaction() as tx:
            tx.insert("r", [(1, None, 1), (1, 5, 2), (2, None, 3), (1, 4, 4)])
            tx.insert("s", [(1,), (2,), (3,), (4,), (5,)])
        assert set(db.rows("v")) == {(3,), (4,)}
        assert set(db.rows("w")) == {(4,), (5,)}
        with db.transaction() as tx:
            tx.delete("r", [(1, 5, 2)])
        assert (set(tx.changes["v"].inserted), set(tx.changes["v"].deleted)) == ({(5,)}, {(3,), (4,)})
