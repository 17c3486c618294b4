"""Required columns get no NULL: what is taken as a proof, and what is not."""

from __future__ import annotations

import pytest

from tests.check.programs import checked, slugs, warnings

DECLARED = """
.decl m(x: number?, y: number?)
.decl k(x: number?)
.decl r(x: number)
.decl p(x: number)
.decl q(x: number?)
"""


@pytest.mark.parametrize(
    "body",
    [
        "m(X, _), r(X)",
        "m(X, _), k(X)",
        "m(X, Y), X < Y",
        "m(X, _), X = X",
        "m(X, _), !is_null(X)",
        "m(X, _), !is_null(X + 1)",
        "m(X, _), r(X + 1)",
        "m(Y, _), X = Y",
        "X = sum Y : { k(Y) }",
        "m(Y, _), X = count : { k(Y) }",
    ],
)
def test_these_bodies_prove_that_a_variable_is_not_null(body: str) -> None:
    assert slugs(DECLARED + f"p(X) :- {body}.") == []


@pytest.mark.parametrize(
    "body",
    [
        "k(X)",
        "m(X, X)",
        "k(X), !r(X)",
        "k(X), is_null(X)",
        "k(X), !(X < 3)",
        "k(X), N = count : { r(X) }, N >= 0",
        "k(X), N = count : { r(Y), Y < X }, N >= 0",
    ],
)
def test_these_bodies_do_not(body: str) -> None:
    assert slugs(DECLARED + f"p(X) :- {body}.") == ["nullable-value"]


def test_the_value_of_a_functor_is_null_when_an_argument_is() -> None:
    assert slugs(DECLARED + "p(max(X, 1)) :- k(X).\nq(max(X, 1)) :- k(X).") == ["nullable-value"]


def test_nullable_columns_take_everything() -> None:
    text = "q(X) :- k(X).\nq(null) :- k(_).\nq(X) :- r(X).\nq(null)."
    assert slugs(DECLARED + text) == []


def test_variables_know_whether_they_can_be_null() -> None:
    program = checked(DECLARED + "q(X) :- m(X, Y), N = count : { m(Y, Z), k(X) }, N > 0.")
    types = {n: str(t) for n, t in program.clauses[0].types.items()}
    assert types == {"X": "number?", "Y": "number?", "Z": "number?", "N": "number"}


def test_constraints_infer_nullable_columns() -> None:
    schema = checked(DECLARED + ".deny bad(X, Y) :- m(X, Y), Y > 0.").schemas["bad"]
    assert str(schema) == "bad(X: number?, Y: number)"


@pytest.mark.parametrize("body", ["k(X), X = null", "k(X), X != null", "m(X, null)", "k(X), !m(X, null)"])
def test_comparing_with_null_is_worth_a_warning(body: str) -> None:
    assert [slug for slug, _ in warnings(DECLARED + f"q(X) :- {body}.")] == ["null-comparison"]
