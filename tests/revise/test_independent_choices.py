"""Requests with choices that have nothing to do with each other: what all of them need is known beforehand."""

from __future__ import annotations

from itertools import product

import pytest

from tests.revise.brute_force import minimal_realizations
from tests.revise.random_requests import Case
from tests.revise.test_brute_force import facts_of
from tests.revise.test_goldens import database
from upshot import Bounds

ROWS = ".decl a(x: number) .decl s(x: number) .decl v(x: number) v(X) :- a(X), !s(X)."
SUPPORTS = ".decl a(x: number, y: number) .decl s(x: number) .decl v(x: number) v(X) :- a(X, Y), !s(Y)."
EITHER = ".decl a(x: number) .decl b(x: number) .decl v(x: number) v(X) :- a(X). v(X) :- b(X)."
THROUGH_A_VIEW = """
    .decl a(x: number) .decl b(x: number) .decl c(x: number) .decl p(x: number) .decl v(x: number)
    p(X) :- b(X).  p(X) :- c(X).
    v(X) :- a(X), !p(X).
"""


def numbers(count: int) -> list[tuple[int, ...]]:
    return [(each,) for each in range(count)]


CHAIN = ".decl next(x: number, y: number) .decl ok(x: number) .deny missing(X, Y) :- next(X, Y), ok(X), !ok(Y)."


def test_200_independent_rows_are_within_the_bounds() -> None:
    (gone,) = database(ROWS, a=numbers(200)).realize(delete={"v": numbers(200)}, limit=1, bounds=Bounds(seconds=300))
    assert gone.size == 200
    (come,) = database(EITHER).realize({"v": numbers(200)}, limit=1, bounds=Bounds(seconds=300))
    assert come.size == 200


def test_rows_with_one_way_each_come_in_one_step() -> None:
    found = database(ROWS).realize({"v": numbers(200)})
    (only,) = found
    assert (only.size, found.status) == (200, "all")
    assert found.work["candidates"] == 1


def test_an_impossible_row_among_many_is_seen_at_once() -> None:
    program = EITHER + " .decl w(x: number) w(X) :- a(X), b(X), X > 1000."
    found = database(program).realize({"v": numbers(100), "w": [(7,)]})
    assert list(found) == []
    assert (found.status, found.reason) == ("none exists", "none exists: `w(7)` cannot be derived")
    assert found.work["models"] <= 10


@pytest.mark.parametrize(("rounds", "status"), [(29, "bounds reached"), (30, "all")])
def test_rounds_are_repairs_that_rest_on_each_other(rounds: int, status: str) -> None:
    db = database(CHAIN, next=[(each, each + 1) for each in range(30)])
    found = db.realize({"ok": [(0,)]}, frozen=["next"], bounds=Bounds(rounds=rounds))
    assert [each.size for each in found] == [31] * (status == "all")
    assert found.status == status


@pytest.mark.parametrize(("rounds", "status"), [(2, "bounds reached"), (3, "all")])
def test_rounds_are_rules_that_rest_on_each_other(rounds: int, status: str) -> None:
    program = """
        .decl a(x: number) .decl p(x: number) .decl q(x: number) .decl r(x: number)
        p(X) :- a(X), X > 0.  q(X) :- p(X), X > 1.  r(X) :- q(X), X > 2.
    """
    found = database(program).realize({"r": [(7,), (8,)]}, bounds=Bounds(rounds=rounds))
    assert [each.size for each in found] == [2] * (status == "all")
    assert (found.status, found.reason.endswith("2 rounds")) == (status, status != "all")


def test_rows_that_go_one_for_the_other_use_up_no_rounds() -> None:
    program = ".decl n(x: number, p: number) .decl there(x: number) there(X) :- n(X, _)."
    db = database(program, n=[(each, each - 1) for each in range(1, 61)])
    db.define(".deny orphan(X) :- n(X, P), P != 0, !there(P).")
    found = db.realize(delete={"n": [(1, 0)]}, frozen=["+n"])
    assert [each.size for each in found] == [60]
    assert found.status == "all"


def test_a_repair_that_never_ends_ends_at_the_bound() -> None:
    found = database(".decl n(x: number) .deny gap(X) :- n(X), !n(X + 1).").realize({"n": [(1,)]})
    assert list(found) == []
    assert (found.status, found.reason) == ("bounds reached", "none found within 40 rounds")


@pytest.mark.parametrize("count", [10, 20, 40])
def test_many_rows_go_in_as_many_steps(count: int) -> None:
    found = database(ROWS, a=numbers(count)).realize(delete={"v": numbers(count)}, limit=1, bounds=Bounds(seconds=60))
    (first,) = found
    assert first.size == count
    assert found.work["models"] <= count + 1


@pytest.mark.parametrize("count", [8, 16, 32])
def test_a_row_with_many_supports_goes_in_about_as_many_steps(count: int) -> None:
    facts = [(0, each) for each in range(count)]
    found = database(SUPPORTS, a=facts).realize(delete={"v": [(0,)]}, limit=1, bounds=Bounds(seconds=60))
    (first,) = found
    assert first.size == count
    assert found.work["models"] <= 2 * count + 1


def test_many_rows_come_in_as_many_steps() -> None:
    found = database(EITHER).realize({"v": numbers(30)}, limit=1, bounds=Bounds(seconds=60))
    (first,) = found
    assert first.size == 30
    assert found.work["models"] <= 61


def test_choices_that_lie_below_a_view_are_independent_too() -> None:
    found = database(THROUGH_A_VIEW, a=numbers(20)).realize(
        delete={"v": numbers(20)}, limit=1, bounds=Bounds(seconds=60)
    )
    (first,) = found
    assert first.size == 20
    assert found.work["models"] <= 41


def test_what_costs_more_is_not_chosen_and_is_not_tried() -> None:
    found = database(ROWS, a=numbers(20)).realize(
        delete={"v": numbers(20)}, limit=1, cost={"-a": 0.1, "+s": 0.3}, bounds=Bounds(seconds=60)
    )
    (first,) = found
    assert {name: len(rows) for name, rows in first.delete.items()} == {"a": 20}
    assert not first.insert
    assert found.work["models"] <= 21


def test_what_is_frozen_is_no_choice() -> None:
    found = database(ROWS, a=numbers(20)).realize(
        delete={"v": numbers(20)}, frozen=["a"], cost={"+s": 7}, bounds=Bounds(seconds=60)
    )
    (only,) = found
    assert only.cost == 140
    assert found.status == "all"
    assert found.work["models"] <= 21


@pytest.mark.parametrize(
    ("text", "relations"), [(ROWS, ["a", "s"]), (THROUGH_A_VIEW, ["a", "b", "c"])], ids=["rows", "through a view"]
)
def test_all_choices_are_found_once_each(text: str, relations: list[str]) -> None:
    domain, count = (0, 1, 2, 3), 4 if len(relations) == 2 else 3
    facts = frozenset(("a", row) for row in numbers(count))
    asked = tuple(("v", row) for row in numbers(count))
    case = IndependentCase(text, domain, facts, (), asked)
    found = database(text, a=numbers(count)).realize(delete={"v": numbers(count)}, bounds=Bounds(seconds=60))
    listed = [(facts_of(each.insert), facts_of(each.delete)) for each in found]
    assert found.status == "all"
    assert len(listed) == len(set(listed)) == len(relations) ** count
    assert set(listed) == minimal_realizations(case)


class IndependentCase(Case):
    """A case whose rows are those of the domain, in the relations that it names."""

    @property
    def atoms(self) -> list[tuple[str, tuple[int, ...]]]:
        names = [name for name in ("a", "b", "c", "s") if f".decl {name}(" in self.text]
        return [(name, (value,)) for name, value in product(names, self.domain)]


def test_dearer_choices_come_later() -> None:
    found = database(ROWS, a=numbers(4)).realize(delete={"v": numbers(4)}, cost={"-a": 0.1, "+s": 0.7})
    kept = [len(each.delete.get("a", ())) for each in found]
    assert kept == [4] + [3] * 4 + [2] * 6 + [1] * 4 + [0]


def test_supports_that_share_a_fact_are_not_counted_twice() -> None:
    program = """
        .decl a(x: number) .decl b(x: number) .decl v(x: number, y: number)
        v(X, Y) :- a(X), b(Y).
    """
    rows = [(x, y) for x in range(6) for y in range(3)]
    found = database(program, a=numbers(6), b=numbers(3)).realize(delete={"v": rows})
    assert [{name: len(rows) for name, rows in each.delete.items()} for each in found] == [{"b": 3}, {"a": 6}]
    assert found.status == "all"
