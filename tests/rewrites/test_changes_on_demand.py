"""Every algorithm without stored views, run from its rules alone, gives what recomputation gives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import Relations, changes, stored_rows
from upshot.check import CheckedProgram, check
from upshot.check.printing import print_clause
from upshot.core.errors import Error
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandProgram
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.strategies.strategy import on_demand
from upshot.syntax import parse

FOCUSES = {
    "recursion": Features(recursion=1),
    "negation": Features(recursion=0.5, negation=0.6),
    "null": Features(nullable=0.5),
    "everything": Features(),
}


def assert_exact(
    program: CheckedProgram, demand: DemandProgram, old: Relations, new: Relations, told: str = ""
) -> None:
    """The rules find the insertions and deletions of each of their views."""
    found = changes(program, demand, old, new)
    for view in demand.views:
        if (found.plus[view], found.minus[view]) != (new[view] - old[view], old[view] - new[view]):
            rules = "\n".join(f"{rule.gate} {rule.name} {print_clause(rule.clause)}" for rule in demand.rules)
            pytest.fail(
                f"{told}\n{rules}\n{view}: + {found.plus[view]} - {found.minus[view]} instead of"
                f" + {new[view] - old[view]} - {old[view] - new[view]}"
            )


def transitions(seed: int, focus: str) -> Iterator[tuple[CheckedProgram, Relations, Relations, str]]:
    """The program of a random case and each of its transactions: the rows of all relations before and after."""
    case = random_case(seed, FOCUSES[focus])
    program = normal_form(check(parse(case.text())))
    state = case.base
    for transaction in case.transactions:
        following = after(state, transaction)
        try:
            old, new = stored_rows(program, state), stored_rows(program, following)
        except Error:
            return
        yield program, old, new, f"random_case({seed})\n{case.text()}\n{state}\n{transaction}"
        state = following


def all_views(program: CheckedProgram) -> list[str]:
    return [view for layer in program.strata for view in layer]


def mixed(program: CheckedProgram, rng: random.Random) -> dict[str, str]:
    """A strategy for each stratum, or none: it counts as stored."""
    picks = [(layer, rng.choice([*on_demand(), None])) for layer in program.strata]
    return {view: strategy for layer, strategy in picks if strategy for view in layer}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", on_demand())
@pytest.mark.parametrize("focus", FOCUSES)
def test_the_rules_alone_give_exact_changes(strategy: str, focus: str) -> None:
    for number in range(case_count(400, least=5)):
        demand = None
        for program, old, new, told in transitions(seed_of(f"demand {focus}", number), focus):
            demand = demand or changes_on_demand(program, dict.fromkeys(all_views(program), strategy))
            assert_exact(program, demand, old, new, told)


@pytest.mark.parametrize("focus", FOCUSES)
def test_strata_of_different_algorithms_and_stored_ones_work_together(focus: str) -> None:
    for number in range(case_count(400, least=5)):
        seed, demand = seed_of(f"mixed {focus}", number), None
        for program, old, new, told in transitions(seed, focus):
            chosen = mixed(program, random.Random(seed))
            demand = demand or changes_on_demand(program, chosen)
            assert_exact(program, demand, old, new, f"{told}\n{chosen}")


@pytest.mark.parametrize("focus", FOCUSES)
def test_what_nobody_listens_to_can_be_left_out(focus: str) -> None:
    """Any part of the views and signs, by any mix of algorithms, with views unfolded and not: the same changes."""
    for number in range(case_count(400, least=5)):
        seed = seed_of(f"wanted {focus}", number)
        for program, old, new, told in transitions(seed, focus):
            rng = random.Random(seed)
            chosen = mixed(program, rng)
            wanted = {view: rng.choice([("plus",), ("minus",), ("plus", "minus")]) for view in chosen}
            wanted = {view: signs for view, signs in wanted.items() if rng.random() < 0.5}
            demand = changes_on_demand(program, chosen, reported=wanted, unfolding=rng.random() < 0.7)
            found = changes(program, demand, old, new)
            assert set(demand.views) == wanted.keys()
            for view, signs in wanted.items():
                expected = {"plus": new[view] - old[view], "minus": old[view] - new[view]}
                for sign in signs:
                    assert getattr(found, sign)[view] == expected[sign], f"{told}\n{chosen}\n{wanted}\n{sign} {view}"


@pytest.mark.parametrize("strategy", on_demand())
def test_rules_for_signs_that_do_not_occur_can_be_left_out(strategy: str) -> None:
    for number in range(case_count(400, least=5)):
        for program, old, new, told in transitions(seed_of("signs", number), "everything"):
            views = dict.fromkeys(all_views(program), strategy)
            assert_exact(program, changes_on_demand(program, views, changed=signs(old, new)), old, new, told)


def signs(old: Relations, new: Relations) -> dict[str, set[str]]:
    return {
        name: {sign for sign, rows in (("ins", new[name] - old[name]), ("del", old[name] - new[name])) if rows}
        for name in old
    }


@pytest.mark.parametrize("strategy", on_demand())
def test_a_second_negation_over_a_computed_value_is_asked_for_once_the_value_is_there(strategy: str) -> None:
    program = normal_form(
        check(
            parse(
                ".decl b(x: number) .decl c(x: number) .decl q(x: number) .decl r(x: number) .decl p(x: number)\n"
                "q(X) :- c(X), X > 1. r(X) :- c(X), X > 2. p(T) :- b(X), !q(X), T = X + 1, !r(T)."
            )
        )
    )
    old = stored_rows(program, {"b": {(1,), (2,)}, "c": {(2,), (3,)}})
    new = stored_rows(program, {"b": {(1,), (2,)}, "c": {(4,)}})
    assert_exact(program, changes_on_demand(program, dict.fromkeys("qrp", strategy)), old, new)
