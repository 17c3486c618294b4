"""New values that are part of groups: those with which an aggregate comes to what it has to."""

from __future__ import annotations

import pytest

import upshot
from tests.revise.test_goldens import database
from upshot import Bounds

PEOPLE = """
    .decl p(n: symbol, l: number) key(n)
    .decl top(l: number)
    .decl has(n: symbol)
    has(N) :- p(N, _).
    p("a", {a}). p("b", {b}).
"""


def ways(answer: upshot.Realizations) -> dict[str, tuple[str, ...]]:
    """The changes of each, with its conditions."""
    return {" ".join(sorted(each.lines())): each.conditions for each in answer}


@pytest.mark.parametrize(("function", "a", "b", "beyond"), [("max", 2, 1, "?1 < 1"), ("min", 1, 2, "?1 > 2")])
def test_a_row_that_has_to_stay_may_have_any_value_that_leaves_the_extreme(
    function: str, a: int, b: int, beyond: str
) -> None:
    program = PEOPLE.format(a=a, b=b) + f"top(M) :- M = {function} L : {{ p(_, L) }}."
    answer = database(program).realize({"top": [(b,)], "has": [("a",)]})
    assert ways(answer) == {f'+p("a", {b}) -p("a", {a})': (), f'+p("a", ?1) -p("a", {a})': (beyond,)}
    assert answer.status == "all"


def test_a_row_that_another_refers_to_may_have_any_value_that_leaves_the_extreme() -> None:
    program = """
        .decl person(name: symbol, level: number)
        .decl shift(who: symbol) foreign(who) person(name)
        .decl top(l: number)
        top(M) :- M = max L : { person(_, L) }.
        person("a", 2). person("b", 1). shift("a").
    """
    answer = database(program).realize({"top": [(1,)]})
    assert ways(answer) == {
        '+person("a", 1) -person("a", 2)': (),
        '+person("a", ?1) -person("a", 2)': ("?1 < 1",),
        '-person("a", 2) -shift("a")': (),
    }
    assert answer.status == "all"


def test_a_row_that_has_to_stay_may_have_any_value_that_a_count_leaves_out() -> None:
    program = """
        .decl p(n: symbol, l: number) key(n)
        .decl bar(l: number)
        .decl above(l: number)
        .decl many(c: number)
        .decl has(n: symbol)
        has(N) :- p(N, _).
        above(L) :- p(_, L), bar(B), L > B.
        many(C) :- C = count : { above(_) }.
        p("a", 20). p("b", 30). bar(10).
    """
    answer = database(program).realize({"many": [(1,)], "has": [("a",)]}, frozen=["bar", "-bar"])
    found = ways(answer)
    assert found['+p("a", ?1) -p("a", 20)'] == ("?1 <= 10",)
    assert answer.status == "all"
