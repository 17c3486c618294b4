"""What is stated of new values, and of rows that follow from them: no more than is needed, and for all of them."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

import upshot
from tests.revise.random_values import random_case
from tests.revise.test_random_values import check
from upshot import Bounds, Realization

BUDGET = """
.decl budget(p: symbol, lim: number) key(p)
.decl item(p: symbol, id: symbol, cost: number) key(p, id)
.decl spend(p: symbol, s: number)
spend(P, S) :- budget(P, _), S = sum C : { item(P, _, C) }.
.deny over(P) :- spend(P, S), budget(P, L), S > L.
budget("a", 10). item("a", "i", 4). item("a", "j", 5).
"""
LOOKED_AT = """
.decl n(x: number)
.decl has()
.decl up(x: number)
.decl square(x: number)
.decl big(x: number)
has() :- n(X), X > 3.
up(X + 1) :- n(X).
square(X * X) :- n(X).
big(X) :- n(X), X > 100.
"""


def ways(program: str, insert: dict[str, list[tuple[object, ...]]] | None = None,
         delete: dict[str, list[tuple[object, ...]]] | None = None) -> list[Realization]:  # fmt: skip
    with upshot.connect() as db:
        db.define(program)
        return list(db.realize(insert, delete, bounds=Bounds(size=2)))


def conditions(found: list[Realization]) -> dict[str, tuple[str, ...]]:
    return {" ".join(way.lines()): way.conditions for way in found}


def test_a_name_beside_a_sum_may_be_any() -> None:
    found = conditions(ways(BUDGET, {"item": [("a", "k", 5)]}))
    assert found['+item("a", "k", 5) +item("a", ?1, ?2)'] == ("?2 <= -4",)


def test_a_sum_that_comes_to_what_it_was_is_no_reason_to_leave_a_value_out() -> None:
    found = conditions(ways(BUDGET, {"item": [("a", "k", 2)]}, {"spend": [("a", 8)]}))
    assert found['+item("a", "k", 2) +item("a", ?1, ?2)'] == ("?2 != -3", "?2 <= -1")


def test_values_on_both_sides_of_one_that_will_not_do_are_stated_together() -> None:
    found = conditions(ways(BUDGET, None, {"spend": [("a", 9)]}))
    assert found['+item("a", ?1, ?2)'] == ("?2 != 0", "?2 <= 1")
    assert '+item("a", ?1, 1)' not in found


def test_a_row_that_follows_from_new_values_says_how() -> None:
    (way,) = [way for way in ways(BUDGET, None, {"spend": [("a", 9)]}) if len(way.placeholders) == 2]
    assert '// also: +spend("a", ?2 + 9)' in way.text().splitlines()
    assert json.loads(way.json())["changes"]["spend"]["insert"] == [["a", {"formula": "?2 + 9"}]]
    (row,) = way.effects["spend"].inserted
    assert way.tried["?2"] + 9 == row[1]
    assert repr(way.named("spend", row)) == "('a', ?2 + 9)"


def test_of_a_row_that_is_computed_in_other_ways_the_value_tried_is_told() -> None:
    (way,) = ways(LOOKED_AT, {"has": [()]})
    assert way.text().splitlines()[3:] == [
        "// goal: +has()",
        "// also: +square(16) for ?1 = 4",
        "// also: +up(?1 + 1)",
        "// possibly: rows of big, for values other than ?1 = 4",
    ]
    assert json.loads(way.json())["by_trial"] == {"relations": ["big", "square"], "values": {"?1": 4}}


LIMITS = """
.decl item(p: symbol, id: symbol, cost: number)
.decl lim(p: symbol, v: number)
.decl tot(p: symbol, s: number)
.decl cnt(p: symbol, n: number)
.decl hi(p: symbol, s: number)
.decl rest(p: symbol, r: number)
.decl ok(p: symbol)
.decl top(p: symbol, id: symbol)
tot(P, S) :- lim(P, _), S = sum C : { item(P, _, C) }.
cnt(P, N) :- lim(P, _), N = count : { item(P, _, _) }.
hi(P, S) :- item(P, _, _), S = max C : { item(P, _, C) }.
rest(P, L - S) :- lim(P, L), tot(P, S).
ok(P) :- lim(P, L), hi(P, S), S > L.
top(P, I) :- item(P, I, C), hi(P, C).
"""


def test_a_row_that_a_negated_literal_forbids_does_not_follow_from_a_new_value() -> None:
    # A sum over nothing is 0: with `?1` for 2 that would leave `?1`, and what is left of 5 is 2.
    found = ways(LIMITS + 'lim("a", 5). item("b", "k", 3).', {"ok": [("a",)]})
    (way,) = [way for way in found if way.lines() == ['+item("a", ?1, 3)', '+lim("a", ?2)']]
    rests = {line for line in way.text().splitlines() if "+rest" in line}
    assert rests == {'// also: +rest("a", ?2 - 3)', '// also: +rest("a", 2)'}


def test_a_row_that_goes_has_no_new_value_in_it() -> None:
    program = LIMITS + 'item("a", "i", -2). item("a", "j", 0). lim("a", 3).'
    (way,) = [way for way in ways(program, {"top": [("a", "i")]}) if way.lines() == ['+item("a", "i", ?1)']]
    assert way.conditions == ("?1 > 0",)
    assert '// also: -cnt("a", 2)' in way.text().splitlines()


def test_sums_of_decimals_are_followed_as_those_of_numbers_are() -> None:
    program = BUDGET.replace(": number", ": decimal(10,2)").replace("10)", "10.50)").replace("5)", "5.25)")
    asked = {"spend": [("a", Decimal("9.25"))]}
    (way,) = [way for way in ways(program.replace("4)", "4.00)"), None, asked) if len(way.placeholders) == 2]
    assert way.conditions == ('?2 != decimal("0.00")', '?2 <= decimal("1.25")')
    assert '// also: +spend("a", ?2 + 9.25)' in way.text().splitlines()


@pytest.mark.parametrize(
    "rule", ["p() :- e(X, Y), X != Y.", "p() :- e(X, Y), !e(Y, X).", "p() :- e(X, Y), X + 0 != Y."]
)
def test_two_new_values_that_have_to_be_different_are_said_to_be(rule: str) -> None:
    (way,) = ways(f".decl e(x: number, y: number) .decl p() {rule}", {"p": [()]})
    assert (way.lines(), way.conditions) == (["+e(?1, ?2)"], ("?1 != ?2",))


def test_two_new_values_that_may_be_the_same_are_not_said_to_be_different() -> None:
    (way,) = ways(".decl e(x: number, y: number) .decl p() p() :- e(X, Y), X != Y + 1, Y < 3, X < 9.", {"p": [()]})
    assert way.conditions == ("?1 < 9", "?2 < 3", "?1 != ?2 + 1")


def test_what_is_computed_of_a_new_value_is_not_called_by_a_name_of_its_own() -> None:
    (way,) = ways(".decl n(x: number) .decl p() p() :- n(X), Y = X % 3, Y > 1.", {"p": [()]})
    assert way.conditions == ("?1 % 3 > 1",)
    program = ".decl n(x: number) .decl p() p() :- n(X), Y = X % 3, Z = Y + 1, Y * Z > 1."
    (way,) = ways(program, {"p": [()]})
    assert way.conditions == ("?1 % 3 * (?1 % 3 + 1) > 1",)


@pytest.mark.parametrize(
    ("rule", "stated"),
    [
        ("p() :- e(X, Y), X + Y = 7.", "?1 + ?2 = 7"),
        ("p() :- e(X, Y), 2 * X + Y = 7.", "2 * ?1 + ?2 = 7"),
        ("p() :- e(X, Y), 7 * X + 3 * Y <= 24.", "7 * ?1 + 3 * ?2 <= 24"),
        ("p() :- e(X, Y), 10 * X + 3 * Y <= 31.", "10 * ?1 + 3 * ?2 <= 31"),
        ("p() :- e(X, Y), 2 * X <= 3 * Y - 5.", "2 * ?1 <= 3 * ?2 - 5"),
    ],
)
def test_values_that_have_to_come_to_something_together_are_stated_in_one(rule: str, stated: str) -> None:
    (way,) = ways(f".decl e(x: number, y: number) .decl p() {rule}", {"p": [()]})
    assert (way.lines(), way.conditions) == (["+e(?1, ?2)"], (stated,))


def test_rows_of_rules_that_the_request_does_not_depend_on_are_told_for_the_values_that_were_tried() -> None:
    program = ".decl e(x: symbol, y: symbol) .decl v(x: symbol) .decl w(y: symbol) v(X) :- e(X, _). w(Y) :- e(_, Y)."
    program += ".decl n(x: symbol, c: number) n(X, C) :- e(X, _), C = count : { e(X, _) }."
    (way,) = ways(program, {"v": [("a",)]})
    shown = ['// also: +n("a", 1)', '// goal: +v("a")', '// also: +w("new value 1") for ?1 = "new value 1"']
    assert way.text().splitlines()[2:] == shown
    assert json.loads(way.json())["by_trial"] == {"relations": ["w"], "values": {"?1": "new value 1"}}


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(975, id="a computed row that is there already"),
        pytest.param(155, id="a computed row that looks like the new value"),
        pytest.param(536, id="two new values that must not be the same below a border"),
        pytest.param(77000641, id="two new values that may be taken for each other"),
        pytest.param(88000148, id="a new value below all that is stored"),
        pytest.param(1933, id="a part that is a realization for some of the values"),
    ],
)
def test_random_cases_that_were_wrong_once(seed: int) -> None:
    check(random_case(seed))


@pytest.mark.parametrize(
    ("compared", "alone"),
    [("X < Y", "?1 > 4"), ("X > Y", "?1 < 4"), ("X <= Y - 2", "?1 >= 6"), ("X >= Y + 2", "?1 <= 2")],
)
def test_a_new_value_is_compared_with_a_stored_one(compared: str, alone: str) -> None:
    program = f".decl a(x: number) .decl e(x: number) .decl p() p() :- e(X), a(Y), {compared}. e(4)."
    assert conditions(ways(program, {"p": [()]})) == {"+a(?1)": (alone,)}


@pytest.mark.parametrize(
    ("computed", "stated"),
    [("X / 3", "?1 / 3 > 10"), ("X * X", "?1 * ?1 > 10"), ("X + 3", "?1 > 7")],
)
def test_what_a_rule_asks_of_a_value_that_another_computes_is_stated_of_the_new_one(computed: str, stated: str) -> None:
    program = f".decl e(x: number) .decl w(x: number) .decl v() w(Y) :- e(X), Y = {computed}. v() :- w(Y), Y > 10."
    assert conditions(ways(program, {"v": [()]})) == {"+e(?1)": (stated,)}
