"""What is wrong with SQL is said with its place, its cause and its cure."""

from __future__ import annotations

import pytest

import upshot
from upshot.sql.program import sql_program

TABLES = """\
CREATE TABLE r (a BIGINT NOT NULL, b BIGINT, c TEXT);
CREATE TABLE s (a BIGINT NOT NULL, d DOUBLE PRECISION, e DECIMAL(8, 2));
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(upshot.ProgramError) as error:
        sql_program(TABLES + text)
    return [f"{d.slug} {d.span.text if d.span else ''}" for d in error.value.diagnostics]


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        ("SELECT a FROM rr", "unknown-relation rr"),
        ("SELECT x FROM r", "unknown-column x"),
        ("SELECT q.a FROM r", "unknown-relation q"),
        ("SELECT a FROM r, s", "sql-ambiguous a"),
        ("SELECT r.a FROM r, r", "sql-ambiguous r"),
        ("SELECT a FROM public.r", "sql-name public.r"),
        ('SELECT a AS "a b" FROM r', 'sql-name "a b"'),
        ("SELECT b FROM r WHERE c > 1", "type-mismatch 1"),
        ("SELECT b FROM r JOIN s ON r.c = s.d", "type-mismatch s.d"),
        ("SELECT b FROM r CROSS JOIN s ON r.a = s.a", "sql-syntax s ON r.a = s.a"),
        ("SELECT b FROM r CROSS JOIN s USING (a)", "sql-syntax s USING (a)"),
        ("SELECT b FROM r WHERE a", "type-mismatch a"),
        ("SELECT b, count(*) FROM r GROUP BY a", "sql-not-grouped b"),
        ("SELECT b FROM r WHERE count(*) > 1", "sql-misplaced-aggregate count(*)"),
        ("SELECT sum(count(*)) FROM r", "sql-misplaced-aggregate count(*)"),
        ("SELECT sum(c) FROM r", "type-mismatch sum(c)"),
        ("SELECT b, stddev(b) OVER (ORDER BY b) FROM r", "sql-unsupported stddev(b) OVER (ORDER BY b)"),
        ("SELECT sum(b) OVER (ORDER BY b RANGE 3 PRECEDING) FROM r", "sql-unsupported sum(b) OVER (ORDER BY b RANGE 3"),
        ("SELECT sum(b) OVER (ORDER BY b GROUPS 3 PRECEDING) FROM r",
         "sql-unsupported sum(b) OVER (ORDER BY b GROUPS 3"),
        ("SELECT b, rank() OVER w FROM r", "unknown-relation rank() OVER w"),
        ("SELECT json_agg(b) FROM r", "sql-unsupported b"),
        ("SELECT DISTINCT ON (x) b FROM r", "unknown-column x"),
        ("SELECT b FROM r QUALIFY b", "type-mismatch b"),
        ("SELECT b FROM r LIMIT -3", "sql-syntax 3"),
        ("SELECT b FROM r ORDER BY x", "unknown-column x"),
        ("SELECT DISTINCT b FROM r ORDER BY a LIMIT 1", "sql-order a"),
        ("SELECT a FROM r UNION SELECT a FROM s ORDER BY b", "sql-order b"),
        ("SELECT b FROM r ORDER BY 2", "sql-order 2"),
        ("SELECT (SELECT b FROM r) FROM s", "sql-unsupported b FROM r"),
        ("SELECT upper(a) FROM r", "type-mismatch a"),
        ("SELECT md5(c) FROM r", "sql-unsupported md5(c)"),
        ("SELECT CURRENT_DATE FROM r", "sql-unsupported CREATE VIEW v AS SELECT CURRENT_DATE FROM r"),
        ("SELECT a FROM r WHERE now() > date '2026-01-31'",
         "sql-unsupported now()"),
        ("SELECT date '2026-01-31' + interval '1 fortnight' FROM r",
         "malformed-literal CREATE VIEW v AS SELECT date '2026-01-31' + interval '1 fortnight' FROM r"),
        ("SELECT EXTRACT(fun FROM date '2026-01-31') FROM r", "sql-unsupported '2026-01-31'"),
        ("SELECT c + 1 FROM r", "type-mismatch c + 1"),
        ("SELECT a, b FROM r UNION SELECT a FROM s", "wrong-arity a, b FROM r UNION SELECT a FROM s"),
        ("SELECT a FROM r WHERE a IN (SELECT a, b FROM r)", "wrong-arity a IN (SELECT a, b FROM r)"),
        ("SELECT CAST(e AS DATE) FROM s", "sql-unsupported e"),
        ("SELECT a FROM r WHERE c LIKE c", "sql-unsupported c LIKE c"),
        ("SELECT a FROM r RIGHT JOIN LATERAL (SELECT 1) x ON TRUE", "sql-unsupported 1) x"),
        ("SELECT a FROM r LEFT JOIN LATERAL (SELECT 1 AS y) x ON y = a", "sql-unsupported 1 AS y) x ON y = a"),
        ("SELECT (SELECT a, b FROM r LIMIT 1) FROM s", "wrong-arity a, b FROM r LIMIT 1"),
        ("SELECT b, d FROM r JOIN s", "sql-syntax s"),
        ("SELECT b, d FROM r INNER JOIN s", "sql-syntax s"),
        ("SELECT b, d FROM r LEFT JOIN s", "sql-syntax s"),
        ("SELECT b, d FROM (r JOIN s) JOIN s q ON TRUE", "sql-syntax s"),
        ("SELECT `b`, d FROM r JOIN s", "sql-syntax s"),
        ("SELECT `b`, d FROM r LEFT JOIN s", "sql-syntax s"),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_a_view_is_refused_at_its_place(query: str, mistake: str) -> None:
    assert mistakes(f"CREATE VIEW v AS {query};") == [mistake]


@pytest.mark.parametrize(
    ("statement", "mistake"),
    [
        ("CREATE TABLE t (a REAL)", "sql-type a"),
        ("CREATE TABLE t (a NUMERIC)", "sql-type a"),
        ("CREATE TABLE t (a DECIMAL(30, 2))", "sql-type a DECIMAL(30, 2)"),
        ("CREATE TABLE t (a DECIMAL(8, 2, 3))", "sql-type a DECIMAL(8, 2, 3)"),
        ("CREATE TABLE t (a BIGINT[])", "sql-type a"),
        ("CREATE TABLE t (a BIGINT DEFAULT 3)", "sql-unsupported a BIGINT DEFAULT 3"),
        ("CREATE TABLE t (a BIGINT, a TEXT)", "duplicate-column a"),
        ("CREATE TABLE t (a BIGINT, PRIMARY KEY (b))", "unknown-column b"),
        ("CREATE TABLE t (a BIGINT REFERENCES q)", "unknown-relation q"),
        ("CREATE TABLE t (a BIGINT REFERENCES r (a) ON DELETE CASCADE)", "sql-unsupported a BIGINT REFERENCES r (a)"),
        ("CREATE TABLE t (a BIGINT REFERENCES r)", "sql-syntax a BIGINT REFERENCES r"),
        ("CREATE TABLE t (a BIGINT UNIQUE, b BIGINT)", "sql-unsupported a"),
        ("CREATE TABLE t (a BIGINT CHECK (a IN (SELECT a FROM r)))", "sql-unsupported a IN (SELECT a FROM r)"),
        ("CREATE TABLE t AS SELECT 1", "sql-unsupported t AS SELECT 1"),
        ("CREATE TEMP VIEW v AS SELECT a FROM r", "sql-unsupported CREATE"),
        ("CREATE VIEW v AS SELECT a, a FROM r", "duplicate-column v"),
        ("CREATE VIEW v (x) AS SELECT a, b FROM r", "wrong-arity v (x)"),
        ("CREATE VIEW v AS SELECT NULL AS x", "sql-type CREATE VIEW v AS SELECT NULL AS x"),
        ("CREATE VIEW r AS SELECT a FROM s", "duplicate-declaration CREATE VIEW r AS SELECT a FROM s"),
        ("CREATE INDEX i ON r (a)", "sql-unsupported CREATE"),
        ("INSERT INTO r VALUES (1, 2, 'x')", "sql-unsupported INSERT"),
        ("SELECT a FROM r", "sql-query-in-program SELECT a FROM r"),
        ("CREATE VIEW v AS SELECT FROM WHERE", "sql-syntax WHERE"),
        ("CREATE ASSERTION c NOT EXISTS (SELECT 1)", "sql-syntax CREATE ASSERTION c NOT EXISTS (SELECT 1)"),
    ],
)
def test_a_statement_that_defines_nothing_here_is_refused_at_its_place(statement: str, mistake: str) -> None:
    assert mistakes(statement) == [mistake]


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        ("SELECT b FROM r GROUP", "sql-syntax GROUP"),
        ("SELECT b FROM r ORDER", "sql-syntax ORDER"),
        ("SELECT b FROM r OFFSET", "sql-syntax OFFSET"),
        ("SELECT b end FROM r", "sql-syntax end"),
        ("SELECT b, FROM r", "sql-syntax ,"),
        ("SELECT b,, c FROM r", "sql-syntax ,"),
        ("SELECT b FROM r, WHERE a > 1", "sql-syntax ,"),
        ("SELECT b FROM r ORDER BY b,", "sql-syntax ,"),
        ("SELECT b FROM r WHERE b IN ()", "sql-syntax IN"),
        ("SELECT b FROM r WHERE b IN (1,)", "sql-syntax ,"),
    ],
)
def test_a_clause_without_its_end_is_no_name_and_an_empty_place_no_list(query: str, mistake: str) -> None:
    assert mistakes(f"CREATE VIEW v AS {query};") == [mistake]


def test_a_reserved_word_is_a_name_behind_as_or_in_quotes() -> None:
    text = 'CREATE VIEW v AS SELECT b AS end, a AS "order" FROM r "group"'
    assert sql_program(TABLES + text).items


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("CREATE TABLE", "the name of a table is missing at `TABLE`", "TABLE"),
        ("SELECT FROM", "the name of a table is missing at `FROM`", "FROM"),
        ("CREATE VIEW v SELECT a FROM r", "AS is missing before the query of the view", "SELECT"),
        ("CREATE VIEW v AS SELECT 'x FROM r", "this text does not end", "'x FROM r"),
        ("CREATE VIEW v AS SELECT b /* FROM r", "this comment does not end", "/* FROM r"),
        ("CREATE VIEW v AS SELECT b b c FROM r", "`c` is not expected here", "c"),
        ("CREATE VIEW v AS SELECT (b FROM r", "`)` is missing at `FROM`", "FROM"),
        ("CREATE VIEW v AS SELECT CASE WHEN b = 1 THEN 2 FROM r", "the END of CASE is missing", "2"),
        ("CREATE VIEW v AS SELECT string_agg(c, ',') OVER (ORDER BY a) FROM r",
         "`STRING_AGG(c, ',') OVER (ORDER BY a)` is not supported", "string_agg(c, ',') OVER (ORDER BY a)"),
        ("CREATE VIEW v AS SELECT a FROM r WHERE now() > date '2026-01-31'", "`now()` in a view is not supported",
         "now()"),
    ],
)  # fmt: skip
def test_a_mistake_of_form_is_described_in_the_words_of_sql(text: str, message: str, place: str) -> None:
    with pytest.raises(upshot.ProgramError) as error:
        sql_program(TABLES + text)
    (found,) = error.value.diagnostics
    assert (found.message, found.span and found.span.text) == (message, place)
    assert found.help
    assert "oken" not in str(error.value)


def test_every_statement_is_looked_at() -> None:
    text = "CREATE VIEW v AS SELECT x FROM r;\nCREATE VIEW w AS SELECT a FROM q;\nCREATE VIEW z AS SELECT a FROM r"
    assert mistakes(text) == ["unknown-column x", "unknown-relation q"]


def test_a_mistake_is_shown_as_compilers_do() -> None:
    with pytest.raises(upshot.ProgramError) as error, upshot.connect() as db:
        db.define("CREATE TABLE emp (name TEXT, dept BIGINT);\nCREATE VIEW v AS\n  SELECT nane FROM emp")
    assert str(error.value) == (
        "error[unknown-column]: unknown column `nane`\n --> <text>:3:10\n  |\n3 |   SELECT nane FROM emp\n"
        "  |          ^^^^\n  = help: did you mean `name`?"
    )


def test_nothing_is_defined_if_something_is_wrong() -> None:
    with upshot.connect() as db:
        with pytest.raises(upshot.ProgramError):
            db.define("CREATE TABLE t (a BIGINT); CREATE VIEW v AS SELECT b FROM t")
        assert not db.schemas


def test_recursion_through_negation_is_refused() -> None:
    with upshot.connect() as db:
        db.define(TABLES)
        with pytest.raises(upshot.ProgramError) as error:
            db.define(
                "CREATE VIEW v AS WITH RECURSIVE w(x) AS (SELECT a FROM r UNION SELECT a + 1 FROM s "
                "WHERE a NOT IN (SELECT x FROM w)) SELECT * FROM w"
            )
        assert error.value.code == "unstratified"
        first = error.value.diagnostics[0]
        assert first.span is not None
        assert first.span.text == "a NOT IN (SELECT x FROM w)"


@pytest.mark.parametrize("word", ["min", "max"])
def test_a_best_value_of_one_step_of_a_recursion_is_refused_with_the_form_that_is_accepted(word: str) -> None:
    step = f"SELECT w.x, {word}(r.b) FROM w JOIN r ON r.a = w.y GROUP BY w.x"  # noqa: S608
    query = f"WITH RECURSIVE w(x, y) AS (SELECT a, b FROM r UNION {step}) SELECT * FROM w"  # noqa: S608
    assert mistakes(f"CREATE VIEW v AS {query}") == [f"unstratified {word}(r.b)"]
    with pytest.raises(upshot.ProgramError, match="group the whole union"):
        sql_program(f"{TABLES}CREATE VIEW v AS {query}")


@pytest.mark.parametrize(
    "join",
    ["r CROSS JOIN s", "r, s", "r JOIN s ON TRUE", "r JOIN s USING (a)", "r NATURAL JOIN s", "r LEFT JOIN s ON true",
     "r JOIN s JOIN r q ON TRUE ON q.a = r.a"],
)  # fmt: skip
@pytest.mark.parametrize("column", ["b", "`b`"])
def test_a_join_that_says_what_it_pairs_is_read(join: str, column: str) -> None:
    column = f"r.{column}"
    assert sql_program(f"{TABLES}CREATE VIEW v AS SELECT {column} FROM {join};").items  # noqa: S608


@pytest.mark.parametrize(
    "text",
    ['CREATE TABLE t (e DECIMAL(8, ""));', 'CREATE TABLE t (e DECIMAL("", 2))', 'CREATE VIEW v AS SELECT ""::""'],
)
def test_whatever_the_parser_meets_is_a_diagnostic_with_a_place(text: str) -> None:
    with pytest.raises(upshot.ProgramError) as raised:
        sql_program(text)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.text
    assert diagnostic.help
    assert "sqlglot" not in str(raised.value)


def test_a_decimal_is_shown_as_it_is_written() -> None:
    with pytest.raises(upshot.ProgramError, match=r"invalid type DECIMAL\(8, 'x'\)"):
        sql_program("CREATE TABLE t (a DECIMAL(8, 'x'))")
