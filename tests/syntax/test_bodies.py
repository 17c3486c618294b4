"""Formulas: literals, negation, groups, and how they are joined."""

from __future__ import annotations

import pytest

from upshot.core.errors import ProgramError
from upshot.syntax import parse, parse_query, print_formula
from upshot.syntax.ast import And, Atom, Call, Comparison, Constant, Formula, Not, Or, Rule, Variable
from upshot.syntax.ast import Test as BuiltIn

A, B, C, D = (Atom(name, ()) for name in "abcd")
X, Y = Variable("X"), Variable("Y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a()", A),
        ("a", A),
        ("((a))", A),
        ("a, b; c, d", Or((And((A, B)), And((C, D))))),
        ("a, (b; c), d", And((A, Or((B, C)), D))),
        ("a, (b, c), d", And((A, B, C, D))),
        ("a; (b; (c; d))", Or((A, B, C, D))),
        ("!a, b", And((Not(A), B))),
        ("!(a, b)", Not(And((A, B)))),
        ("!!a", Not(Not(A))),
        ("!X = Y", Not(Comparison("=", X, Y))),
        ("(X = Y)", Comparison("=", X, Y)),
        ("(X + 1) * 2 > Y", Comparison(">", Call("*", (Call("+", (X, Constant(1))), Constant(2))), Y)),
        ("((X)) < Y", Comparison("<", X, Y)),
        ("(a; b(X)), X != Y", And((Or((A, Atom("b", (X,)))), Comparison("!=", X, Y)))),
        ("strlen(X) >= 3", Comparison(">=", Call("strlen", (X,)), Constant(3))),
        ("date(X)", Atom("date", (X,))),
        ("X", Atom("X", ())),
        ("true, !false", And((BuiltIn("true", ()), Not(BuiltIn("false", ()))))),
        ("contains(X, Y)", BuiltIn("contains", (X, Y))),
        ("!match(X, Y)", Not(BuiltIn("match", (X, Y)))),
        ("is_null(X)", BuiltIn("is_null", (X,))),
        ("a // note\n , /* a\n comment */ b", And((A, B))),
        ("a.", A),
    ],
)
def test_a_body_is_read_as_written_and_flat(text: str, expected: Formula) -> None:
    assert parse_query(text) == expected
    assert parse_query(print_formula(expected)) == expected


def test_the_bare_names_true_and_false_compare_as_constants() -> None:
    found = parse_query("true = X")
    assert isinstance(found, Comparison)
    assert isinstance(found.left, Constant)


def test_a_literal_knows_its_place() -> None:
    found = parse_query("a(X),  !b(Y, 1)")
    assert isinstance(found, And)
    assert [part.span.text for part in found.parts if part.span] == ["a(X)", "!b(Y, 1)"]
    assert found.span is not None
    assert found.span.text == "a(X),  !b(Y, 1)"


def test_a_body_of_a_hundred_thousand_literals_is_one_flat_conjunction() -> None:
    (rule,) = parse(f"p(X) :- {', '.join(['q(X)'] * 100_000)}.").items
    assert isinstance(rule, Rule)
    assert isinstance(rule.body, And)
    assert len(rule.body.parts) == 100_000


@pytest.mark.parametrize(
    "text", ["", "   ", "a b", "a,", "?- a(X).", "a(X). b(X)", "old a(X)", ".decl a()", "a, count"]
)
def test_a_broken_query_gives_a_diagnostic(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_query(text)
    assert len(caught.value.diagnostics) == 1
