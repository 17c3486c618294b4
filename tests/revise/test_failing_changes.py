"""Changes that cannot be made: a computation fails, a row does not fit its relation, NULL would have to join. The
search goes on without them, and printing an answer never fails."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.revise.test_goldens import database, shown

LOOKED_UP = """
    .decl a(x: number, y: {0}) .decl b(y: {0}) .decl s(x: number) .decl t(x: number, z: number)
    s(X) :- a(X, Y), b(Y).
    t(X, Z) :- a(X, Y), Z = {1}.
"""

DIVIDED = LOOKED_UP.format("number", "10 / Y")
NULLABLE = ".decl a(y: number?) .decl b(y: number?) .decl v(y: number?) "
EMP = "CREATE TABLE emp(id INTEGER NOT NULL, dept VARCHAR, pay INTEGER NOT NULL);\n"


def asked(answer: upshot.Realizations) -> tuple[list[set[str]], str]:
    return sorted(shown(answer), key=sorted), answer.status


def test_a_change_by_which_a_rule_would_divide_by_zero_is_left_out() -> None:
    answer = database(DIVIDED, b=[(0,), (5,)]).realize({"s": [(1,)]})
    assert {"+a(1, 5)"} in shown(answer)
    assert answer.status == "bounds reached"
    assert "division by zero in the rule for `t(X, Z)`" in answer.reason


def test_a_change_by_which_a_rule_would_read_no_number_is_left_out() -> None:
    answer = database(LOOKED_UP.format("symbol", "to_number(Y)"), b=[("x",), ("5",)]).realize({"s": [(1,)]})
    assert shown(answer) == [{'+a(1, "5")'}]
    assert "cannot read 'x'" in answer.reason


def test_a_literal_that_is_not_there_yet_may_guard_a_division() -> None:
    program = """
        .decl a(x: number, y: number) .decl b(y: number) .decl s(x: number)
        s(X) :- a(X, Y), b(Y), 10 / Y > 2.
    """
    answer = database(program, a=[(1, 0), (1, 3)]).realize({"s": [(1,)]})
    assert shown(answer)[0] == {"+b(3)"}


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (".decl e(x: number, y: number) .decl v(x: number, y: number?) v(X, Y) :- e(X, Y).", (1, None)),
        (NULLABLE + "v(Y) :- a(Y), b(Y).", (None,)),
        (".decl a(y: unsigned) .decl v(y: unsigned) v(Y + 3) :- a(Y).", (1,)),
        (".decl a(y: number) .decl v(y: number) v(Y + 3) :- a(Y).", (-(2**63),)),
        (
            ".decl f(g: number?) .decl v(g: number?, n: number) v(G, N) :- f(G), N = count : { f(G) }.",
            (None, 2),
        ),
    ],
)
def test_a_row_that_its_relation_cannot_have_brings_nothing_about(program: str, wanted: tuple[Any, ...]) -> None:
    assert asked(database(program).realize({"v": [wanted]})) == ([], "none exists")


def test_null_stands_in_the_way_of_no_negated_literal() -> None:
    program = NULLABLE + "v(Y) :- a(Y), !b(Y)."
    assert asked(database(program, b=[(None,)]).realize({"v": [(None,)]})) == ([{"+a(null)"}], "all")
    assert asked(database(program, a=[(None,)]).realize(delete={"v": [(None,)]})) == ([{"-a(null)"}], "all")


def test_null_is_one_of_the_values_of_a_nullable_column() -> None:
    known = ".decl f(x: number?) .decl t(k: number) t(9) :- f(X)"
    assert asked(database(f"{known}.").realize({"t": [(9,)]})) == ([{"+f(?1)"}, {"+f(null)"}], "all")
    assert asked(database(f"{known}, is_null(X).").realize({"t": [(9,)]})) == ([{"+f(null)"}], "all")
    assert asked(database(f"{known}, X = X.").realize({"t": [(9,)]})) == ([{"+f(?1)"}], "all")


def test_an_outer_join_has_null_for_what_is_missing() -> None:
    join = "CREATE VIEW j AS SELECT d.name, emp.id FROM d LEFT JOIN emp ON emp.dept = d.name;"
    db = database(EMP + "CREATE TABLE d(name VARCHAR NOT NULL);\n" + join)
    assert asked(db.realize({"j": [("x", None)]})) == ([{'+d("x")'}], "all")


def test_rows_chosen_by_null_are_asked_for_with_null() -> None:
    db = database(EMP)
    db.define("CREATE VIEW n AS SELECT id FROM emp WHERE dept IS NULL;")
    assert asked(db.realize({"n": [(1,)]})) == ([{"+emp(1, null, ?1)"}], "all")


@pytest.mark.parametrize(
    ("program", "view", "row"),
    [
        (DIVIDED + "b(0).", "s", (1,)),
        (".decl e(x: number, y: number) .decl v(x: number, y: number?) v(X, Y) :- e(X, Y).", "v", (1, None)),
        (NULLABLE + "v(Y) :- a(Y), b(Y).", "v", (None,)),
    ],
)
def test_the_answer_to_why_not_can_always_be_printed(program: str, view: str, row: tuple[Any, ...]) -> None:
    answer = database(program).why_not(view, row)
    assert "does not hold" in str(answer)
    assert answer.json()


def test_what_a_rule_of_the_user_refuses_is_no_realization() -> None:
    def refuse(*_: object) -> None:
        raise upshot.Veto("closed today")

    db = upshot.connect()
    db.action("refuse", refuse)
    db.define(
        ".decl a(x: number) .decl v(x: number) v(X) :- a(X)."
        ".rule no(X) coupling=deferred on insert a(X) do call refuse(X)."
    )
    answer = db.realize({"v": [(1,)]})
    assert asked(answer) == ([], "none exists")
    assert "closed today" in answer.reason


def test_what_sets_off_rules_without_end_is_no_realization() -> None:
    answer = database(
        ".decl a(x: number) .decl v(x: number) v(X) :- a(X). .rule more(X) on insert a(X) do insert a(X + 1)."
    ).realize({"v": [(1,)]})
    assert asked(answer) == ([], "none exists")
