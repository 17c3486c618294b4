"""Requests with far more derivations than realizations: what cannot all be so is found out once, not in every branch.

Random cases on which a search without memory takes thousands of branches, or does not end.
"""

from __future__ import annotations

import upshot
from tests.revise.brute_force import Update
from tests.revise.random_requests import BASE, VIEWS, Case, Fact
from tests.revise.test_brute_force import facts_of, opened
from upshot import Bounds, Realizations

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
        assert answer.work["models"] <= most
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
    assert realizations(refused, most=40) == set()


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


# ---- new values ------------------------------------------------------------------------------------------------------

TIGHT = """
    .decl lim(p: symbol, l: number) key(p)
    .decl cost(p: symbol, c: number) key(p)
    .decl fits(p: symbol)
    fits(P) :- lim(P, L), cost(P, C), C <= L.
    .decl tight(p: symbol)
    tight(P) :- fits(P), lim(P, L), cost(P, C), L - C < 3.
    .deny neg(P) :- cost(P, C), C < 0.
    lim("a", 10). cost("a", 12). lim("b", 5). cost("c", 4).
"""


def asked(program: str, relation: str, *rows: tuple[object, ...], frozen: tuple[str, ...] = ()) -> Realizations:
    db = upshot.connect()
    db.define(program)
    return db.realize({relation: rows}, frozen=frozen, bounds=Bounds(seconds=300))


def listed(found: Realizations, most: int) -> set[str]:
    """The changes and conditions of all realizations, which are found with at most so many branches."""
    shown = {", ".join((*each.lines(), *each.conditions)) for each in found}
    assert found.status == "all"
    assert found.work["models"] <= most
    return shown


def test_two_new_values_that_rules_compare_are_tried_in_few_ways() -> None:
    assert listed(asked(TIGHT, "tight", ("z",)), most=60) == {
        '+cost("z", ?1), +lim("z", ?2), ?1 >= 0, ?1 > ?2 - 3, ?1 <= ?2',
        '+cost("z", 4), +lim("z", ?1), ?1 >= 4, ?1 < 7',
        '+cost("z", 12), +lim("z", ?1), ?1 >= 12, ?1 < 15',
        '+cost("z", ?1), +lim("z", 5), ?1 > 2, ?1 <= 5',
        '+cost("z", ?1), +lim("z", 10), ?1 > 7, ?1 <= 10',
        '+cost("z", 4), +lim("z", 5)',
    }


def test_rows_that_make_room_for_others_with_their_key_are_tried_in_few_ways() -> None:
    shown = listed(asked(TIGHT, "tight", ("a",)), most=120)
    assert '-lim("a", 10), +lim("a", ?1), ?1 >= 12, ?1 < 15' in shown
    assert '-cost("a", 12), +cost("a", ?1), ?1 > 7, ?1 <= 10' in shown
    shown = listed(asked(TIGHT, "tight", ("b",), frozen=("lim",)), most=20)
    assert shown == {'+cost("b", ?1), ?1 > 2, ?1 <= 5', '+cost("b", 4)'}


def test_a_row_says_what_variables_are_that_stand_beside_its_key() -> None:
    program = """
        .decl r(k: symbol, v: number) key(k)  .decl s(k: symbol, v: number) key(k)  .decl t(v: number)
        .decl a(k: symbol)
        a(K) :- r(K, V), V > 3, above(K), same(K), named(K).
        .decl above(k: symbol)  .decl same(k: symbol)  .decl named(k: symbol)
        above(K) :- r(K, V), V < 8.
        same(K) :- r(K, V), s(K, V).
        named(K) :- r(K, V), t(V).
        s("k", 5). s("l", 20). t(5). t(20).
    """
    assert listed(asked(program, "a", ("k",), frozen=("s", "t")), most=20) == {'+r("k", 5)'}
    assert listed(asked(program, "a", ("k",), frozen=("t",)), most=40) == {'+r("k", 5)'}
    none = asked(program, "a", ("l",), frozen=("s", "t"))
    assert not list(none)
    assert none.status == "only through frozen"
    shown = listed(asked(program, "a", ("l",)), most=80)
    assert '-s("l", 20), +r("l", 5), +s("l", 5)' in shown


def test_a_new_value_in_a_recursion_is_not_compared_with_itself() -> None:
    program = """
        .decl a(x: number)  .decl b(x: number)  .decl e(x: number, y: number)
        .decl p(x: number)  .decl q(x: number, y: number)
        p(X) :- a(X), !e(_, X).
        p(X) :- b(X), e(1, Z).
        q(X, Y) :- b(Y), p(X).
        q(X, Y) :- q(Y, Z), a(X), e(Z, Y).
        q(X, Y) :- a(X), b(Y), !a(1).
        a(1). a(2). e(1, 1).
    """
    with upshot.connect() as db:
        db.define(program)
        bounds = Bounds(new_constants=1, constants=(1, 2), size=4, seconds=300)
        found = db.realize({"q": [(2, 2), (1, 2)]}, bounds=bounds)
        shown = {", ".join((*each.lines(), *each.conditions)) for each in found}
    assert shown == {
        "+b(2), +e(2, 2)", "+b(1), +e(1, 2)", "-e(1, 1), +b(2)", "+b(1), +b(2)", "+b(?1), +b(2), +e(?1, 2)",
        "+b(?1), +e(?1, ?1), +e(?1, 2)", "+b(?1), +e(?1, ?1), +e(?1, 1), +e(1, 2)",
        "+a(?1), +b(1), +e(?1, 2), +e(1, ?1)", "+b(?1), +b(1), +e(?1, 2), +e(1, ?1)",
    }  # fmt: skip
    assert found.reason == "9 found within 1 fresh value; 4 changes"


def test_of_many_borders_those_are_stated_that_were_needed() -> None:
    program = """
        .decl x(v: number)  .decl y(v: number)  .decl line(t: number, s: number)  .decl over(t: number)  .decl p()
        over(T) :- x(X), y(Y), line(T, S), X > T * Y + S.
        p() :- x(X), y(Y), !over(1).
    """
    lines = [(each, each**3) for each in range(1, 33)]
    found = asked(program + "".join(f"line{each}. " for each in lines), "p", (), frozen=("line",))
    (first,) = found
    assert first.conditions == ("?1 <= ?2 + 1",)


def test_values_that_are_only_joined_are_not_tried_on_both_sides_of_a_constant() -> None:
    program = """
        .decl member(p: symbol, t: symbol)  .decl part_of(t: symbol, w: symbol)  .decl granted(t: symbol, r: symbol)
        .decl within(t: symbol, w: symbol)  .decl access(p: symbol, r: symbol)
        within(T, W) :- part_of(T, W).
        within(T, W) :- part_of(T, U), within(U, W).
        access(P, R) :- member(P, T), granted(T, R).
        access(P, R) :- member(P, T), within(T, W), granted(W, R).
        .deny nobody() :- member(_, "databases"), !access(_, "restore").
        member("ann", "databases"). granted("databases", "restore"). part_of("databases", "operations").
        granted("operations", "deploy").
    """
    found = asked(program, "access", ("zoe", "deploy"))
    every = list(found)
    assert {", ".join((*each.lines(), *each.conditions)) for each in every} == {
        '+member("zoe", "operations")',
        '+member("zoe", "databases")',
        '+member("zoe", ?1), +part_of(?1, "operations")',
        '+member("zoe", ?1), +part_of(?1, "databases")',
        '+granted(?1, "deploy"), +member("zoe", ?1)',
        '+member("zoe", ?1), +part_of(?1, ?2), +part_of(?2, "operations"), ?1 != ?2',
        '+member("zoe", ?1), +part_of(?1, ?2), +part_of(?2, "databases"), ?1 != ?2',
        '+granted(?1, "deploy"), +member("zoe", ?2), +part_of(?2, ?1), ?1 != ?2',
    }
    assert found.reason == "8 found within 2 fresh values"
    assert found.work["models"] <= 40


def test_the_number_of_new_values_is_no_bound_where_what_is_frozen_leaves_room_for_none() -> None:
    program = """
        .decl r(n: symbol, l: number, h: number) key(n)  .decl x(n: symbol, c: number)  .decl fine(n: symbol)
        fine(N) :- x(N, C), r(N, L, H), L < C, C < H.
        r("a", 3, 10).
    """
    assert listed(asked(program, "fine", ("a",), frozen=("r",)), most=10) == {'+x("a", ?1), ?1 > 3, ?1 < 10'}
    none = asked(program, "fine", ("b",), frozen=("r",))
    assert not list(none)
    assert none.status == "only through frozen"
    more = asked(program, "fine", ("a",))
    assert [each.conditions for each in more] == [("?1 > 3", "?1 < 10")]
