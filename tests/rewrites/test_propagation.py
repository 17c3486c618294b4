"""Update propagation on rules of one operator each. [Behrend & Manthey 2008, section 3]"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.rewrites.demand_interpreter import changes, stored_rows
from upshot.check import CheckedProgram, check, print_clause
from upshot.core.errors import Error
from upshot.engine.naive import evaluate
from upshot.rewrite import normal_form
from upshot.rewrite.demand.demand import RowOrigin
from upshot.rewrite.normalize.operators import operators
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.changes_on_demand import changes_on_demand
from upshot.strategies.propagation import transition_rules
from upshot.strategies.strategy import strategy_named
from upshot.syntax import parse
from upshot.syntax.ast import Atom, Not

PATHS = """
.decl e(X: number, Y: number)
.decl p(X: number, Y: number)
p(X, Y) :- e(X, Y).
p(X, Y) :- e(X, Z), p(Z, Y).
"""
DATABASE = f"""{PATHS}
.decl h(X: number, Y: number)
.decl ic1() .decl ic2() .decl aux()
h(X, Y) :- p(X, Y), !e(X, Y).
ic1() :- p(X, Y).
ic2() :- !aux().
aux() :- p(X, X).
"""
FACTS = {"e": {(1, 2), (1, 4), (2, 3)}}


def normal(text: str) -> CheckedProgram:
    return normal_form(check(parse(text)))


def views(program: CheckedProgram) -> list[str]:
    return [view for layer in program.strata for view in layer]


def rules(text: str, names: str) -> set[str]:
    """The rules of these names, signs as the paper writes them."""
    program = normal(text)
    made = changes_on_demand(program, dict.fromkeys(views(program), "propagation"))
    found = {print_clause(rule.clause) for rule in made.rules if rule.name[0] in names}
    for ours, theirs in (("p_aux_1", "aux2"), ("p_aux", "aux1"), ("_ins", "_plus"), ("_del", "_minus")):
        found = {rule.replace(ours, theirs) for rule in found}
    return found


def listed(program: CheckedProgram, view: str | None = None) -> str:
    demand = strategy_named("propagation").demand
    assert demand is not None
    return demand.listing(changes_on_demand(program, dict.fromkeys(views(program), "propagation")), view).text


# ---- one operator per rule --------------------------------------------------------------------


def test_paths_are_a_union_a_projection_and_a_join() -> None:
    program = normal(PATHS)
    assert [print_clause(clause) for clause in operators(program, ["p"]).clauses] == [
        "p(X, Y) :- e(X, Y).",
        "p(X, Y) :- p_aux(X, Y).",
        "p_aux_1(X, Y, Z) :- e(X, Z), p(Z, Y).",
        "p_aux(X, Y) :- p_aux_1(X, Y, Z).",
    ]


def test_every_operator_has_rules_of_its_own() -> None:
    program = normal(
        ".decl q(x: number, y: number) .decl r(x: number) .decl a() .decl n() .decl turned(x: number, y: number)\n"
        ".decl chosen(x: number) .decl computed(x: number, y: number) .decl less(x: number) .decl both(x: number)\n"
        ".decl more(x: number, y: number)\n"
        "turned(X, Y) :- q(Y, X).  chosen(X) :- q(X, X), q(X, 1).  computed(X, T) :- r(X), T = X + 1, T > 2.\n"
        "less(X) :- r(X), !q(X, _), !q(X, 3).  n() :- !a().  both(X) :- r(X), chosen(X), n().\n"
        "more(1, 2). more(X, 3) :- r(X). more(X, Y) :- q(X, Y). more(X, X) :- q(_, X)."
    )
    assert [print_clause(clause) for clause in operators(program, views(program)).clauses] == [
        "n() :- !a().",
        "turned(X, Y) :- q(Y, X).",
        "q_aux(X) :- q(X, 1).",
        "q_aux_1(X) :- q(X, X).",
        "chosen(X) :- q_aux(X), q_aux_1(X).",
        "computed(X, T) :- r(X), T = X + 1, T > 2.",
        "both_aux(X) :- n(), r(X).",
        "both(X) :- both_aux(X), chosen(X).",
        "more(1, 2).",
        "more(X, Y) :- more_aux(X, Y).",
        "more_aux(X, 3) :- r(X).",
        "more(X, Y) :- q(X, Y).",
        "more(X, Y) :- more_aux_1(X, Y).",
        "q_aux_2(X) :- q(_, X).",
        "more_aux_1(X, X) :- q_aux_2(X).",
        "q_on_0(X) :- q(X, _).",
        "less_aux(X) :- r(X), !q_on_0(X).",
        "q_aux_3(X) :- q(X, 3).",
        "less(X) :- less_aux(X), !q_aux_3(X).",
    ]


@pytest.mark.parametrize("features", [Features(), Features(nullable=0.5), Features(recursion=1, negation=0.6)])
def test_one_operator_per_rule_keeps_the_meaning(features: Features) -> None:
    for number in range(case_count(200, least=5)):
        case = random_case(seed_of("operators", number), features)
        program = normal(case.text())
        changed = operators(program, views(program))
        for clause in changed.clauses:
            if aggregate_of(clause) is None:
                assert sum(isinstance(each, Atom) or _negates(each) for each in clause.body) <= 2
        try:
            expected = evaluate(program, case.base)
        except Error:
            continue
        found = evaluate(changed, case.base)
        assert {view: found[view] for view in expected} == expected, case.text()


def _negates(literal: object) -> bool:
    return isinstance(literal, Not) and isinstance(literal.body, Atom)


# ---- the rules of the paper -------------------------------------------------------------------


def test_the_propagation_rules_of_paths_are_those_of_the_paper() -> None:
    insertions = {
        "p_plus(X, Y) :- e_plus(X, Y), !p(X, Y).",
        "p_plus(X, Y) :- aux1_plus(X, Y), !p(X, Y).",
        "aux1_plus(X, Y) :- aux2_plus(X, Y, Z), !aux1(X, Y).",
        "aux2_plus(X, Y, Z) :- e_plus(X, Z), p_new(Z, Y).",
        "aux2_plus(X, Y, Z) :- p_plus(Z, Y), e_new(X, Z).",
    }
    deletions = {
        "p_minus(X, Y) :- e_minus(X, Y), !p_new(X, Y).",
        "p_minus(X, Y) :- aux1_minus(X, Y), !p_new(X, Y).",
        "aux1_minus(X, Y) :- aux2_minus(X, Y, Z), !aux1_new(X, Y).",
        "aux2_minus(X, Y, Z) :- e_minus(X, Z), p(Z, Y).",
        "aux2_minus(X, Y, Z) :- p_minus(Z, Y), e(X, Z).",
    }
    assert rules(PATHS, "U") == insertions | deletions


def test_the_rules_of_the_whole_database_of_the_paper() -> None:
    more = {
        "h_plus(X, Y) :- p_plus(X, Y), !e_new(X, Y).",
        "h_plus(X, Y) :- e_minus(X, Y), p_new(X, Y).",
        "h_minus(X, Y) :- p_minus(X, Y), !e(X, Y).",
        "h_minus(X, Y) :- e_plus(X, Y), p(X, Y).",
        "ic1_plus() :- p_plus(X, Y), !ic1().",
        "ic1_minus() :- p_minus(X, Y), !ic1_new().",
        "ic2_plus() :- aux_minus().",
        "ic2_minus() :- aux_plus().",
        "p_aux_2_plus(X) :- p_plus(X, X).",
        "p_aux_2_minus(X) :- p_minus(X, X).",
        "aux_plus() :- p_aux_2_plus(X), !aux().",
        "aux_minus() :- p_aux_2_minus(X), !aux_new().",
    }
    assert rules(DATABASE, "U") == rules(PATHS, "U") | {rule.replace("p_aux_2", "aux1_2") for rule in more}


def test_the_transition_rules_of_paths_are_those_of_the_paper_put_right() -> None:
    """The paper prints `p_new(X, Y) :- aux1_new(X, Z).`"""
    found = {print_clause(clause) for clause in transition_rules(operators(normal(PATHS), ["p"]))}
    assert {rule.replace("p_aux_1", "aux2").replace("p_aux", "aux1") for rule in found} == {
        "e_new(X, Y) :- e(X, Y), !e_del(X, Y).",
        "e_new(X, Y) :- e_ins(X, Y).",
        "p_new(X, Y) :- e_new(X, Y).",
        "p_new(X, Y) :- aux1_new(X, Y).",
        "aux1_new(X, Y) :- aux2_new(X, Y, Z).",
        "aux2_new(X, Y, Z) :- e_new(X, Z), p_new(Z, Y).",
    }


def test_the_rules_are_printed_with_their_normal_form_and_their_transition_rules() -> None:
    printed = listed(normal(PATHS))
    single, states, propagated = printed.split("\n\n", 2)
    assert single.splitlines()[1:] == [print_clause(each) for each in operators(normal(PATHS), ["p"]).clauses]
    assert states.splitlines()[1:] == [print_clause(each) for each in transition_rules(operators(normal(PATHS), ["p"]))]
    assert "p_plus(X, Y) :- e_ins(X, Y), !p(X, Y)." in propagated
    of_h, of_everything = (listed(normal(DATABASE), view) for view in ("h", None))
    assert "h_new(X, Y) :- p_new(X, Y), !e_new(X, Y)." in of_h
    assert "aux" not in of_h
    assert "p_aux_new(X, Y) :- p_aux_1_new(X, Y, Z)." in of_everything


def test_transition_rules_of_aggregates_and_of_relations_with_taken_names() -> None:
    program = normal(
        ".decl e(x: number, y: number) .decl n(x: number) .decl p(x: number) .decl p_new(x: number)\n"
        "n(C) :- C = count : { e(1, _) }. p_new(X) :- e(X, X). p(X) :- p_new(X)."
    )
    found = [print_clause(each) for each in transition_rules(operators(program, views(program)))]
    assert [rule for rule in found if "count" in rule and "{" in rule] == [
        "n_count_new(C) :- n_count_rows_new(_), C = count : { n_count_rows_new(Any) }."
    ]
    assert "p_new_1(X) :- p_new_new(X)." in found


def test_states_are_asked_by_the_transition_rules_with_bindings() -> None:
    """Behind what asks, each query rule is a transition rule."""
    program = normal(PATHS)
    made = changes_on_demand(program, {"p": "propagation"})
    wanted = {print_clause(clause) for clause in transition_rules(operators(program, ["p"]))}
    asking = {name for name, meaning in made.relations.items() if meaning.origin is RowOrigin.BINDINGS}
    for rule in made.rules:
        if rule.name == "Q" and rule.clause.head.relation.endswith("_new"):
            assert rule.source is not None
            first = rule.clause.body[0]
            assert isinstance(first, Atom)
            assert first.relation in asking or "_sup" in first.relation
            read = print_clause(rule.source)
            for name in ("p_aux_1(", "p_aux(", "p(", "e("):
                read = read.replace(f" {name}", f" {name[:-1]}_new(")
            assert f"{read[: read.index('(')]}_new{read[read.index('(') :]}" in wanted


def test_the_model_of_the_paper_put_right_has_one_more_path() -> None:
    """The paper leaves h(1, 3) out."""
    program = normal(DATABASE)
    model = evaluate(operators(program, views(program)), FACTS)
    assert model["p"] == {(1, 2), (1, 3), (1, 4), (2, 3)}
    assert model["h"] == {(1, 3)}
    assert (model["ic1"], model["ic2"]) == ({()}, {()})


@pytest.mark.parametrize(
    ("edges", "plus", "minus"),
    [
        ({(1, 2), (1, 4), (2, 3), (3, 1)}, {"h": {(1, 1), (2, 1), (2, 2), (2, 4), (3, 2), (3, 3), (3, 4)}},
         {"ic2": {()}}),
        ({(1, 4), (2, 3)}, {}, {"h": {(1, 3)}, "p": {(1, 2), (1, 3)}}),
        ({(1, 2), (1, 3), (1, 4), (2, 3)}, {}, {"h": {(1, 3)}}),
        (set(), {}, {"h": {(1, 3)}, "ic1": {()}, "p": {(1, 2), (1, 3), (1, 4), (2, 3)}}),
    ],
)  # fmt: skip
def test_changes_of_the_database_of_the_paper(
    edges: set[tuple[int, int]], plus: dict[str, set[object]], minus: dict[str, set[object]]
) -> None:
    program = normal(DATABASE)
    made = changes_on_demand(program, dict.fromkeys(views(program), "propagation"))
    found = changes(program, made, stored_rows(program, FACTS), stored_rows(program, {"e": edges}))
    for view in ("h", "ic1", "ic2"):
        assert (found.plus[view], found.minus[view]) == (plus.get(view, set()), minus.get(view, set()))
    if "p" in minus:
        assert found.minus["p"] == minus["p"]


def test_a_cycle_does_not_support_itself() -> None:
    """The new state of a view is derived from the new base, never from its old rows and changes."""
    program = normal(PATHS)
    made = changes_on_demand(program, {"p": "propagation"})
    old, new = (stored_rows(program, {"e": edges}) for edges in ({(1, 2), (2, 3), (3, 2)}, {(2, 3), (3, 2)}))
    found = changes(program, made, old, new)
    assert found.minus["p"] == {(1, 2), (1, 3)}
    old, new = new, stored_rows(program, {"e": {(3, 2)}})
    assert changes(program, made, old, new).minus["p"] == {(2, 3), (2, 2), (3, 3)}


def test_helper_views_are_no_results() -> None:
    program = normal(PATHS)
    made = changes_on_demand(program, {"p": "propagation"})
    assert made.views == ("p",)
    assert {meaning.relation for meaning in made.relations.values() if meaning.origin is RowOrigin.NET} == {"p"}


def test_a_negation_tested_before_its_question_is_answered_gives_phantom_changes() -> None:
    """The rules with their questions are not stratified: in one loop a path that is left is taken for one that went."""
    program = normal(PATHS)
    staged = changes_on_demand(program, {"p": "propagation"})
    loop = replace(staged, rules=tuple(replace(rule, gate=None) for rule in staged.rules))
    old = stored_rows(program, {"e": {(1, 2), (2, 4), (1, 3), (3, 4)}})
    new = stored_rows(program, {"e": {(2, 4), (1, 3), (3, 4)}})
    assert changes(program, staged, old, new).minus["p"] == {(1, 2)}
    assert changes(program, loop, old, new).minus["p"] == {(1, 2), (1, 4)}
