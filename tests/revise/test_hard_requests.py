"""Requests with far more derivations than realisations: what cannot all be so is found out once, not in every branch.

Random cases on which a search without memory takes thousands of branches, or does not end.
"""

from __future__ import annotations

from tests.revise.brute_force import Update
from tests.revise.random_requests import BASE, VIEWS, Case, Fact
from tests.revise.test_brute_force import facts_of, opened
from upshot import Bounds

DECLARED = "\n".join(
    f".decl {name}({', '.join(f'c{i}: number' for i in range(arity))})" for name, arity in {**BASE, **VIEWS}.items()
)
DOMAIN = (1, 2, 3)


def case(rules: str, facts: str, insert: str) -> Case:
    asked = tuple(fact(each) for each in insert.split())
    return Case(f"{DECLARED}\n{rules}", DOMAIN, frozenset(map(fact, facts.split())), asked, ())


def fact(text: str) -> Fact:
    """`e(1,2)`"""
    name, _, row = text.rstrip(")").partition("(")
    return name, tuple(map(int, row.split(",")))


def update(text: str) -> Update:
    """`+a(1) -e(1,2)`"""
    signed = [(each[0], fact(each[1:])) for each in text.split()]
    return frozenset(each for sign, each in signed if sign == "+"), frozenset(e for sign, e in signed if sign == "-")


def realizations(of: Case, most: int) -> set[Update]:
    """Those found with at most so many branches."""
    with opened(of) as db:
        asked = {name: [row for other, row in of.insert if other == name] for name, _ in of.insert}
        answer = db.realize(asked, bounds=Bounds(new_constants=0, constants=DOMAIN, rounds=1000, seconds=300))
        listed = {(facts_of(each.insert), facts_of(each.delete)) for each in answer}
        assert answer.work["branches"] <= most
        return listed


def test_a_row_that_must_be_there_is_not_taken_apart_to_keep_a_constraint() -> None:
    contradictory = case(
        """
        p(X) :- e(Y, 3), a(X).
        p(X) :- e(Z, Y), a(X).
        q(X, Y) :- a(Y), a(X), Y = X.
        q(X, Y) :- q(Z, X), a(Z), b(X), a(Y), Z != X.
        r(X) :- b(Y), p(X).
        r(X) :- r(Y), a(Z), p(Z), p(X).
        r(X) :- r(X), q(Y, Z), a(X), !a(Z).
        s() :- p(2), a(X).
        .deny d(X) :- r(X), e(Y, Z).
        """,
        "b(2) e(1,1) e(2,1) e(2,2) e(2,3)",
        "r(2)",
    )
    assert realizations(contradictory, most=200) == set()


def test_a_row_that_nothing_derives_ends_a_branch_before_others_are_looked_for() -> None:
    refused = case(
        """
        p(X) :- e(2, Y), a(X).
        q(X, Y) :- a(2), p(Y), b(X), !e(Y, X), !e(_, X), Y = X.
        q(X, Y) :- q(Z, Z), p(X), p(Y).
        q(X, Y) :- q(Z, Y), a(Y), p(X).
        .deny d(X) :- p(X).
        """,
        "a(1) a(2) e(1,1) e(3,1)",
        "q(3,3) p(2)",
    )
    assert realizations(refused, most=10) == set()


def test_rows_of_a_recursion_that_contradict_what_they_rest_on_are_ruled_out_early() -> None:
    impossible = case(
        """
        p(X) :- e(X, Z), e(Y, X), !e(Z, _).
        p(X) :- p(2), e(1, 3), b(X).
        q(X, Y) :- a(Z), p(X), p(Y), !e(_, X).
        q(X, Y) :- q(Y, X), p(Z), p(X), b(Y).
        s() :- b(X).
        """,
        "a(2) a(3) e(1,3) e(2,1) e(2,2) e(2,3) e(3,1)",
        "q(3,2)",
    )
    assert realizations(impossible, most=60) == set()


def test_a_constraint_on_pairs_is_repaired_in_all_minimal_ways() -> None:
    repaired = case(
        """
        p(X) :- a(X), !b(1), !e(X, _).
        p(X) :- a(Z), a(X), !e(X, _).
        p(X) :- p(Z), b(X).
        q(X, Y) :- a(X), a(Y), !e(Y, _).
        q(X, Y) :- q(Z, 2), b(X), a(Y), !e(Y, X).
        q(X, Y) :- q(Z, X), p(Z), b(X), p(Y).
        s() :- s(), q(2, 1).
        .deny d(X) :- p(Y), p(X), !q(1, Y).
        """,
        "a(1) b(1) b(2) e(1,1) e(3,1)",
        "q(1,3)",
    )
    assert realizations(repaired, most=500) == {
        update("+b(3) -e(1,1)"),
        update("+a(2) +b(3)"),
        update("+a(3) +b(3) -e(3,1)"),
        update("+a(2) +a(3) -e(3,1)"),
        update("+a(3) -e(1,1) -e(3,1)"),
        update("+a(3) -b(1) -b(2) -e(3,1)"),
    }


def test_chains_through_a_recursion_are_not_tried_one_by_one() -> None:
    chained = case(
        """
        p(X) :- b(Y), a(X).
        p(X) :- e(X, Z), e(Y, X).
        p(X) :- p(Z), a(X), e(Y, 3), !a(Y).
        q(X, Y) :- p(X), b(Y).
        q(X, Y) :- q(Z, X), p(X), p(2), p(Y), !e(_, Y).
        s() :- a(Z).
        """,
        "b(2) e(1,3) e(2,1) e(2,2) e(3,1)",
        "q(2,1) q(1,3)",
    )
    assert realizations(chained, most=200) == {
        update("+b(1) +b(3)"),
        update("+a(3) +b(1) +e(1,1) -e(1,3)"),
        update("+a(1) +b(3) -e(2,1) -e(3,1)"),
        update("+a(3) +b(1) +e(1,2) -e(1,3)"),
        update("+a(1) +a(3) +b(1) -e(1,3)"),
        update("+a(1) +a(3) -e(1,3) -e(2,1) -e(3,1)"),
    }
