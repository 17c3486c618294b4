"""The worked examples of view updating: exactly these realisations, in this order."""

from __future__ import annotations

import pytest

import upshot
from upshot import Bounds

CONSISTENT = """
    .decl r1(x: number)  .decl r2(x: number)  .decl s(x: number)
    .decl p(x: number)  .decl q1(x: number)  .decl q2(x: number)  .decl au(x: number)
    p(X) :- q1(X).  p(X) :- q2(X).
    q1(X) :- r1(X), s(X).
    q2(X) :- r2(X), !s(X).
    au(X) :- q2(X), !q1(X).
    .deny ic() :- au(2).
"""
COMPENSATED = """
    .decl p(x: number)  .decl q(x: number)  .decl h(x: number)  .decl i()
    h(X) :- p(X), q(X), i().
    i() :- p(X), !q(X).
"""
CLOSURE = """
    .decl e(x: number, y: number)  .decl p(x: number, y: number)  .decl h(x: number, y: number)
    p(X, Y) :- e(X, Y).
    p(X, Y) :- e(X, Z), p(Z, Y).
    h(X, Y) :- p(X, Y), !e(X, Y).
"""
ENDLESS = """
    .decl e(x: number, y: number)  .decl h()  .decl i()  .decl j(x: number)
    h() :- e(X, Y), !i().
    i() :- e(Y, X), e(Z, X), Y != Z.
    j(X) :- e(X, Y), e(X, Z), Y != Z.
    i() :- e(X, Y), !j(X).
    i() :- e(X, Y), !j(Y).
"""


def database(text: str, **facts: list[tuple[int, ...]]) -> upshot.Database:
    db = upshot.connect()
    db.define(text)
    with db.transaction() as tx:
        for name, rows in facts.items():
            tx.insert(name, rows)
    return db


def shown(found: upshot.Realizations) -> list[set[str]]:
    """The changes of each, as they are printed."""
    return [{line for line in each.text().splitlines() if not line.startswith("//")} for each in found]


def test_a_way_that_violates_a_constraint_beyond_repair_is_not_given() -> None:
    found = database(CONSISTENT, r2=[(2,)], s=[(2,)]).realize({"p": [(2,)]})
    assert shown(found) == [{"+r1(2)"}]
    assert found.status == "all"


def test_a_side_effect_in_the_way_is_compensated_with_a_new_value() -> None:
    found = database(COMPENSATED, p=[(1,)]).realize({"h": [(1,)]})
    (only,) = found
    assert set(only.text().splitlines()) >= {"+q(1)", "+p(?1)", "// ?1: some new number"}
    assert only.size == 2
    assert [each.name for each in only.placeholders] == ["?1"]
    assert found.status == "all"


def test_a_request_with_only_infinite_realizations_is_ended_by_its_bounds_and_says_so() -> None:
    found = database(ENDLESS).realize({"h": [()]})
    assert list(found) == []
    assert found.status == "bounds reached"
    assert found.reason == "none found within 2 new values"


def test_the_search_goes_on_after_the_first_round_that_has_a_realization() -> None:
    program = COMPENSATED + ".decl g(x: number)  .decl z(x: number)  g(X) :- h(X).  g(X) :- z(X)."
    assert shown(database(program, p=[(1,)]).realize({"g": [(1,)]})) == [{"+z(1)"}, {"+q(1)", "+p(?1)"}]


def test_deletions_through_a_recursion_and_a_negation_keep_the_constraints() -> None:
    db = database(CLOSURE + ".decl some()  some() :- p(X, Y).", e=[(1, 2), (1, 4), (2, 3)])
    db.define(".deny ic1() :- !some().  .deny ic2(X) :- p(X, X).")
    found = db.realize(delete={"h": [(1, 3)]})
    assert sorted(map(sorted, shown(found))) == [["+e(1, 3)"], ["-e(1, 2)"], ["-e(2, 3)"]]


def test_a_chain_over_at_most_one_new_value() -> None:
    found = database(CLOSURE).realize({"p": [(1, 2)]}, bounds=Bounds(new_constants=1))
    assert shown(found) == [{"+e(1, 2)"}, {"+e(1, ?1)", "+e(?1, 2)"}]
    assert found.status == "bounds reached"


def test_a_single_removal_is_not_enough_to_tell_a_minimal_realization() -> None:
    program = ".decl a() .decl b() .decl c() .decl p() p() :- a(), !b(), !c(). p() :- a(), b(), c()."
    assert shown(database(program).realize({"p": [()]})) == [{"+a()"}]
    both = database(program, b=[()], c=[()]).realize({"p": [()]})
    assert shown(both) == [{"+a()"}]


@pytest.mark.parametrize("new", [0, 1])
def test_the_endless_request_ends_whatever_the_bound_on_new_values(new: int) -> None:
    found = database(ENDLESS).realize({"h": [()]}, bounds=Bounds(new_constants=new, seconds=5))
    assert list(found) == []
    assert found.status == "bounds reached"
