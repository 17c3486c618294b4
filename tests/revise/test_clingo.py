"""The realizations found are clingo's minimal ones, on databases too large for brute force.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.properties.clingo_oracle import Unsupported
from tests.properties.settings import case_count, seed_of
from tests.revise.brute_force import minimal_realizations as by_brute_force
from tests.revise.clingo_realizations import minimal_realizations
from tests.revise.random_aggregates import random_aggregate_case
from tests.revise.random_preferences import Preferred, price, random_preferred
from tests.revise.random_requests import Fact, random_case
from tests.revise.test_brute_force import facts_of, found, opened, rows_of
from upshot import Bounds, Placeholder, ProgramError

MOST = 200
"""Cases with more realizations are left to others: there the search would be measured, not compared."""
OTHER = 9
"""A constant that no case has."""


@pytest.mark.slow
def test_realizations_are_clingos_minimal_ones() -> None:
    compared = 0
    for number in range(case_count(4, least=12)):
        case = random_case(seed_of("clingo", number), size=3)
        expected = minimal_realizations(case)
        if len(expected) > MOST:
            continue
        try:
            db = opened(case)
        except ProgramError:
            continue
        with db:
            listed = found(db, case, Bounds(new_constants=0, constants=case.domain, rounds=1000, seconds=300))
        assert set(listed) == expected, (case, set(listed) ^ expected)
        assert len(listed) == len(set(listed))
        compared += 1
    assert compared > 5


@pytest.mark.slow
def test_clingo_and_brute_force_agree() -> None:
    for number in range(10):
        case = random_case(seed_of("both", number))
        try:
            opened(case).close()
        except ProgramError:
            continue
        assert minimal_realizations(case) == by_brute_force(case), case


@pytest.mark.slow
def test_a_new_value_stands_for_any_constant_that_does_not_occur() -> None:
    """Clingo has one more constant in its domain; the search has a placeholder instead."""
    compared = with_new = 0
    for number in range(case_count(6, least=10)):
        case = random_case(seed_of("new values", number))
        if "<" in case.text:
            continue  # A new value may lie on either side, one constant cannot.
        expected = minimal_realizations(replace(case, domain=(*case.domain, OTHER)))
        try:
            db = opened(case)
        except ProgramError:
            continue
        with db:
            bounds = Bounds(new_constants=1, constants=case.domain, rounds=1000, seconds=300)
            listed = [tuple(map(_with_other, update)) for update in found(db, case, bounds)]
        assert set(listed) == expected, (case, set(listed) ^ expected)
        assert len(listed) == len(set(listed))
        compared += 1
        with_new += any(OTHER in row for insert, _ in listed for _, row in insert)
    assert compared > 5
    assert with_new


def _with_other(facts: frozenset[Fact]) -> frozenset[Fact]:
    return frozenset(
        (name, tuple(OTHER if isinstance(value, Placeholder) else value for value in row)) for name, row in facts
    )


@pytest.mark.slow
def test_recursion_that_uses_its_view_twice_has_clingos_realizations() -> None:
    rules = "q(X, Y) :- e(X, Y), !a(Y). q(X, Z) :- q(X, Y), q(Y, Z). p(X) :- q(X, X)."
    declared = ".decl a(x: number) .decl b(x: number) .decl e(x: number, y: number)"
    text = f"{declared} .decl q(x: number, y: number) .decl p(x: number) {rules}"
    for number in range(case_count(60, least=4)):
        case = random_case(seed_of("twice", number), size=3)
        asked = ("q", (1, 3)) if number % 2 else ("p", (2,))
        for insert, delete in (((asked,), ()), ((), (asked,))):
            now = replace(case, text=text, insert=insert, delete=delete)
            with opened(now) as db:
                listed = found(db, now, Bounds(new_constants=0, constants=now.domain, rounds=1000, seconds=300))
            assert set(listed) == minimal_realizations(now)
            assert len(listed) == len(set(listed))


def compare_preferred(given: Preferred, *, has_aggregates: bool = False, prefer: str | None = None) -> int:
    """The number of realizations; fails if they are not clingo's, each with its cost, the cheapest first; or
    those with the fewest side effects.

    Aggregates come to values that the domain of the case lacks: clingo has no realizations through those, and a search
    through sums of them may need more time than it has.
    """
    case = given.case
    if {*case.insert} & {*case.delete}:
        return -1
    try:
        expected = minimal_realizations(case, has_key=given.has_key, frozen=given.frozen)
        db = opened(case)
    except (ProgramError, Unsupported):
        return -1
    if len(expected) > MOST:
        return -1
    bounds = Bounds(new_constants=0, constants=case.domain, rounds=1000, seconds=40 if has_aggregates else 300)
    with db:
        answer = db.realize(
            rows_of(case.insert), rows_of(case.delete), frozen=given.frozen, cost=given.cost, bounds=bounds,
            prefer=prefer,
        )  # fmt: skip
        ways = list(answer)
        listed = {(facts_of(each.insert), facts_of(each.delete)): each.cost for each in ways}
    domain = {*case.domain}
    within = {update for update in listed if all(domain.issuperset(row) for _, row in update[0])}
    assert within <= expected, (given, "not minimal", within - expected)
    assert "second" in answer.reason or expected <= within, (given, "missing", expected - within)
    assert has_aggregates or ({*listed} == expected and "second" not in answer.reason), given
    prices = [price(given, update) for update in listed]
    assert list(listed.values()) == prices, (given, prices)
    order = [(each.side_effects if prefer else 0, each.cost) for each in ways]
    assert order == sorted(order) or "second" in answer.reason, (given, order)
    if not listed:
        unfrozen = given.frozen and minimal_realizations(case, has_key=given.has_key)
        right = {"bounds reached", "only through frozen" if unfrozen else "none exists"}
        right |= {"only through frozen"} if has_aggregates and given.frozen else {*()}
        assert answer.status in right, (given, answer.status)
    return len(listed)


def compare_many(name: str, preferred: Callable[[int], Preferred], *, least: int = 1, **options: Any) -> None:
    """Compare this suite's share of the cases, and go on until five of them have `least` realizations or more."""
    telling = 0
    for number in count():
        if number >= case_count(8, least=20) and telling >= 5:
            return
        assert number < 20 * case_count(8, least=20), "many cases say something"
        telling += compare_preferred(preferred(seed_of(name, number)), **options) >= least


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_with_keys_mutual_recursion_frozen_relations_and_costs_they_are_clingos(size: int) -> None:
    compare_many(f"clingo preferences {size}", lambda seed: random_preferred(seed, random_case(seed, size)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_with_aggregates_and_all_of_these_they_are_clingos(size: int) -> None:
    compare_many(
        f"clingo aggregates {size}",
        lambda seed: random_preferred(seed, random_aggregate_case(seed, size)),
        has_aggregates=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_with_all_of_these_those_with_the_fewest_side_effects_come_first(size: int) -> None:
    compare_many(
        f"clingo side effects {size}",
        lambda seed: random_preferred(seed, random_case(seed, size)),
        least=2,
        prefer="least_side_effects",
    )
