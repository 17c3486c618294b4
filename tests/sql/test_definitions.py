"""Tables, views and assertions in SQL, beside Datalog in one catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

import upshot
from upshot.sql.program import sql_program
from upshot.syntax import parse, print_program


def printed(text: str) -> str:
    program = sql_program(text)
    assert parse(print_program(program)) == program
    return print_program(program)


def test_the_types_of_sql_are_types_of_columns() -> None:
    text = """
    CREATE TABLE t (
      a SMALLINT NOT NULL, b INTEGER NOT NULL, c BIGINT, d DOUBLE PRECISION, e TEXT, f BOOLEAN, g DATE, h TIMESTAMP,
      i TIMESTAMPTZ, j DECIMAL(10, 2), k NUMERIC(5), l VARCHAR(3)
    )
    """
    assert printed(text) == (
        ".decl t(\n    a: number, b: number, c: number?, d: float?, e: symbol?, f: boolean?, g: date?, h: timestamp?,\n"
        "    i: timestamp?, j: decimal(10,2)?, k: decimal(5,0)?, l: symbol?\n)\n    check length_l(strlen(l) <= 3)\n"
    )


def test_keys_and_constraints_stand_with_the_declaration() -> None:
    text = """
    CREATE TABLE item (id BIGINT PRIMARY KEY, code TEXT NOT NULL UNIQUE, price DECIMAL(8, 2) CHECK (price > 0));
    CREATE TABLE orders (
      n BIGINT NOT NULL, item BIGINT REFERENCES item, amount BIGINT,
      PRIMARY KEY (n), CONSTRAINT few CHECK (amount BETWEEN 1 AND 99 OR amount IS NULL)
    )
    """
    assert printed(text) == (
        ".decl item(id: number, code: symbol, price: decimal(8,2)?) key(id) key(code)\n"
        '    check(price > decimal("0.00"))\n'
        ".decl orders(n: number, item: number?, amount: number?) key(n) foreign(item) item(id)\n"
        "    check few(amount >= 1, amount <= 99; is_null(amount))\n"
    ).replace(" foreign(item) item(id)\n", "\n    foreign(item) item(id)\n")


def test_unique_of_a_column_that_can_be_null_lets_null_repeat() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE t (a BIGINT NOT NULL, b BIGINT UNIQUE)")
        with db.transaction() as tx:
            tx.insert("t", [(1, None), (2, None), (3, 7)])
        with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
            tx.insert("t", [(4, 7)])


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ("a > 1", [(2,), (None,)], (1,)),
        ("NOT (a > 1)", [(1,), (None,)], (2,)),
        ("a IN (1, 2)", [(1,), (None,)], (3,)),
        ("a NOT IN (1, 2)", [(3,), (None,)], (2,)),
        ("COALESCE(a, 0) > 1", [(2,)], (None,)),
        ("CASE WHEN a > 1 THEN a < 5 ELSE TRUE END", [(1,), (4,), (None,)], (7,)),
        ("CASE WHEN a > 1 THEN a < 5 ELSE FALSE END", [(4,)], (None,)),
        ("a IS NOT NULL", [(1,)], (None,)),
        ("(a > 1) IS NOT FALSE", [(2,), (None,)], (0,)),
        ("(a > 1) IS TRUE", [(2,)], (None,)),
        ("a = NULL", [(1,), (None,)], None),
    ],
)  # fmt: skip
def test_a_check_fails_where_it_is_false_and_not_where_it_is_unknown(
    check: str, good: list[tuple[int | None]], bad: tuple[int | None] | None
) -> None:
    with upshot.connect() as db:
        db.define(f"CREATE TABLE t (a BIGINT, CHECK ({check}))")
        with db.transaction() as tx:
            tx.insert("t", good)
        if bad is not None:
            with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
                tx.insert("t", [bad])


def test_views_of_both_languages_use_each_other() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE edge (a BIGINT NOT NULL, b BIGINT NOT NULL)")
        db.define(".decl path(x: number, y: number)\npath(X, Y) :- edge(X, Y).\npath(X, Z) :- path(X, Y), edge(Y, Z).")
        db.define("CREATE VIEW reach AS SELECT x, count(*) AS n FROM path GROUP BY x")
        db.define(".decl hub(x: number)\nhub(X) :- reach(X, N), N > 1.")
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        assert tx.changes["reach"].inserted == {(1, 2), (2, 1)}
        assert tx.changes["hub"].inserted == {(1,)}
        with db.transaction() as tx:
            tx.delete("edge", [(2, 3)])
        assert tx.changes["hub"].deleted == {(1,)}
        assert tx.changes["reach"].deleted == {(1, 2), (2, 1)}
        assert tx.changes["reach"].inserted == {(1, 1)}


def test_views_made_for_a_view_are_not_seen_and_go_with_it() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE t (a BIGINT, b BIGINT)")
        db.define("CREATE VIEW v AS SELECT a, sum(b) AS s FROM t GROUP BY a")
        assert list(db.schemas) == ["t", "v"]
        assert [item for item in db.program.items if getattr(item, "part_of", "") == "v"]
        with pytest.raises(upshot.UsageError) as error:
            db.drop("t")
        assert error.value.message == "`t` is used by `v`"
        db.define("CREATE OR REPLACE VIEW v AS SELECT a FROM t")
        assert print_program(db.program) == ".decl t(a: number?, b: number?)\n.decl v(a: number?)\nv(a) :- t(a, _).\n"
        db.define("CREATE OR REPLACE VIEW v AS SELECT a, sum(b) AS s FROM t GROUP BY a")
        db.drop("v")
        assert print_program(db.program) == ".decl t(a: number?, b: number?)\n"


def test_the_same_text_again_changes_nothing() -> None:
    text = "CREATE TABLE t (a BIGINT, b BIGINT); CREATE VIEW v AS SELECT a, max(b) AS m FROM t GROUP BY a"
    with upshot.connect() as db:
        db.define(text)
        before = db.program
        definition = db.define(text)
        assert db.program == before
        assert definition.kept == ("v",)


def test_a_durable_database_has_its_views_again(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define("CREATE TABLE t (a BIGINT, b BIGINT)")
        db.define("CREATE VIEW v AS SELECT a, count(DISTINCT b) AS n FROM t GROUP BY a HAVING sum(b) IS NOT NULL")
        with db.transaction() as tx:
            tx.insert("t", [(1, 2), (1, 3), (None, 4), (None, None), (5, None)])
    with upshot.connect(tmp_path / "store") as db:
        assert db.rows("v") == {(1, 2), (None, 1)}
        with db.transaction() as tx:
            tx.insert("t", [(None, 6)])
        assert tx.changes["v"].inserted == {(None, 2)}
        assert tx.changes["v"].deleted == {(None, 1)}
        db.verify()


def test_an_assertion_rejects_and_names_its_witnesses() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE t (a BIGINT NOT NULL, b BIGINT)")
        db.define("CREATE ASSERTION ordered CHECK (NOT EXISTS (SELECT a, b FROM t WHERE a > b))")
        db.define("CREATE ASSERTION small CHECK ((SELECT sum(b) FROM t) < 100)")
        with db.transaction() as tx:
            tx.insert("t", [(1, 2), (5, None)])
        with pytest.raises(upshot.ConstraintError) as error, db.transaction() as tx:
            tx.insert("t", [(3, 2)])
        assert error.value.violations == {"ordered": [(3, 2)]}
        with pytest.raises(upshot.ConstraintError) as error, db.transaction() as tx:
            tx.insert("t", [(3, 200)])
        assert error.value.violations == {"small": [()]}
        assert db.rows("t") == {(1, 2), (5, None)}


def test_names_are_found_in_any_case_and_made_lower_case() -> None:
    with upshot.connect() as db:
        db.define('CREATE TABLE Edge (A BIGINT, "From" BIGINT)')
        assert [str(schema) for schema in db.schemas.values()] == ["edge(a: number?, From: number?)"]
        db.define('CREATE VIEW V AS SELECT EDGE.a, e2."From" FROM edge JOIN Edge E2 ON edge.A = e2."From"')
        assert str(db.schemas["v"]) == "v(a: number, From: number)"


def test_a_table_that_is_there_stays_if_told_so() -> None:
    with upshot.connect() as db:
        db.define(".decl t(a: number)")
        db.define("CREATE TABLE IF NOT EXISTS t (a TEXT, b TEXT)")
        assert str(db.schemas["t"]) == "t(a: number)"


def test_spark_spells_some_things_otherwise() -> None:
    text = (
        "CREATE TABLE `t` (`a` LONG NOT NULL, b STRING); CREATE VIEW v AS SELECT `a` div 2 AS h FROM t WHERE b <=> null"
    )
    assert printed(text) == (".decl t(a: number, b: symbol?)\n.decl v(h: number)\nv(a / 2) :- t(a, b), is_null(b).\n")


def test_directives_stand_between_statements(tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(
        "-- edges\n.input edge\nCREATE TABLE edge (a BIGINT NOT NULL, b BIGINT NOT NULL);\n"
        "CREATE VIEW back AS SELECT b, a FROM edge;\n.view back strategy=counting\n.output back\n"
    )
    with upshot.connect() as db:
        db.define(file)
        assert [(each.kind, each.relation) for each in db.directives] == [("input", "edge"), ("output", "back")]
        assert "strategy counting" in str(db.explain("back"))


def test_recursion_is_the_view_itself_if_it_is_all_of_the_query() -> None:
    text = """
    CREATE TABLE edge (a BIGINT NOT NULL, b BIGINT NOT NULL);
    CREATE VIEW path (x, y) AS
      WITH RECURSIVE p AS (SELECT a, b FROM edge UNION SELECT p.a, e.b FROM p JOIN edge e ON e.a = p.b) SELECT * FROM p
    """
    assert printed(text) == (
        ".decl edge(a: number, b: number)\n.decl path(x: number, y: number)\npath(a, b) :- edge(a, b).\n"
        "path(a_1, b_2) :- path(a_1, a_2), edge(a_2, b_2).\n"
    )
