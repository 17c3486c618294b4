"""Activations are items of the program: applied in order, and never more than needed."""

from __future__ import annotations

import pytest

from upshot.database.program.definitions import merged, without
from upshot.syntax import parse, print_program
from upshot.syntax.ast import Program

RULE = ".rule r(I) when low(I) do insert orders(I).\n"


def after(*texts: str) -> str:
    """What is left of the activations when these texts are defined one after another."""
    program = Program(())
    for text in (RULE, *texts):
        program = merged(program, parse(text))
    assert parse(print_program(program)) == program
    return print_program(program).replace(RULE, "")


@pytest.mark.parametrize(
    ("texts", "left"),
    [
        ([".activate r(I = 1)"], ".activate r(I = 1)\n"),
        ([".activate r(I = 1)", ".activate r(I = 2)"], ".activate r(I = 1)\n.activate r(I = 2)\n"),
        ([".activate r(I = 1)", ".activate r(I = 1)"], ".activate r(I = 1)\n"),
        ([".activate r(I = 1)", ".activate r"], ".activate r\n"),
        ([".activate r", ".activate r(I = 1)"], ".activate r(I = 1)\n"),
        ([".activate r(I = 1)", ".deactivate r"], ".deactivate r\n"),
        ([".deactivate r", ".activate r(I = 1)"], ".activate r(I = 1)\n"),
        ([".activate r(I = 1)", ".activate r(I = 2)", ".deactivate r(I = 1)"], ".activate r(I = 2)\n"),
        ([".activate r(I = 1)", ".deactivate r(I = 1)"], ".deactivate r\n"),
        ([".deactivate r(I = 1)"], ".deactivate r(I = 1)\n"),
        ([".activate r(I = 1)", ".activate r(I = true)"], ".activate r(I = 1)\n.activate r(I = true)\n"),
        (['.activate r(I = 1, J = "a")', '.activate r(J = "a", I = 1)'], '.activate r(I = 1, J = "a")\n'),
        ([".activate r(I = 1)\n.activate q", ".deactivate q"], ".activate r(I = 1)\n.deactivate q\n"),
    ],
)
def test_the_text_does_not_grow(texts: list[str], left: str) -> None:
    assert after(*texts) == left
    assert after("\n".join(texts)) == left


def test_a_rule_that_is_defined_again_is_active_for_all() -> None:
    assert after(".activate r(I = 1)", RULE) == ""
    assert after(".activate r(I = 1)", RULE + ".activate r(I = 2)") == ".activate r(I = 2)\n"


def test_a_rule_is_taken_out_with_its_activations() -> None:
    program = without(parse(RULE + ".activate r(I = 1)\n.decl low(i: number)"), "r")
    assert print_program(program) == ".decl low(i: number)\n"
