"""Conditions on new values hold for stored ones too, and effects that are the same for all of them are told as such."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import pytest

import upshot
from upshot import Bounds, Realization
from upshot.core.types import Kind, Type
from upshot.revise.ordered_values import Linear, new_value
from upshot.revise.witnesses import bounds_of, without_implied

LEVELS = """
.decl person(name: symbol, level: number) check(level > 0)
.decl ok(n: symbol)
ok(W) :- person(W, L), L >= 3.
"""
ABSENCES = """
.decl away(who: symbol, first: number, last: number) {check}
.decl day(d: number)
.decl off(who: symbol, d: number)
off(W, D) :- away(W, F, T), day(D), F <= D, D <= T.
day(1). day(2). day(3). away("cid", 2, 3).
"""
STOCK = """
.decl part(whole: symbol, piece: symbol, n: number)
.decl stock(sku: symbol, n: number) key(sku)
.decl missing(whole: symbol, piece: symbol)
missing(W, P) :- part(W, P, N), stock(P, M), M < N.
missing(W, P) :- part(W, P, _), !stock(P, _).
.decl blocked(whole: symbol)
blocked(W) :- missing(W, _).
.decl buildable(whole: symbol)
buildable(W) :- part(W, _, _), !blocked(W).
.decl plenty(sku: symbol)
plenty(S) :- stock(S, N), N > 100.
part("wheel", "spoke", 20). stock("spoke", 10).
"""


def ways(
    program: str, insert: dict[str, list[tuple[object, ...]]], delete: dict[str, list[tuple[object, ...]]] | None = None
) -> list[Realization]:
    with upshot.connect() as db:
        db.define(program)
        return list(db.realize(insert, delete, bounds=Bounds(seconds=60)))


def stated(found: list[Realization]) -> list[tuple[str, tuple[str, ...]]]:
    return [(" ".join(way.lines()), way.conditions) for way in found]


def test_stored_values_between_two_borders_that_will_not_do_are_left_out() -> None:
    found = stated(ways(LEVELS + 'person("a", 1). person("b", 2).', {"ok": [("c",)]}))
    assert found == [('+person("c", ?1)', ("?1 >= 3",))]


def test_stored_values_between_two_borders_that_will_do_need_not_be_left_out() -> None:
    program = LEVELS.replace("L >= 3", "L > 0, L != 3") + 'person("a", 1). person("b", 2).'
    assert ('+person("c", ?1)', ("?1 > 0", "?1 != 3")) in stated(ways(program, {"ok": [("c",)]}))


@pytest.mark.parametrize("check", ["", "check(first <= last)"])
def test_a_border_that_is_stored_is_not_crossed_if_it_will_not_do(check: str) -> None:
    found = stated(ways(ABSENCES.replace("{check}", check), {"off": [("ann", 1)]}))
    assert sorted(found) == [('+away("ann", ?1, 3)', ("?1 <= 1",)), ('+away("ann", ?1, ?2)', ("?1 <= 1", "?2 >= 1"))]


def test_two_new_values_that_can_only_be_one_are_named() -> None:
    program = """
        .decl e(x: number)  .decl f(x: number)  .decl p()
        p() :- e(X), f(Y), X < 12, Y > 10, X = Y + 0.
    """
    assert stated(ways(program, {"p": [()]})) == [("+e(11) +f(11)", ())]


def test_what_one_new_value_has_to_be_bounds_another() -> None:
    less_than = [new_value("?1").minus(new_value("?2")), new_value("?2").plus(Linear((), Fraction(-6)))]
    above = new_value("?1").plus(Linear((), Fraction(-3)))
    sides = {above: frozenset({1}), **dict.fromkeys(less_than, frozenset({-1}))}
    types = {"?1": Type(Kind.NUMBER), "?2": Type(Kind.NUMBER)}
    assert bounds_of(sides, types) == {"?1": (4, 4), "?2": (5, 5)}
    assert bounds_of({**sides, less_than[0]: frozenset({-1, 0})}, types) == {"?1": (4, 5), "?2": (4, 5)}
    assert bounds_of({less_than[0]: frozenset({0})}, dict.fromkeys(types, Type(Kind.FLOAT))) == dict.fromkeys(
        types, (None, None)
    )


def test_borders_beyond_nearer_ones_are_not_stated() -> None:
    value = new_value("?1")
    types = {"?1": Type(Kind.NUMBER)}
    near, far, last = (value.plus(Linear((), Fraction(-each))) for each in (1, 5, 7))
    below, apart = frozenset({-1}), frozenset({-1, 1})
    assert without_implied({far: below, near: below, last: apart}, types) == {near: below}
    assert without_implied({far: below, near: apart}, types) == {far: below, near: apart}
    assert without_implied({far: frozenset({0}), near: frozenset({1})}, types) == {far: frozenset({0})}


def test_what_was_asked_for_is_told_as_it_was_asked_for() -> None:
    program = """
        .decl item(sku: symbol, price: decimal(8,2))
        .decl cut(sku: symbol, off: decimal(8,2))
        .decl net(sku: symbol, price: decimal(8,2))
        net(S, P - O) :- item(S, P), cut(S, O).
    """
    (way,) = ways(program, {"net": [("lamp", Decimal(12))]})
    assert way.text().splitlines()[-1] == '// goal: +net("lamp", decimal("12.00"))'
    assert json.loads(way.json())["changes"]["net"]["insert"] == [["lamp", "12.00"]]


def test_what_was_asked_for_holds_for_all_new_values() -> None:
    program = """
        .decl edge(x: number, y: number)
        .decl far(x: number)
        far(X) :- edge(X, Y), N = Y - X, N * 2 > 9, N * N != 49.
    """
    for way in ways(program, {"far": [(3,)]}):
        assert "// goal: +far(3)" in way.text().splitlines()


def test_effects_that_rest_on_what_is_the_same_for_all_new_values_are_certain() -> None:
    (way,) = [way for way in ways(STOCK, {}, {"missing": [("wheel", "spoke")]}) if way.placeholders]
    assert way.conditions == ("?1 >= 20",)
    told = way.text().splitlines()
    assert '// also: -blocked("wheel")' in told
    assert '// also: +buildable("wheel")' in told
    assert way.by_trial == {"plenty"}


def test_of_computed_rows_that_may_be_there_already_the_number_is_not_certain() -> None:
    program = """
        .decl n(x: number)  .decl up(x: number)  .decl has()  .decl many(c: number)
        up(X + 1) :- n(X).  up(X - 1) :- n(X).  has() :- up(X), X > 5.  many(C) :- C = count : { up(_) }.
        n(3).
    """
    (way,) = ways(program, {"has": [()]})
    assert "many" in way.by_trial
