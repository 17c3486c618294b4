"""Columns of which the best value is kept: what is accepted, and what is refused with the literal named."""

from __future__ import annotations

import pytest

import upshot
from tests.check.programs import clauses
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.core.schema import Lattice
from upshot.syntax import parse, print_program

EDGE = ".decl e(x: number, y: number, w: number)\n"
DIST = EDGE + ".decl d(x: number, c: min number)\nd(1, 0).\n"

MONOTONE = (
    "d(Y, C + W) :- d(X, C), e(X, Y, W).",
    "d(Y, C) :- d(X, C), e(X, Y, _).",
    "d(Y, max(C, W)) :- d(X, C), e(X, Y, W).",
    "d(Y, 2 * C - W) :- d(X, C), e(X, Y, W).",
    "d(Y, C / 2) :- d(X, C), e(X, Y, _).",
    "d(Y, V) :- d(X, C), e(X, Y, W), V = C + W, V < 100.",
    "d(Y, 5) :- d(X, _), e(X, Y, _).",
    "d(Y, 5) :- d(X, C), e(X, Y, W), C <= W.",
    "d(Y, A + B) :- d(X, A), d(Y, B), e(X, Y, _).",
)

REFUSED = {
    "d(Y, W - C) :- d(X, C), e(X, Y, W).": "a better value in gives a worse `c`",
    "d(Y, C) :- d(X, C), e(X, Y, _), C > 3.": "`C > 3` is not monotone in `d`",
    "d(Y, C) :- d(X, C), e(X, Y, C).": "`e(X, Y, C)` is not monotone in `d`",
    "d(Y, A) :- d(X, A), d(Y, A), e(X, Y, _).": "it joins `A`",
    "d(Y, 3) :- d(X, 3), e(X, Y, _).": "it looks for the value `3`",
    "d(Y, C * W) :- d(X, C), e(X, Y, W).": "a better value in gives a worse `c`",
    "d(C, 0) :- d(X, C), e(X, _, _).": "column `x` would keep every intermediate value",
    "d(Y, W) :- d(X, C), e(X, Y, W), C != W.": "`C != W` is not monotone in `d`",
    "d(Y, W) :- d(X, C), e(X, Y, W), !e(X, Y, C).": "`!e(X, Y, C)` is not monotone in `d`",
    "d(Y, C % 3) :- d(X, C), e(X, Y, _).": "a better value in gives a worse `c`",
}

DECLARATIONS = {
    EDGE + ".decl d(x: number, c: min number)": "lattice-of-base-relation",
    EDGE + ".decl d(x: min number, c: min number)  d(X, Y) :- e(X, Y, _).": "several-lattice-columns",
    EDGE + ".decl d(x: number, c: min number?)  d(X, Y) :- e(X, Y, _).": "lattice-type",
    EDGE + ".decl d(x: number, c: any number)  d(X, Y) :- e(X, Y, _).": "lattice-type",
    ".type P = [a: number]  .decl r(x: number, v: P)  .decl d(x: number, v: min P)  d(X, V) :- r(X, V).": (
        "lattice-type"
    ),
    ".type P = [a: number]  .decl r(x: number, v: P)  .decl d(x: number, v: P)  d(X, V) :- r(X, V).\n"
    "d(X, A) <= d(X, B) :- B < A.": "lattice-type",
    ".type P = [a: number]  .decl r(x: number, v: P)  .decl d(x: number, v: P) choice-domain x  d(X, V) :- r(X, V).": (
        "choice-domain"
    ),
    ".type P = [a: number]  .decl r(x: number, v: P, w: number)  .decl d(x: number, v: P, w: number) choice-domain x\n"
    "d(X, V, W) :- r(X, V, W).": "choice-domain",
    ".type P = [a: number]  .decl d(x: number, v: P) choice-domain x  d(1, [2]).": "choice-domain",
    DIST + "d(X, A) <= d(X, B) :- B >= A.\nd(X, W) :- e(X, _, W).": "conflicting-lattice",
    EDGE + ".decl d(x: number, c: number)  d(X, Y) :- d(Y, X).\nd(X, A) <= d(Y, B) :- B < A.": (
        "unsupported-subsumption"
    ),
    EDGE + ".decl d(x: number, c: number)  d(X, Y) :- d(Y, X).\nd(X, A) <= d(Y, B) :- B <= A, X <= Y.": (
        "unsupported-subsumption"
    ),
    EDGE + ".decl d(x: number, c: number)  d(X, Y) :- d(Y, X).\nd(X, A) <= d(X, B) :- B < A, e(A, B, _).": (
        "unsupported-subsumption"
    ),
    EDGE + ".decl d(x: number, c: number)  d(X, Y) :- e(X, Y, _).\n.decl g(x: number)  g(X) :- d(X, _).\n"
    "d(X, A) <= d(X, B) :- B < A, !g(B).": "unsupported-subsumption",
    EDGE + ".decl d(x: number?, c: number)  d(X, Y) :- e(X, Y, _).\nd(X, A) <= d(Y, B) :- B < A, Y <= X.": (
        "unsupported-subsumption"
    ),
    EDGE + ".decl d(x: number, c: number)  d(X, Y) :- e(X, Y, _).\nd(X, A) <= d(X, A) :- A < 3.": (
        "unsupported-subsumption"
    ),
    EDGE + ".decl d(x: number, c: number)  d(X, Y) :- e(X, Y, _).\nd(X, A) <= e(X, B, _) :- B < A.": (
        "unsupported-subsumption"
    ),
    EDGE + "d(X, A) <= d(X, B) :- B < A.": "unsupported-subsumption",
}


@pytest.mark.parametrize("rule", MONOTONE)
def test_a_monotone_use_is_accepted(rule: str) -> None:
    assert check(parse(DIST + rule)).schemas["d"].lattice == Lattice(1, "min")


@pytest.mark.parametrize("rule", REFUSED)
def test_a_use_that_is_not_monotone_is_refused_with_the_literal(rule: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(DIST + rule))
    (found,) = caught.value.diagnostics
    assert found.slug == "not-monotone"
    assert REFUSED[rule] in found.message


@pytest.mark.parametrize("text", DECLARATIONS)
def test_a_declaration_that_keeps_no_best_value_is_refused(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(text))
    assert [found.slug for found in caught.value.diagnostics] == [DECLARATIONS[text]]


def test_a_view_above_may_use_the_values_in_any_way() -> None:
    text = DIST + "d(Y, C) :- d(X, C), e(X, Y, _).\n.decl far(c: number)  far(C) :- d(_, C), C > 3, e(C, _, _)."
    assert check(parse(text)).strata == (("d",), ("far",))


@pytest.mark.parametrize(
    ("subsumption", "function"),
    [
        ("d(X, A) <= d(X, B) :- B <= A.", "min"),
        ("d(X, A) <= d(X, B) :- A > B.", "min"),
        ("d(X, A) <= d(X, B) :- B > A.", "max"),
    ],
)
def test_a_subsumption_that_orders_one_column_keeps_its_best_value(subsumption: str, function: str) -> None:
    text = EDGE + ".decl d(x: number, c: number)\nd(X, W) :- e(X, _, W).\n" + subsumption
    assert check(parse(text)).schemas["d"].lattice == Lattice(1, function)


def test_lattices_and_subsumptions_print_as_they_read() -> None:
    program = parse(DIST + "d(X, A) <= d(X, B) :- B <= A.")
    assert parse(print_program(program)) == program
    assert "c: min number" in print_program(program)


@pytest.mark.parametrize("equations", ["A = B, B = A", "A = B + 1, B = A - 1", "A = B, B = C + 0, C = A"])
def test_equations_in_a_circle_are_followed_once(equations: str) -> None:
    text = ".decl e(x: number, y: number, w: number)  .decl d(x: number, v: min number)\nd(1, 0).\n"
    db = upshot.connect()
    db.define(text + f"d(Y, A) :- d(X, D), e(X, Y, A), {equations}, e(_, _, B), e(_, _, C), D <= A.")
    with db.transaction() as tx:
        tx.insert("e", [(1, 2, 7), (2, 1, 6), (1, 2, 9)])
    db.verify()


def test_classes_of_records_need_no_order() -> None:
    db = upshot.connect()
    db.define(".type P = [a: number]  .decl l(x: P, y: P)  .decl same(x: P, y: P) eqrel\nsame(X, Y) :- l(X, Y).")
    with db.transaction() as tx:
        tx.insert("l", [("[1]", "[2]")])
    assert set(db.rows("same")) == {(x, y) for x in ("[1]", "[2]") for y in ("[1]", "[2]")}


def test_a_subsumption_of_several_columns_becomes_rules() -> None:
    text = (
        ".decl a(x: number, y: number) .decl b(x: number, y: number)\n"
        "b(X, Y) :- a(X, Y).\nb(X, Y) <= b(A, B) :- A <= X, B >= Y."
    )
    assert clauses(text, "b_worse") == [
        "b_worse(X, Y) :- b_all(X, Y), b_all(A, B), A <= X, B >= Y, X != A.",
        "b_worse(X, Y) :- b_all(X, Y), b_all(A, B), A <= X, B >= Y, Y != B.",
    ]
    assert clauses(text, "b") == ["b(X, Y) :- b_all(X, Y), !b_worse(X, Y)."]


def test_what_a_subsumption_of_several_columns_keeps_changes_exactly() -> None:
    text = ".decl a(x: number, y: number) .decl b(x: number, y: number)\n"
    with upshot.connect() as db:
        db.define(text + "b(X, Y) :- a(X, Y).\nb(X, Y) <= b(A, B) :- A <= X, B <= Y.")
        with db.transaction() as tx:
            tx.insert("a", [(1, 5), (2, 4), (3, 3), (3, 6), (5, 5)])
        assert set(db.rows("b")) == {(1, 5), (2, 4), (3, 3)}
        with db.transaction() as tx:
            tx.delete("a", [(3, 3), (2, 4)])
        assert set(tx.changes["b"].inserted) == set()
        with db.transaction() as tx:
            tx.delete("a", [(1, 5)])
        assert set(tx.changes["b"].inserted) == {(3, 6), (5, 5)}
        db.verify()
