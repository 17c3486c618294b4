"""Aggregate views: one row per group, from running totals if the aggregate allows. Engines fold the groups, so there
are no rules."""

from __future__ import annotations

from upshot.strategies.names import AGGREGATE
from upshot.strategies.strategy import Procedure, Stores, Strategy, Verdict, ViewShape


def _verdict(shape: ViewShape) -> Verdict | None:
    return Verdict(9, "an aggregate: kept per group, only changed groups are recomputed") if shape.folds else None


STRATEGY = Strategy(
    name=AGGREGATE,
    procedure=Procedure.GROUPS,
    stores=Stores.TOTALS,
    rank=1,
    verdict=_verdict,
)
