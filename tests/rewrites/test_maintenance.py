"""Algorithm 1: the rules that are generated, and that they compute the exact change."""

from __future__ import annotations

import pytest

from tests.properties.random_programs import Features, after, random_case
from tests.rewrites.pairs import Pair, Rows, checked, normal_or_refused, pairs, random_seeds, random_states
from tests.rewrites.transitions import Transition, given, transition
from upshot.check import CheckedProgram, print_checked, print_clause
from upshot.core.errors import DataError, UsageError
from upshot.engine.naive import evaluate
from upshot.rewrite import normal_form
from upshot.strategies.maintenance import maintenance
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.strategies.maintenance_rules import MaintenanceProgram, RuleStage, StateOf
from upshot.syntax.ast import Atom

FEATURES = (
    Features(nullable=0, rows=5),
    Features(nullable=0, aggregates=0, recursion=0.9, nonlinear=0.6, mutual=0.5, rows=5, views=3),
    Features(nullable=0, aggregates=0.2, negation=0.9, wildcards=0.3, rows=5, views=3),
)

GOLDEN = {
    "edge": {
        ("f", "e"),
        ("e", "d"),
        ("e", "a"),
        ("a", "b"),
        ("d", "c"),
        ("b", "c"),
        ("c", "g"),
        ("u", "v"),
        ("v", "g"),
    },
}


def closure() -> CheckedProgram:
    return normal_form(
        checked(
            ".decl edge(x: symbol, y: symbol)  .decl closure(x: symbol, y: symbol)\n"
            "closure(x, y) :- edge(x, y).\n"
            "closure(x, y) :- edge(x, z), closure(z, y)."
        )
    )


@pairs("maintenance")
def test_the_rules_are_as_written_down(pair: Pair) -> None:
    assert list_maintenance(maintenance(normal_form(checked(pair.before)))).text == pair.after


@pairs("maintenance")
def test_the_printed_rules_are_the_program(pair: Pair) -> None:
    made = maintenance(normal_form(checked(pair.before)))
    for text in (list_maintenance(made).text, print_checked(made.program)):
        again = checked(text)
        assert again.clauses == made.program.clauses
        assert again.schemas == made.program.schemas
        assert again.strata == made.program.strata


@pairs("maintenance")
def test_the_rules_compute_the_exact_change(pair: Pair) -> None:
    program = normal_form(checked(pair.before))
    before: Rows = {}
    for state in random_states(program, seed=2, count=25):
        assert_exact(program, maintenance(program), transition(program, before, state))
        before = state


def test_closure_has_the_rules_of_the_paper_in_its_order() -> None:
    rules = maintenance(closure()).rules
    names = "D1 D1 D2 N1 N'1 R R N2 I1 I1 I2 N3 N''1 E1 E2"
    assert " ".join(rule.name for rule in rules) == names
    assert [rule.driver for rule in rules if rule.driver is not None] == [0, 0, 1, 0, 0, 0, 0, 1]


def test_the_example_of_the_paper_gives_its_change() -> None:
    program = closure()
    new = {"edge": GOLDEN["edge"] - {("b", "c")} | {("h", "d")}}
    moved = transition(program, GOLDEN, new)
    result = evaluate(maintenance(program).program, given(maintenance(program), moved))
    assert result["closure_del"] == {(x, y) for x in "baef" for y in "cg"}
    assert result["closure_red"] == {(x, y) for x in "ef" for y in "cg"}
    assert result["closure_plus"] == {("h", "d"), ("h", "c"), ("h", "g")}
    assert result["closure_minus"] == {("a", "c"), ("a", "g"), ("b", "c"), ("b", "g")}


def test_drivers_are_delta_literals_and_states_name_everything() -> None:
    program = normal_form(
        checked(".decl a(x: number) .decl b(x: number) .decl p(x: number) p(X) :- X > 1, a(X), !b(X).")
    )
    made = maintenance(program)
    for rule in made.rules:
        if rule.driver is not None:
            literal = rule.clause.body[rule.driver]
            assert isinstance(literal, Atom)
            assert made.states[literal.relation].state in {"del", "ins"}
    assert made.states["p"] == StateOf("p", "old")
    assert made.states["b_new"] == StateOf("b", "new")
    assert set(made.states) == set(made.program.schemas)
    deletions = [(rule.name, rule.driver) for rule in made.rules if rule.stage is RuleStage.DELETE]
    assert deletions == [("D1", 1), ("D2", 2)]


def test_a_rederived_fact_gives_no_phantom_insertion_above_a_negation() -> None:
    program = normal_form(
        checked(".decl a() .decl b() .decl c() .decl p() .decl u()\np() :- a(). p() :- b(). u() :- c(), !p().")
    )
    moved = transition(program, {"a": {()}, "b": {()}, "c": {()}}, {"b": {()}, "c": {()}})
    result = evaluate(maintenance(program).program, given(maintenance(program), moved))
    assert result["p_del"] == {()}
    assert not result["u_plus"]
    assert not result["u_minus"]


def test_one_view_of_a_component_brings_the_others() -> None:
    program = normal_form(
        checked(
            ".decl n(x: number, y: number) .decl even(x: number) .decl odd(x: number)\n"
            "even(0) :- n(_, _). even(Y) :- odd(X), n(X, Y). odd(Y) :- even(X), n(X, Y)."
        )
    )
    made = maintenance(program, ["odd"])
    assert {made.states[rule.clause.head.relation].relation for rule in made.rules} == {"even", "odd", "n"}
    assert made == maintenance(program)


def test_a_view_alone_takes_the_changes_below_it_as_given() -> None:
    program = normal_form(
        checked(
            ".decl a(x: number) .decl p(x: number) .decl q(x: number) .decl u(x: number)\n"
            "p(X) :- a(X), X > 1. q(X) :- a(X), X > 2. u(X) :- p(X), !q(X)."
        )
    )
    made = maintenance(program, ["u"])
    assert {"p_plus", "p_minus", "q_plus", "q_minus"} <= set(made.states)
    before: Rows = {}
    for state in random_states(program, seed=3, count=10):
        assert_exact(program, made, transition(program, before, state), views=["u"])
        before = state


def test_an_unknown_view_is_an_error_that_offers_the_next_name() -> None:
    with pytest.raises(UsageError, match="closure") as caught:
        maintenance(closure(), ["closur"])
    assert caught.value.code == "unknown-view"
    assert "did you mean `closure`?" in caught.value.help


def test_printing_one_view_leaves_the_others_out_and_still_checks() -> None:
    program = normal_form(
        checked(".decl a(x: number) .decl p(x: number) .decl u(x: number)\np(X) :- a(X), X > 1. u(X) :- a(X), !p(X).")
    )
    text = list_maintenance(maintenance(program), view="u").text
    assert "u_minus(X) :- " in text
    assert "a_new(X) :- " in text
    assert "p_del" not in text
    assert checked(text).schemas["p_plus"].role.value == "base"


@pytest.mark.parametrize("features", FEATURES, ids=["mixed", "recursion", "negation"])
def test_random_transactions_on_random_programs_give_the_exact_change(features: Features) -> None:
    tried = 0
    for number in random_seeds("maintenance"):
        case = random_case(number, features)
        program = normal_or_refused(checked(case.text()))
        if program is None:
            continue
        made = maintenance(program)
        assert [*map(print_clause, checked(print_checked(made.program)).clauses)] == [
            *map(print_clause, made.program.clauses)
        ]
        before = case.base
        for changes in case.transactions[:2]:
            then = after(before, changes)
            try:
                moved = transition(program, as_sets(before), as_sets(then))
            except DataError:
                break
            assert_exact(program, made, moved, note=f"random_case({number})\n{case.text()}")
            before = then
            tried += 1
    assert tried >= min(10, len(random_seeds("maintenance")) // 2)


def as_sets(base: object) -> Rows:
    assert isinstance(base, dict)
    return {name: set(rows) for name, rows in base.items()}


def assert_exact(
    program: CheckedProgram,
    made: MaintenanceProgram,
    moved: Transition,
    *,
    views: list[str] | None = None,
    note: str = "",
) -> None:
    """The generated program finds `plus` and `minus` of every view, and its new state."""
    result = evaluate(made.program, given(made, moved))
    name = {meaning: each for each, meaning in made.states.items()}
    for view in views or [view for layer in program.strata for view in layer]:
        for state in ("plus", "minus", "new"):
            meaning = StateOf(view, state)
            if meaning in name:
                assert result[name[meaning]] == moved.rows(meaning), f"{meaning} {note}"
