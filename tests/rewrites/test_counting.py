"""Counting: the rules that are generated, and that they count every derivation once."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.properties.random_programs import Features, after, random_case
from tests.rewrites.pairs import Pair, Rows, checked, normal_or_refused, pairs, random_seeds, random_states
from tests.rewrites.transitions import Transition, transition
from upshot.check import CheckedProgram, Clause
from upshot.core.errors import DataError, UsageError
from upshot.engine.naive import derive
from upshot.rewrite import normal_form
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.counting import counting
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.strategies.maintenance_rules import MaintenanceProgram, RuleStage, StateOf

Bag = Counter[tuple[object, ...]]


@pairs("counting")
def test_the_rules_are_as_written_down(pair: Pair) -> None:
    made = counting(normal_form(checked(pair.before)))
    assert list_maintenance(made).text == pair.after
    assert checked(pair.after).clauses == made.program.clauses


@pairs("counting")
def test_every_derivation_is_counted_once(pair: Pair) -> None:
    program = normal_form(checked(pair.before))
    before: Rows = {}
    for state in random_states(program, seed=4, count=25):
        assert_counted(program, transition(program, before, state))
        before = state


def test_a_join_changed_on_both_sides_counts_what_both_bring_once() -> None:
    program = checked(
        ".decl q(x: number, y: number) .decl r(y: number, z: number) .decl p(x: number, z: number)\n"
        "p(X, Z) :- q(X, Y), r(Y, Z)."
    )
    moved = transition(
        program,
        {"q": {(1, 1)}, "r": {(1, 2), (2, 3)}},
        {"q": {(1, 1), (1, 2)}, "r": {(1, 2), (2, 3), (1, 4), (2, 4)}},
    )
    gain, loss = counted(counting(program), moved, "p")
    assert gain == Counter({(1, 3): 1, (1, 4): 2})
    assert not loss


def test_recursive_views_are_left_out_unless_asked_for_and_then_refused() -> None:
    program = checked(
        ".decl e(x: number, y: number) .decl tc(x: number, y: number) .decl p(x: number)\n"
        "tc(X, Y) :- e(X, Y). tc(X, Y) :- tc(X, Z), e(Z, Y). p(X) :- tc(X, X)."
    )
    made = counting(program)
    assert {meaning.relation for meaning in made.states.values()} == {"tc", "p"}
    assert list_maintenance(made, view="tc").text == "// no rules for tc\n"
    with pytest.raises(UsageError) as caught:
        counting(program, ["tc"])
    assert caught.value.code == "strategy-not-applicable"


@pytest.mark.parametrize("nullable", [0.0, 0.4])
def test_random_transactions_on_random_programs_are_counted(nullable: float) -> None:
    features = Features(nullable=nullable, recursion=0.1, negation=0.6, aggregates=0.2, wildcards=0.3, rows=6)
    tried = 0
    for number in random_seeds("counting"):
        case = random_case(number, features)
        program = normal_or_refused(checked(case.text()))
        if program is None:
            continue
        then = after(case.base, case.transactions[0])
        try:
            moved = transition(program, {n: set(r) for n, r in case.base.items()}, {n: set(r) for n, r in then.items()})
        except DataError:
            continue
        assert_counted(program, moved, note=f"random_case({number})\n{case.text()}")
        tried += 1
    assert tried >= min(10, len(random_seeds("counting")) // 2)


def assert_counted(program: CheckedProgram, moved: Transition, note: str = "") -> None:
    """The derivations of every view after are those before, with the gains, without the losses."""
    made = counting(program)
    for view in {
        made.states[rule.clause.head.relation].relation for rule in made.rules if rule.stage is RuleStage.COUNT
    }:
        clauses = [clause for clause in program.clauses if clause.head.relation == view]
        assert not any(aggregate_of(clause) for clause in clauses)
        gain, loss = counted(made, moved, view)
        before, after = derivations(clauses, moved.old), derivations(clauses, moved.new)
        assert before + gain == after + loss, f"{view} {note}"


def counted(made: MaintenanceProgram, moved: Transition, view: str) -> tuple[Bag, Bag]:
    """The gains and losses that the rules find, with their numbers."""
    relations = {
        name: moved.rows(meaning) for name, meaning in made.states.items() if meaning.state not in ("gain", "loss")
    }
    bags: dict[str, Bag] = {"gain": Counter(), "loss": Counter()}
    for rule in made.rules:
        meaning = made.states[rule.clause.head.relation]
        if meaning in (StateOf(view, "gain"), StateOf(view, "loss")):
            bags[meaning.state].update(derive(rule.clause, relations))
    return bags["gain"], bags["loss"]


def derivations(clauses: list[Clause], relations: Rows) -> Bag:
    return Counter(row for clause in clauses for row in derive(clause, relations))
