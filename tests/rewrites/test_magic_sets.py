"""Queries with bound arguments: the rules, and that they find what recomputation finds, and no more than they must."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import Relations, Row, changes, stored_rows
from upshot.check import CheckedProgram, check
from upshot.check.printing import print_clause
from upshot.core.errors import Error
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import DemandProgram, Meaning, RowOrigin
from upshot.rewrite.demand.magic_sets import magic_sets
from upshot.syntax import parse
from upshot.syntax.ast import Atom, Constant, Term, Variable

CLOSURE = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(x, y) :- edge(x, y).
closure(x, y) :- edge(x, z), closure(z, y).
"""


def normal(text: str) -> CheckedProgram:
    return normal_form(check(parse(text)))


def goal(program: CheckedProgram, relation: str, *values: Any) -> Atom:
    """The atom with the values that are not None as constants."""
    types = program.schemas[relation].types
    args: list[Term] = [
        Variable(f"V{i}") if value is None else Constant(value, type.required())
        for i, (value, type) in enumerate(zip(values, types, strict=True))
    ]
    return Atom(relation, tuple(args))


def rules(made: DemandProgram) -> list[str]:
    return [f"{rule.name} {print_clause(rule.clause)}" for rule in made.rules]


def run(program: CheckedProgram, made: DemandProgram, rows: Relations) -> Relations:
    """All relations of the rules over the rows of the stored ones."""
    return changes(program, made, rows, rows).relations


def answers(made: DemandProgram, relation: str, state: str = "old") -> str:
    return next(name for name, each in made.relations.items() if each == Meaning(RowOrigin.ANSWERS, relation, state))


def test_closure_with_its_first_argument_bound_has_the_query_rules_of_the_paper() -> None:
    program = normal(CLOSURE)
    assert rules(magic_sets(program, goal(program, "closure", 1, None))) == [
        "M m_closure_bf(1).",
        "Q closure(x, y) :- m_closure_bf(x), edge(x, y).",
        "S closure_sup(x, z) :- m_closure_bf(x), edge(x, z).",
        "M m_closure_bf(z) :- closure_sup(x, z).",
        "Q closure(x, y) :- closure_sup(x, z), closure(z, y).",
    ]


def test_closure_with_both_arguments_bound_keeps_the_second_on_the_way() -> None:
    program = normal(CLOSURE)
    assert rules(magic_sets(program, goal(program, "closure", 1, 2))) == [
        "M m_closure_bb(1, 2).",
        "Q closure(x, y) :- m_closure_bb(x, y), edge(x, y).",
        "S closure_sup(x, y, z) :- m_closure_bb(x, y), edge(x, z).",
        "M m_closure_bb(z, y) :- closure_sup(x, y, z).",
        "Q closure(x, y) :- closure_sup(x, y, z), closure(z, y).",
    ]


def test_closure_with_its_second_argument_bound_asks_for_the_same_again() -> None:
    program = normal(CLOSURE)
    assert rules(magic_sets(program, goal(program, "closure", None, 2))) == [
        "M m_closure_fb(2).",
        "Q closure(x, y) :- m_closure_fb(y), edge(x, y).",
        "Q closure(x, y) :- m_closure_fb(y), closure(z, y), edge(x, z).",
    ]


UNCONNECTED = """
.decl train(x: number, y: number)
.decl station(x: number)
.decl route(x: number, y: number)
.decl unconnected(x: number, y: number)
route(X, Y) :- train(X, Y).
route(X, Y) :- train(X, Z), route(Z, Y).
unconnected(X, Y) :- station(X), station(Y), !route(X, Y).
"""


def test_a_negated_view_is_asked_first_and_tested_behind_the_gate_of_its_user() -> None:
    program = normal(UNCONNECTED)
    made = magic_sets(program, goal(program, "unconnected", 1, None))
    assert rules(made)[:4] == [
        "M m_unconnected_bf(1).",
        "S unconnected_sup(X, Y) :- m_unconnected_bf(X), station(X), station(Y).",
        "M m_route_bb(X, Y) :- unconnected_sup(X, Y).",
        "Q unconnected(X, Y) :- unconnected_sup(X, Y), !route(X, Y).",
    ]
    assert {print_clause(rule.clause): rule.gate for rule in made.rules if rule.gate is not None} == {
        "unconnected(X, Y) :- unconnected_sup(X, Y), !route(X, Y).": program.strata.index(("unconnected",))
    }


def test_stored_views_are_read_where_they_lie() -> None:
    program = normal(UNCONNECTED)
    made = magic_sets(program, goal(program, "unconnected", 1, 2), stored=["route"], state="new")
    assert rules(made) == [
        "M m_unconnected_new_bb(1, 2).",
        "Q unconnected_new(X, Y) :- m_unconnected_new_bb(X, Y), station_new(X), station_new(Y), !route_new(X, Y).",
    ]
    assert made.relations["route_new"] == Meaning(RowOrigin.STORED, "route", "new")


def test_a_goal_over_a_stored_relation_needs_no_rules() -> None:
    program = normal(CLOSURE)
    made = magic_sets(program, goal(program, "edge", 1, None))
    assert not made.rules
    assert made.relations == {"edge": Meaning(RowOrigin.STORED, "edge", "old")}


def test_what_the_goal_cannot_reach_is_never_derived() -> None:
    program = normal(CLOSURE)
    rows = stored_rows(program, {"edge": {(1, 2), (2, 3), *itertools.pairwise(range(10, 20))}})
    found = run(program, magic_sets(program, goal(program, "closure", 1, None)), rows)
    assert found["closure"] == {(1, 2), (1, 3), (2, 3)}
    assert found["m_closure_bf"] == {(1,), (2,), (3,)}


FOCUSES = {
    "recursion": Features(recursion=1),
    "negation": Features(recursion=0.5, negation=0.6),
    "null": Features(nullable=0.5),
    "everything": Features(),
}


@pytest.mark.parametrize("focus", FOCUSES)
def test_random_queries_find_what_recomputation_finds(focus: str) -> None:
    asked = 0
    for number in range(case_count(200, least=6)):
        seed = seed_of(f"magic sets {focus}", number)
        case, rng = random_case(seed, FOCUSES[focus]), random.Random(seed)
        program = normal(case.text())
        try:
            rows = stored_rows(program, case.base)
        except Error:
            continue
        for view in (view for layer in program.strata for view in layer):
            for values in bindings(rng, rows[view], program.schemas[view].arity):
                made = magic_sets(program, goal(program, view, *values))
                found = run(program, made, rows)[answers(made, view)]
                told = f"random_case({seed})\n{case.text()}\n{case.base}\n{view}{values}\n" + "\n".join(rules(made))
                assert found <= rows[view], told
                assert matching(found, values) == matching(rows[view], values), told
                asked += 1
    assert asked >= 10


def bindings(rng: random.Random, rows: set[Row], arity: int) -> list[Row]:
    """Parts of two rows of the view, or of rows that are not there."""
    known = sorted(rows, key=repr)
    chosen = [rng.choice(known) for _ in range(2)] if known else []
    mixed = [tuple(rng.choice([*column, None]) for column in zip(*chosen, strict=True))] if chosen else []
    return [*mixed, *(tuple(v if rng.random() < 0.5 else None for v in row) for row in chosen), (None,) * arity]


def matching(rows: set[Row], values: Row) -> set[Row]:
    return {row for row in rows if all(want is None or want == value for want, value in zip(values, row, strict=True))}
