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


ROOM = """
    .decl acct(id: symbol, lim: number) key(id)
    .decl mv(id: symbol, n: number, v: number) key(id, n)
    .decl bal(id: symbol, s: number)
    .decl room(id: symbol, r: number)
    .decl big(id: symbol)
    bal(A, S) :- acct(A, _), S = sum V : { mv(A, _, V) }.
    room(A, L + S) :- acct(A, L), bal(A, S).
    big(A) :- room(A, R), R > 15.
    acct("a", 10). mv("a", 1, -5). mv("a", 2, 2).
"""


def test_what_a_sum_lacks_beside_a_new_value_is_new_or_stored() -> None:
    answer = database(ROOM).realize({"big": [("b",)]}, bounds=Bounds(size=2, seconds=300))
    assert ways(answer) == {
        '+acct("b", ?1)': ("?1 > 15",),
        '+acct("b", 10) +mv("b", ?1, ?2)': ("?2 > 5",),
        '+acct("b", 10) +mv("b", 1, ?1)': ("?1 > 5",),
        '+acct("b", 10) +mv("b", 2, ?1)': ("?1 > 5",),
    }
    assert "2 changes" in answer.reason


def test_what_a_sum_lacks_to_be_an_asked_value_follows_from_the_new_value_beside_it() -> None:
    answer = database(ROOM).realize({"room": [("b", 16)]}, bounds=Bounds(size=2, seconds=300))
    found = ways(answer)
    alone = {f'+acct("b", 10) +mv("b", {n}, 6)' for n in ("?1", 1, 2)}
    beside = {f'+acct("b", ?1) +mv("b", {n}, ?2)' for n in (1, 2)} | {'+acct("b", ?1) +mv("b", ?2, ?3)'}
    stored = {f'+acct("b", {16 - v}) +mv("b", {n}, {v})' for n in ("?1", 1, 2) for v in (2, -5)}
    assert found.keys() == {'+acct("b", 16)', *alone, *beside, *stored}
    assert all(any("+ ?" in condition and "= 16" in condition for condition in found[each]) for each in beside)


@pytest.mark.parametrize("function", ["max", "sum"])
def test_an_aggregate_that_is_compared_with_a_new_value_is_made_of_new_ones(function: str) -> None:
    program = f"""
        .decl p(n: symbol, l: number)
        .decl lim(l: number)
        .decl ok()
        ok() :- M = {function} L : {{ p(_, L) }}, lim(B), M < B, M > 3.
    """
    answer = database(program).realize({"ok": [()]}, bounds=Bounds(new_constants=3))
    assert ways(answer) == {"+lim(?1) +p(?2, ?3)": ("?3 > 3", "?1 > ?3")}
    fewer = database(program).realize({"ok": [()]})
    assert ways(fewer) == {}
    assert "2 fresh values" in fewer.reason


@pytest.mark.parametrize(("function", "now", "asked", "off"), [("min", 2, 5, -3), ("max", 9, 5, 4)])
def test_what_makes_another_of_a_row_that_goes_is_worked_out_and_does_not_count_as_new(
    function: str, now: int, asked: int, off: int
) -> None:
    program = f"""
        .decl item(s: symbol, p: number) key(s)
        .decl discount(s: symbol, o: number, f: number, t: number) check(f <= t)
        .decl reduced(s: symbol, o: number)
        .decl net(s: symbol, p: number)
        .decl best(p: number)
        reduced(S, O) :- discount(S, O, F, T), F <= 10, 10 <= T.
        net(S, P - O) :- item(S, P), reduced(S, O).
        net(S, P) :- item(S, P), !reduced(S, _).
        best(M) :- M = {function} P : {{ net(_, P) }}.
        item("a", {now}).
    """
    answer = database(program).realize({"best": [(asked,)]}, bounds=Bounds(size=2, seconds=300))
    found = list(answer)
    assert [*found[0].lines()] == [f'+discount("a", {off}, ?1, ?2)']
    assert found[0].conditions == ("?1 <= 10", "?2 >= 10")
    others = {frozenset(each.lines()) for each in found[1:]}
    assert others == {frozenset((f'-item("a", {now})', f"+item({name}, {asked})")) for name in ('"a"', "?1")}
    assert answer.work["models"] < 200


def test_the_bound_that_is_enough_is_one_of_the_new_values() -> None:
    program = PEOPLE.format(a=20, b=1) + "top(M) :- M = max L : { p(_, L) }."
    answer = database(program).realize({"has": [("a",)]}, {"top": [(20,)]})
    found = [(" ".join(sorted(each.lines())), each.conditions) for each in answer]
    assert found[0] == ("+p(?1, ?2)", ("?2 > 20",))
    assert set(found[1:]) == {
        ('+p("b", ?1) -p("b", 1)', ("?1 > 20",)),
        ('+p("a", ?1) -p("a", 20)', ()),
        ('+p("a", 1) -p("a", 20)', ()),
    }
    assert answer.status == "all"


RED = """
    .decl e(x: number, y: number)
    .decl has(x: number)
    .decl r(x: number, y: number)
    .decl g(x: number, n: number)
    has(X) :- e(X, _).
    r(X, Y) :- e(X, Y).
    {rule}
    g(X, N) :- e(X, _), N = sum Y : {{ r(X, Y) }}.
    .deny d({head}) :- g(X, N), N < 3.
    .deny d existing=keep
    e(-1, 1).
"""


@pytest.mark.parametrize("head", ["X, N", "N"])
def test_a_group_comes_to_the_value_of_a_violation_that_stays(head: str) -> None:
    db = database(RED.format(rule="", head=head))
    request = {"has": [(-1,)]}, {"e": [(-1, 1)]}
    answer = db.realize(*request, bounds=Bounds(new_constants=0, constants=(-1, 2)))
    assert ways(answer) == {"+e(-1, -1) +e(-1, 2) -e(-1, 1)": ()}
    assert "second" not in answer.reason
    answer = db.realize(*request, bounds=Bounds(constants=(-1, 2)))
    assert ways(answer) == {"+e(-1, ?1) -e(-1, 1)": ("?1 >= 3",), "+e(-1, -1) +e(-1, 2) -e(-1, 1)": ()}


def test_a_violation_that_has_to_go_does_not_stay() -> None:
    db = database(RED.format(rule="", head="X, N"))
    bounds = Bounds(new_constants=0, constants=(-1, 2, 4), size=3)
    answer = db.realize({"has": [(-1,)]}, {"d": [(-1, 1)], "e": [(-1, 1)]}, bounds=bounds)
    assert ways(answer) == {"+e(-1, 4) -e(-1, 1)": ()}


def test_a_sum_is_not_made_up_of_one_row_twice() -> None:
    """With `e(-1, -1)` a new value beside the stored 1 would have to be 1 for the sum to stay 1: that is no new row."""
    rules = ".decl b(x: number) .decl m(x: number) m(X) :- e(_, X), !b(X). r(X, Z) :- r(X, Y), e(Y, Z)."
    db = database(RED.format(rule=rules, head="X, N") + "b(-1).")
    bounds = Bounds(new_constants=0, constants=(-1, 1, 2), rounds=1000, seconds=300)
    answer = db.realize({"m": [(-1,)]}, bounds=bounds)
    assert ways(answer) == {"+e(-1, -1) +e(-1, 2) -b(-1) -e(-1, 1)": ()}
    assert answer.work["models"] < 150


def test_conditions_on_a_sum_do_not_count_the_rows_that_go() -> None:
    db = database(RED.format(rule="", head="X, N"))
    answer = db.realize({"has": [(-1,)]}, {"e": [(-1, 1)]}, bounds=Bounds(new_constants=1))
    assert ways(answer) == {"+e(-1, ?1) -e(-1, 1)": ("?1 >= 3",)}
