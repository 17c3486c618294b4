"""Goal-directed evaluation: what a program that is only run need not store."""

from __future__ import annotations

from upshot.check import check
from upshot.plan.goals import magic_pragma, unstored_views
from upshot.syntax import parse

SAME_GENERATION = """
.decl parent(child: number, parent: number)
.input parent
.decl sg(x: number, y: number)
sg(X, Y) :- parent(X, P), parent(Y, P).
sg(X, Y) :- parent(X, P), sg(P, Q), parent(Y, Q).
.decl answer(y: number)
answer(Y) :- sg(20, Y).
.decl unused(x: number)
unused(X) :- sg(X, X).
.output answer
"""


def unstored(text: str) -> dict[str, str]:
    program = parse(text)
    return unstored_views(check(program), magic_pragma(program.items))


def test_a_recursive_view_used_with_constants_only_and_what_depends_on_it_are_computed_on_demand() -> None:
    assert unstored(SAME_GENERATION).keys() == {"sg", "answer", "unused"}


def test_a_view_that_is_used_with_variables_is_stored() -> None:
    assert unstored(SAME_GENERATION + "answer(Y) :- sg(Y, Y).").keys() == {"unused"}


def test_the_pragma_asks_for_magic_sets_whatever_the_use() -> None:
    text = SAME_GENERATION + "answer(Y) :- sg(Y, Y).\n"
    assert unstored(text + '.pragma "magic-transform" "*"').keys() == {"sg", "answer", "unused"}
    assert unstored(text + '.pragma "magic-transform" "sg"').keys() == {"sg", "answer", "unused"}


def test_a_view_that_a_constraint_depends_on_is_stored() -> None:
    assert unstored(SAME_GENERATION + ".deny own(X) :- sg(X, X), X > 90.").keys() == {"unused"}


def test_active_rules_look_at_every_view() -> None:
    rule = ".decl seen(x: number) .rule r(X) when sg(X, X) do insert seen(X)."
    assert unstored(SAME_GENERATION + rule) == {}


def test_a_view_keeps_choices_of_its_own() -> None:
    assert unstored(SAME_GENERATION + ".view sg strategy=bf").keys() == {"unused"}


def test_a_program_without_outputs_leaves_nothing_out() -> None:
    assert unstored(SAME_GENERATION.replace(".output answer", "")) == {}
