"""What rules compute, asked for backwards: all values where they are few, else a condition on a new one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import upshot
from tests.revise.test_goldens import database, shown
from upshot.core.types import NUMBER, SYMBOL
from upshot.revise.built_ins import roots, value_of
from upshot.syntax.ast import Call, Constant, Term, Variable

COLUMNS = """
    .decl a(x: number) .decl b(x: number) .decl s(t: symbol) .decl u(t: symbol) .decl f(x: float)
    .decl d(x: decimal(9, 2)) .decl w(y: decimal(9, 2)) .decl v(y: number) .decl t(y: symbol) .decl g(y: float)
"""
NUMBERS = ("+", "-", "*", "/", "%", "^", "band", "bor", "bxor", "bshl", "bshr", "min", "max")
X = Variable("X")


@pytest.mark.parametrize(
    ("rule", "wanted", "ways"),
    [
        ("v(Y) :- a(X), Y = X * X.", 9, [{"+a(3)"}, {"+a(-3)"}]),
        ("v(Y) :- a(X), Y = X / 2.", 3, [{"+a(6)"}, {"+a(7)"}]),
        ("v(Y) :- a(X), Y = X / 2.", -3, [{"+a(-7)"}, {"+a(-6)"}]),
        ("v(Y) :- a(X), Y = 10 % X.", 1, [{"+a(3)"}, {"+a(9)"}, {"+a(-3)"}, {"+a(-9)"}]),
        ("v(Y) :- a(X), Y = X ^ 2 + 1.", 17, [{"+a(4)"}, {"+a(-4)"}]),
        ("v(Y) :- a(X), Y = 2 ^ X.", 16, [{"+a(4)"}]),
        ("v(Y) :- a(X), Y = max(X, 5).", 6, [{"+a(6)"}]),
        ("v(Y) :- a(X), b(Z), Y = X * Z, X > 0, Z > X.", 6, [{"+a(1)", "+b(6)"}, {"+a(2)", "+b(3)"}]),
        ("v(Y) :- s(X), Y = strlen(X).", 0, [{'+s("")'}]),
        ('t(Y) :- s(X), Y = cat("a", X).', "ab", [{'+s("b")'}]),
        ("t(Y) :- s(X), Y = cat(X, X).", "abab", [{'+s("ab")'}]),
        ("t(Y) :- a(X), Y = to_string(X).", "-12", [{"+a(-12)"}]),
        (
            "t(Y) :- s(X), u(Z), Y = cat(X, Z).",
            "ab",
            [{'+s("")', '+u("ab")'}, {'+s("a")', '+u("b")'}, {'+s("ab")', '+u("")'}],
        ),
    ],
)
def test_what_an_equation_leaves_is_all_there_is(rule: str, wanted: Any, ways: list[set[str]]) -> None:
    answer = database(COLUMNS + rule).realize({rule[0]: [(wanted,)]})
    assert sorted(map(sorted, shown(answer))) == sorted(map(sorted, ways))
    assert answer.status == "all"


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("v(Y) :- a(X), Y = X * X.", 8),
        ("v(Y) :- a(X), Y = 2 * X.", 7),
        ("v(Y) :- a(X), Y = X % 3.", 5),
        ("v(Y) :- a(X), Y = X / 0.", 1),
        ("v(Y) :- a(X), Y = max(X, 5).", 4),
        ("v(1) :- a(X), X * 2 = 7.", 1),
        ('t(Y) :- s(X), Y = cat("a", X).', "ba"),
        ("t(Y) :- a(X), Y = to_string(X).", "012"),
        ("t(Y) :- s(X), Y = substr(X, 0, 2).", "abc"),
        ("v(Y) :- s(X), Y = strlen(X).", -1),
    ],
)
def test_what_an_equation_excludes_does_not_exist(rule: str, wanted: Any) -> None:
    answer = database(COLUMNS + rule).realize({rule[0]: [(wanted,)]})
    assert list(answer) == []
    assert answer.status == "none exists"


@pytest.mark.parametrize(
    ("rule", "wanted", "change", "conditions"),
    [
        ("v(Y) :- a(X), Y = X % 3.", 1, "+a(?1)", ("?1 % 3 = 1",)),
        ("v(Y) :- a(X), Y = X / 1000.", 1, "+a(?1)", ("?1 / 1000 = 1",)),
        ("v(Y) :- s(X), Y = strlen(X).", 4, "+s(?1)", ("strlen(?1) = 4",)),
        ("v(Y) :- s(X), Y = to_number(X).", 4, "+s(?1)", ("to_number(?1) = 4",)),
        ("v(Y) :- s(X), Y = ord(X).", 97, "+s(?1)", ("ord(?1) = 97",)),
        ("t(Y) :- s(X), Y = substr(X, 3, 2).", "ab", "+s(?1)", ('substr(?1, 3, 2) = "ab"',)),
        ("g(Y) :- f(X), Y = X + 0.5.", 2.0, "+f(?1)", ("?1 + 0.5 = 2.0",)),
        ("v(1) :- a(X), X * X > 49.", 1, "+a(?1)", ("?1 * ?1 > 49",)),
    ],
)
def test_of_endlessly_many_values_a_condition_tells_which(
    rule: str, wanted: Any, change: str, conditions: tuple[str, ...]
) -> None:
    ways = list(database(COLUMNS + rule).realize({rule[0]: [(wanted,)]}))
    assert [(set(way.lines()), way.conditions) for way in ways[:1]] == [({change}, conditions)]


@pytest.mark.parametrize("function", NUMBERS)
def test_all_roots_are_those_that_trying_finds(function: str) -> None:
    tried, said = range(-30, 31), 0
    for other, value, place in product((-4, -1, 0, 1, 3, 5), range(-6, 7), (0, 1)):
        args: tuple[Term, ...] = (X, Constant(other, NUMBER)) if place == 0 else (Constant(other, NUMBER), X)
        found = roots(Call(function, args), value, "X", {}, {"X": NUMBER})
        good = {each for each in tried if value_of(Call(function, args), {"X": each}, {"X": NUMBER}) == value}
        if found.are_all:
            assert good <= set(found.values), (other, value, place)
            said += 1
        else:
            assert good or not found.values or not set(found.values) <= set(tried), (other, value, place)
    assert said > 30


@pytest.mark.parametrize("function", ["+", "*", "-", "min", "max"])
def test_all_roots_of_a_variable_with_itself_are_those_that_trying_finds(function: str) -> None:
    for value in range(-30, 31):
        found = roots(Call(function, (X, X)), value, "X", {}, {"X": NUMBER})
        good = {x for x in range(-40, 41) if value_of(Call(function, (X, X)), {"X": x}, {"X": NUMBER}) == value}
        assert not found.are_all or good <= set(found.values), value


def test_all_parts_of_a_text_are_those_that_trying_finds() -> None:
    texts = ["".join(each) for size in range(4) for each in product("ab", repeat=size)]
    types = {"X": SYMBOL, "Z": SYMBOL}
    for args in [(X, Variable("Z")), (Variable("Z"), X), (X, Constant("a", SYMBOL), X), (Constant("b", SYMBOL), X)]:
        for text in texts:
            found = roots(Call("cat", args), text, "X", {}, types)
            pairs = (({"X": x, "Z": z}, x) for x in texts for z in texts)
            good = {x for known, x in pairs if value_of(Call("cat", args), known, types) == text}
            assert found.are_all
            assert good <= set(found.values), (args, text)


def test_a_row_that_a_change_brings_about_through_a_computed_value_is_taken_back() -> None:
    rules = """
        .decl a(x: number) .decl b(x: number) .decl e(x: number, y: number) .decl v(x: number) .decl w(x: number)
        v(Z) :- a(X), e(1, Y), X != 5, Z = X + 1.
        w(X) :- v(X), a(Y), !b(Y), X != Y - 2.
        e(1, 4). b(5).
    """
    with upshot.connect() as db:
        db.define(rules)
        answer = db.realize({"v": [(10,)]}, {"w": [(10,)]}, bounds=upshot.Bounds(seconds=300))
        assert [set(each.lines()) for each in answer] == [{"+a(9)", "+b(9)"}]
        assert answer.status == "all"
