"""Views that compose with themselves, asked for one row at a time: each step of a proof reads an exit row."""

from __future__ import annotations

from collections.abc import Mapping

from upshot.check.program import CheckedProgram
from upshot.rewrite.demand.linearize import linearize


def linear_views(program: CheckedProgram, strategies: Mapping[str, str]) -> tuple[CheckedProgram, Mapping[str, str]]:
    """The program with the composition rules of its unstored views made linear, and the strategies of all its unstored
    views.

    A closure over itself asks for the rows of every pair in between. Linear, a question about one value asks for no
    more than what that value reaches; and a constant can be pushed down into it.
    """
    for layer in program.strata:
        if len(layer) == 1 and layer[0] in strategies:
            made = linearize(program, layer[0])
            if made.program is not None:
                program = made.program
                strategies = {**strategies, **({made.exits: strategies[layer[0]]} if made.exits else {})}
    return program, strategies
