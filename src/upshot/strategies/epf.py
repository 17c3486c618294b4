"""Propagation and filtration: potential changes, each tested in the other state before it is propagated.
[Harrison & Dietrich 1994]

A potential addition is derived in the new state from an addition below it (or, through a negation, a removal); it is an
addition unless it can be proven in the old state. Removals are symmetric. Disqualified rows are never propagated. The
answers found in each state are memo tables: a potential addition is added to those of the new state, a potential
removal to those of the old one, and known rows are not queried again. Potential changes are filtered when all queries
of the propagation are answered: rows found by them need no proof.
"""

from __future__ import annotations

from upshot.rewrite.changes.change_rules import DERIVED_IN, add_group_changes, add_net_rule, differentials
from upshot.rewrite.demand.demand import FILTERING, IN_BODIES, DemandBuilder, DerivedRule
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.strategy import DemandRules, Procedure, Stores, Strategy, Verdict, ViewShape
from upshot.syntax.ast import Atom


def add_epf(demand: DemandBuilder, layer: tuple[str, ...]) -> None:
    """Add the propagation and filtration rules of one stratum; those of the strata below must be present."""
    for view in layer:
        for clause in demand.clauses[view]:
            if aggregate_of(clause) is not None:
                add_group_changes(demand, clause)
        if not demand.is_aggregate(view):
            for sign in ("plus", "minus"):
                if demand.is_needed(view, sign):
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
        add_net_rule(demand, view, sign, potential, name="F", query_gate=demand.gate(view, FILTERING))
        demand.add("K", Atom(demand.name(view, state), row), (Atom(potential, row),), types)


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.folds or shape.best:
        return None
    if shape.stored:
        reason = "would store nothing, and prove every change from the base rows; `materialized=false` requests it"
        return Verdict(2, reason)
    return Verdict(9, "each row that may change is proven once; unchanged rows do not propagate")


STRATEGY = Strategy(
    name="epf",
    procedure=Procedure.DEMAND,
    stores=Stores.NOTHING,
    demand=DemandRules(add_epf),
    verdict=_verdict,
)
