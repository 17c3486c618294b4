"""Recompute all rows and report the difference. It has no rules of its own."""

from __future__ import annotations

from collections.abc import Collection

from upshot.check.program import CheckedProgram
from upshot.strategies import maintenance
from upshot.strategies.strategy import Generated, Obstacle, Procedure, Strategy, Verdict, ViewShape


def _generate(normal: CheckedProgram, views: Collection[str]) -> Generated:
    """The rules of `maintenance`; a recursive view is loaded by its insertion rules."""
    return maintenance.STRATEGY.generate(normal, views)


def _obstacle(shape: ViewShape) -> Obstacle | None:
    if shape.policy in ("strict", "incremental"):
        problem = f"would be recomputed at every change, but its policy `{shape.policy}` forbids that"
        return Obstacle(problem, "leave `strategy=recompute` out, or use `policy=full`")
    return None


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.folds or not shape.stored:
        return None
    return Verdict(1, "costs as much as the view is large; `auto` uses it for even larger changes")


STRATEGY = Strategy(
    name="recompute",
    procedure=Procedure.WHOLE,
    stages=("load",),
    rank=6,
    generate=_generate,
    obstacle=_obstacle,
    verdict=_verdict,
    keeps_best=True,
    policy="full",
)
