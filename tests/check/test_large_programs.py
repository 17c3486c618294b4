"""Long programs and long rules are checked in time that grows with their length."""

from __future__ import annotations

import time

import pytest

from tests.check.programs import slugs
from upshot.check import check
from upshot.syntax.ast import (
    And,
    Atom,
    Attribute,
    Call,
    Comparison,
    Constant,
    Declaration,
    Formula,
    Not,
    Or,
    Program,
    Rule,
    Term,
    TypeName,
    Variable,
)

E = ".decl e(x: number, y: number)\n"
P = ".decl p(x: number)\n"
COUNT = 1_000

RULES = E + "".join(
    f".decl p{i}(x: number, y: number)\n"
    f"p{i}(X, Y) :- e(X, Z), {f'p{i - 1}' if i else 'e'}(Z, Y), X < Y + 1, !e(Y, X).\n"
    for i in range(COUNT)
)
LITERALS = E + P + "p(X0) :- " + ", ".join(f"e(X{i}, X{i + 1})" for i in range(COUNT)) + "."
EQUATIONS = (
    E + P + f"p(X{COUNT}) :- e(X0, _), " + ", ".join(f"X{i + 1} = X{i} + 1" for i in reversed(range(COUNT))) + "."
)
UNBOUND = E + P + "p(1) :- " + ", ".join(f"X{i} < Y{i}" for i in range(COUNT)) + "."
AGGREGATES = E + P + "p(A) :- e(A, _), " + ", ".join(f"N{i} = count : {{ e(A, X) }}" for i in range(COUNT)) + "."
HEADS = E + P + ", ".join(["p(X)"] * COUNT) + " :- e(X, _), e(_, X)."
CIRCLE = "".join(f".decl p{i}(x: number)\np{i}(X) :- p{(i + 1) % COUNT}(X).\n" for i in range(COUNT))
TYPES = (
    ".type T0 <: symbol\n.type U0 = T0 | symbol\n"
    + "".join(f".type T{i + 1} <: T{i}\n.type U{i + 1} = U{i} | T{i}\n" for i in range(COUNT))
    + f".decl s(x: T{COUNT})\n.decl t(x: U{COUNT})\nt(X) :- s(X), t(X).\n"
)
FACTS = E + "".join(f"e({i}, {i + 1}).\n" for i in range(20 * COUNT))


@pytest.mark.parametrize(
    ("text", "expected", "seconds"),
    [
        pytest.param(RULES, 0, 2, id="1000 rules"),
        pytest.param(LITERALS, 0, 2, id="1000 literals"),
        pytest.param(EQUATIONS, 0, 2, id="1000 equations in reverse"),
        pytest.param(UNBOUND, 2 * COUNT, 3, id="2000 unbound variables"),
        pytest.param(AGGREGATES, 0, 3, id="1000 aggregates in one rule"),
        pytest.param(HEADS, 0, 2, id="1000 heads"),
        pytest.param(CIRCLE, 0, 2, id="a circle of 1000 views"),
        pytest.param(TYPES, 0, 2, id="2000 types"),
        pytest.param(FACTS, 0, 4, id="20000 facts"),
    ],
)
def test_long_programs_take_little_time(text: str, expected: int, seconds: float) -> None:
    start = time.process_time()
    assert len(slugs(text)) == expected
    # Measured below a third of a second each; the bound allows for a busy machine.
    assert time.process_time() - start < seconds


def test_null_cases_are_bounded() -> None:
    body = ", ".join(f"m(A{i}, B{i}), !(A{i} < B{i})" for i in range(30))
    text = f".decl m(x: number?, y: number?)\n.decl p()\np() :- {body}."
    assert slugs(text) == ["too-many-alternatives"]


def test_trees_of_any_depth_are_checked_without_recursion() -> None:
    x = Variable("X")
    formula: Formula = Atom("q", (x,))
    term: Term = x
    for _ in range(5_000):
        formula = Not(And((Or((formula,)),)))
        term = Call("+", (term, Constant(1)))
    columns = (Attribute("x", TypeName("number")),)
    rule = Rule((Atom("p", (term,)),), And((Atom("q", (x,)), formula, Comparison("<", x, term))))
    fact = Rule((Atom("q", (Call("neg", (Constant(1),)),)),))
    program = check(Program((Declaration("p", columns), Declaration("q", columns), rule, fact)))
    assert len(program.clauses[0].body) == 3
    assert program.facts == {"q": ((-1,),)}
