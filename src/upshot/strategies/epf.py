"""Propagation and filtration: potential changes, each proven in the other state before it goes on.
[Harrison & Dietrich 1994]

A potential addition is derived in the new state from an addition (or, through a negation, a removal) below it; it is
one unless it can be proven in the old state. Removals mirror that. What is disqualified is never propagated. The
answers found in each state are the memo tables: a potential addition enters that of the new state, a potential removal
that of the old one, and what is known there is not asked for again. A potential change is put to the filter when all
queries that propagation asks have been answered: what these found needs no proof of its own.
"""

from __future__ import annotations

from upshot.rewrite.changes.change_rules import DERIVED_IN, add_group_changes, add_net_rule, differentials
from upshot.rewrite.demand.demand import FILTERING, IN_BODIES, DemandBuilder, DerivedRule
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.strategy import DemandRules, Procedure, Stores, Strategy, Verdict, ViewShape
from upshot.syntax.ast import Atom


def add_epf(demand: DemandBuilder, layer: tuple[str, ...]) -> None:
    """The propagation and filtration rules of one stratum; those of the strata below must be there."""
    for view in layer:
        for clause in demand.clauses[view]:
            if aggregate_of(clause) is not None:
                add_group_changes(demand, clause)
        if not demand.is_aggregate(view):
            for sign in ("plus", "minus"):
                if demand.wants(view, sign):
                    _add_sign(demand, view, sign)


def _add_sign(demand: DemandBuilder, view: str, sign: str) -> None:
    potential = demand.name(view, f"{sign}_potential")
    state = DERIVED_IN[sign]
    found = False
    for clause in demand.clauses[view]:
        for each in differentials(demand, clause, sign):
            found = True
            head, gate = Atom(potential, clause.head.args), demand.gate(view, IN_BODIES)
            derived = DerivedRule(f"P{each.number}", head, clause, demand.state(state), gate)
            demand.derive(derived, each.driver, each.rest)
    if found:
        row, types = demand.row(view), demand.row_types(view)
        add_net_rule(demand, view, sign, potential, name="F", asked_behind=demand.gate(view, FILTERING))
        demand.add("K", Atom(demand.name(view, state), row), (Atom(potential, row),), types)


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.folds or shape.best:
        return None
    if shape.stored:
        told = "would store nothing, and prove every change from the base rows; `materialized=false` requests it"
        return Verdict(2, told)
    return Verdict(9, "each row that may change is proven once; unchanged rows do not propagate")


STRATEGY = Strategy(
    name="epf",
    procedure=Procedure.DEMAND,
    stores=Stores.NOTHING,
    demand=DemandRules(add_epf),
    verdict=_verdict,
)
