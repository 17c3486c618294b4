"""Disjunctive rules: perfect models and the perfect model state."""

from __future__ import annotations

from tests.revise.model_state import DisjunctiveRule, model_state, perfect_models
from upshot.revise.minimal_realizations import minimal_choices
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Not


def rule(heads: str, body: str = "") -> DisjunctiveRule:
    """`rule("s(X) | t(X)", "r(X) & !p(X)")`"""
    literals = [parse_query(each) for each in body.split("&") if each]
    return DisjunctiveRule(
        tuple(atom for each in heads.split("|") if isinstance(atom := parse_query(each), Atom)),
        tuple(each for each in literals if isinstance(each, Atom | Not)),
    )


PROGRAM = [
    rule("s(X) | t(X)", "r(X) & !p(X)"),
    rule("p(X)", "b(X, Y) & p(Y)"),
    rule("p(X)", "q(X)"),
    rule("q(2)"),
    rule("b(1, 2)"),
    rule('r("a") | r("b") | r("c") | r(1)'),
]
STRATA = [{"q", "b", "r"}, {"p"}, {"s", "t"}]
DEFINITE = {("q", (2,)), ("b", (1, 2)), ("p", (1,)), ("p", (2,))}


def test_each_choice_that_lets_another_be_made_has_its_models() -> None:
    models = perfect_models(PROGRAM, STRATA)
    own = {frozenset(model - DEFINITE) for model in models}
    chosen = [frozenset({("r", (name,)), (other, (name,))}) for name in ("a", "b", "c") for other in ("s", "t")]
    assert all(model >= DEFINITE for model in models)
    assert len(models) == 7
    assert own == {frozenset({("r", (1,))}), *chosen}


def test_the_model_state_holds_every_smallest_disjunction_and_no_other() -> None:
    state = model_state(perfect_models(PROGRAM, STRATA))
    definite = {frozenset({fact}) for fact in DEFINITE}
    expected = set()
    for kept in range(8):
        parts = {("r", (1,))}
        for place, name in enumerate(("a", "b", "c")):
            parts |= {("r", (name,))} if kept >> place & 1 else {("s", (name,)), ("t", (name,))}
        expected.add(frozenset(parts))
    assert state == definite | expected
    assert sorted(map(len, expected)) == [4, 5, 5, 5, 6, 6, 6, 7]


def test_a_choice_is_not_made_where_one_of_its_heads_is_true_anyway() -> None:
    program = [rule("a(1) | b(1)", "c(1)"), rule("a(1)", "c(1)"), rule("c(1)")]
    assert perfect_models(program, [{"c"}, {"a", "b"}]) == [frozenset({("a", (1,)), ("c", (1,))})]


def test_what_every_realization_has_one_of() -> None:
    ways = [frozenset({"+a", "+b"}), frozenset({"+a", "-c"})]
    assert minimal_choices(ways) == {frozenset({"+a"}), frozenset({"+b", "-c"})}
