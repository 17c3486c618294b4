"""What need not be computed: events nobody listens to, constants pushed down, changes that match nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.properties.cases import after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import Relations, changes, stored_rows
from upshot.check import CheckedProgram, check, print_clause
from upshot.core.errors import Error
from upshot.core.optimizations import Optimizations
from upshot.core.schema import Role
from upshot.engine.naive import derive
from upshot.rewrite import normal_form
from upshot.rewrite.changes.screening import relevant_rows
from upshot.rewrite.demand.demand import DemandProgram, RowOrigin
from upshot.rewrite.demand.partial_evaluation import partial_evaluation
from upshot.strategies.changes_on_demand import changes_on_demand, event_paths
from upshot.strategies.strategy import on_demand
from upshot.syntax import parse


def normal(text: str) -> CheckedProgram:
    return normal_form(check(parse(text)))


def all_views(program: CheckedProgram) -> list[str]:
    return [view for layer in program.strata for view in layer]


def drivers(made: DemandProgram) -> set[str]:
    """The changes of stored relations that some rule is driven by."""
    return {name for name, meaning in made.relations.items() if meaning.origin is RowOrigin.CHANGE}


# ---- events nobody listens to -----------------------------------------------------------------

NEGATED = """
.decl a(x: number) .decl b(x: number) .decl c(x: number)
.decl p(x: number) .decl q(x: number) .decl u(x: number)
p(X) :- a(X), !b(X). q(X) :- c(X), !p(X). u(X) :- q(X), a(X).
"""


def test_a_sign_turns_at_every_negation() -> None:
    program = normal(NEGATED)
    strategies = dict.fromkeys("pqu", "epf")
    assert event_paths(program, strategies, {"q": ["plus"]}) == {
        ("q", "plus"), ("c", "plus"), ("p", "minus"), ("a", "minus"), ("b", "plus"),
    }  # fmt: skip
    both = {("a", "plus"), ("a", "minus")}
    assert both <= event_paths(program, strategies, {"u": ["plus"]})


@pytest.mark.parametrize("strategy", [name for name in on_demand() if name != "rod"])
def test_who_wants_only_additions_does_not_pay_for_the_rest(strategy: str) -> None:
    program = normal(NEGATED)
    made = changes_on_demand(program, dict.fromkeys("pqu", strategy), reported={"q": ["plus"]})
    assert drivers(made) == {"c_ins", "a_del", "b_ins"}
    assert made.net("q", "minus") is None
    assert not any(meaning.relation == "u" for meaning in made.relations.values())


def test_where_states_are_made_of_changes_both_signs_stay() -> None:
    program = normal(NEGATED)
    made = changes_on_demand(program, dict.fromkeys("pqu", "rod"), reported={"q": ["plus"]})
    assert drivers(made) == {f"{name}_{sign}" for name in "abc" for sign in ("ins", "del")}


def test_a_group_is_touched_by_both_signs() -> None:
    program = normal(
        ".decl a(x: number, y: number) .decl n(x: number, c: number)\nn(X, C) :- a(X, _), C = count : { a(X, _) }."
    )
    made = changes_on_demand(program, dict.fromkeys(all_views(program), "epf"), reported={"n": ["plus"]})
    assert drivers(made) == {"a_ins", "a_del"}


# ---- constants pushed down --------------------------------------------------------------------

REACH = """
.decl edge(x: number, y: number) .decl reach(x: number, y: number) .decl far(y: number)
reach(X, Y) :- edge(X, Y). reach(X, Y) :- reach(X, Z), edge(Z, Y). far(X) :- reach(1, X).
"""


def test_a_constant_goes_down_through_the_recursion() -> None:
    made, copies = partial_evaluation(normal(REACH), ["reach", "far"], ["far"])
    assert copies == {"reach_at": "reach"}
    assert [print_clause(clause) for clause in made.clauses if clause.head.relation != "reach"] == [
        "far(X) :- reach_at(X).",
        "reach_at(Y) :- edge(1, Y).",
        "reach_at(Y) :- reach_at(Z), edge(Z, Y).",
    ]


def test_computed_columns_read_the_constant_through_an_equation_and_other_heads_are_left_out() -> None:
    program = normal(
        ".decl b(x: number, y: number) .decl v(x: number, y: number) .decl u(y: number)\n"
        "v(X, Y) :- b(X, Y), X < Y. v(3, Y) :- b(Y, _). v(2, Y) :- b(_, Y). u(Y) :- v(2, Y)."
    )
    made, _ = partial_evaluation(program, ["v", "u"], ["u"])
    assert [print_clause(clause) for clause in made.clauses if clause.head.relation == "v_at"] == [
        "v_at(Y) :- X = 2, b(2, Y), X < Y.",
        "v_at(Y) :- b(_, Y).",
    ]


def test_a_view_that_is_needed_as_a_whole_is_not_copied() -> None:
    program = normal(f"{REACH} .decl any(x: number) any(X) :- reach(X, _).")
    assert partial_evaluation(program, all_views(program), ["far", "any"]) == (program, {})
    assert partial_evaluation(program, all_views(program), ["far", "reach"]) == (program, {})
    doubled = normal(REACH.replace("reach(X, Z), edge(Z, Y)", "reach(X, Z), reach(Z, Y)"))
    assert partial_evaluation(doubled, ["reach", "far"], ["far"]) == (doubled, {})


@pytest.mark.parametrize("strategy", on_demand())
def test_changes_elsewhere_are_not_followed(strategy: str) -> None:
    program = normal(REACH)
    old = stored_rows(program, {"edge": {(1, 2), (5, 6)}})
    new = stored_rows(program, {"edge": {(1, 2), (2, 3), (5, 6), (6, 7), (7, 8)}})
    views = dict.fromkeys(["reach", "far"], strategy)
    found = {}
    for specializing in (True, False):
        made = changes_on_demand(
            program, views, reported={"far": ["plus"]}, optimizations=Optimizations(partial_evaluation=specializing)
        )
        result = changes(program, made, old, new, dropping=False)
        assert result.plus["far"] == {(3,)}
        found[specializing] = sum(
            len(rows)
            for name, rows in result.relations.items()
            if made.relations[name].origin in (RowOrigin.PART, RowOrigin.ANSWERS)
        )
    assert found[True] < found[False]


# ---- changes that match nothing ---------------------------------------------------------------


def guards(text: str, relation: str) -> list[str] | None:
    program = normal(text)
    found = relevant_rows(program, relation, all_views(program))
    return None if found is None else [print_clause(clause) for clause in found]


def test_constants_repeated_variables_and_comparisons_are_guards() -> None:
    declared = ".decl r(x: number, y: number) .decl s(x: number) .decl p(x: number)\n"
    rules = "p(X) :- r(X, 1). p(X) :- r(X, X), s(X). p(X) :- s(X), !r(X, 2). p(X) :- r(X, Y), X > 3, Y < 2, s(X)."
    assert guards(declared + rules, "r") == [
        "r(X, 1) :- r(X, 1).",
        "r(X, X) :- r(X, X).",
        "r(X, 2) :- r(X, 2).",
        "r(X, Y) :- r(X, Y), X > 3, Y < 2.",
    ]
    assert guards(declared + rules, "s") is None
    assert guards(f"{declared} p(X) :- s(X), X > 1.", "r") == []
    assert guards(f"{declared} p(X) :- r(X, Y), Y > 1. p(X) :- r(_, X).", "r") is None


def test_what_can_fail_is_no_guard() -> None:
    assert guards(".decl r(x: number) .decl p(x: number) p(X) :- r(X), 10 / X > 3.", "r") is None


def test_a_null_that_a_join_would_refuse_is_screened_out() -> None:
    text = ".decl r(x: number?) .decl s(x: number?) .decl p(x: number) p(X) :- r(X), s(X), X > 0."
    assert guards(text, "r") == ["r(X) :- r(X), X > 0."]


@pytest.mark.parametrize("features", [Features(constants=0.4, comparisons=0.8), Features(nullable=0.5, constants=0.3)])
def test_irrelevant_changes_change_nothing(features: Features) -> None:
    screened = 0
    for number in range(case_count(200, least=20)):
        seed = seed_of("screening", number)
        case = random_case(seed, features)
        program = normal(case.text())
        state = case.base
        for transaction in case.transactions:
            following = after(state, transaction)
            try:
                old, new = stored_rows(program, state), stored_rows(program, following)
                part, left = screen(program, old, new)
                found = stored_rows(program, part)
            except Error:
                break
            screened += left
            assert {v: found[v] for v in all_views(program)} == {v: new[v] for v in all_views(program)}, case.text()
            state = following
    assert screened


def screen(program: CheckedProgram, old: Relations, new: Relations) -> tuple[dict[str, set[Any]], int]:
    """The base rows after the relevant changes only, and how many were left out."""
    rows: dict[str, set[Any]] = {}
    left = 0
    for name, schema in program.schemas.items():
        if schema.role is not Role.BASE:
            continue
        clauses = relevant_rows(program, name, all_views(program))
        came, went = new[name] - old[name], old[name] - new[name]
        if clauses is not None:
            came, went = (
                {row for clause in clauses for row in derive(clause, {name: changed})} for changed in (came, went)
            )
        left += len(new[name] ^ old[name]) - len(came) - len(went)
        rows[name] = (old[name] - went) | came
    return rows, left


# ---- on and off -------------------------------------------------------------------------------


def test_results_are_the_same_with_every_optimization_on_and_off() -> None:
    for number in range(case_count(200, least=5)):
        seed = seed_of("optimizations", number)
        case, rng = random_case(seed, Features(constants=0.4)), random.Random(seed)
        program = normal(case.text())
        strategy = rng.choice([*on_demand()])
        wanted = {view: ("plus", "minus") for view in all_views(program) if rng.random() < 0.4}
        views = dict.fromkeys(all_views(program), strategy)
        made = [
            changes_on_demand(program, views),
            changes_on_demand(
                program, views, reported=wanted, unfolding=False, optimizations=Optimizations(partial_evaluation=False)
            ),
            changes_on_demand(program, views, reported=wanted, unfolding=False),
            changes_on_demand(program, views, reported=wanted),
        ]
        try:
            old, new = (stored_rows(program, b) for b in (case.base, after(case.base, case.transactions[0])))
        except Error:
            continue
        found = [changes(program, each, old, new) for each in made]
        for view in wanted:
            for each in found:
                told = f"random_case({seed}) {strategy} {wanted}\n{case.text()}"
                assert (each.plus[view], each.minus[view]) == (new[view] - old[view], old[view] - new[view]), told
