"""Algorithm 1: delete, rederive, insert (DRed). [Staudt & Jarke 1996, section 3.1]"""

from __future__ import annotations

from collections.abc import Collection

from upshot.check.program import CheckedProgram
from upshot.rewrite.listing import RuleListing
from upshot.strategies.maintenance_listing import list_maintenance
from upshot.strategies.maintenance_rules import (
    MaintenanceProgram,
    MaintenanceRule,
    RelationStates,
    ViewRules,
    assembled,
    rules_by_view,
)
from upshot.strategies.strategy import Generated, Procedure, Strategy, Verdict, ViewShape


def maintenance(program: CheckedProgram, views: Collection[str] | None = None) -> MaintenanceProgram:
    """The maintenance rules of some views of a normal-form program, of all views by default.

    All views that a view is mutually recursive with are included. Strata are layered: where a rule reads a view r of a
    lower stratum, the delta literal is `r_plus` or `r_minus`, so that only net changes propagate upward; the new state
    is `r_new`, defined by r's own rules if r is among the views, else as for a base relation from `r_plus` and
    `r_minus`. The changes of base relations are `r_ins` and `r_del`, which must be net: no idle insertion, no idle
    deletion.
    """
    states, inputs = RelationStates(program), set[str]()
    rules: list[MaintenanceRule] = []
    for made in rules_by_view(ViewRules, program, views, states):
        rules += made.aggregate(inputs) if made.is_aggregate else made.algorithm_1(inputs)
    return assembled(program, rules, states, by="maintenance")


def _generate(normal: CheckedProgram, views: Collection[str]) -> Generated:
    made = maintenance(normal, views)
    return Generated(made.rules, made.states)


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.folds:
        return None
    if not shape.stored:
        reason = "would store its rows, and compute least; `materialized=true` requests it"
        return Verdict(1, reason) if shape.recursive else None
    if shape.best:
        reason = "groups whose best row may have lost a derivation are derived again, and better rows replace others"
        return Verdict(9, reason)
    if shape.recursive:
        return Verdict(9, "recursive: over-delete, rederive, insert compute only rows that may change")
    if shape.multiplies:
        reason = "an aggregate beside rows that are projected away: a new value changes a derivation for each of them"
        return Verdict(9, reason)
    return Verdict(3, "would have to search other derivations of every deleted row")


def _listing(normal: CheckedProgram, view: str | None) -> RuleListing:
    return list_maintenance(maintenance(normal), view)


STRATEGY = Strategy(
    name="maintenance",
    procedure=Procedure.FIXPOINTS,
    stages=("delete", "rederive", "insert"),
    adds="insert",
    rank=3,
    generate=_generate,
    verdict=_verdict,
    follows_rules=True,
    keeps_best=True,
    listing=_listing,
)
