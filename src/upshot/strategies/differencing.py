"""Partial differencing: each occurrence of an influent in a view's rules has one differential driven by its insertions
and one driven by its deletions. [Sköld & Risch 1996]

Insertions are derived in the new state, deletions in the old one. A view whose rows can have several derivations
reports an inserted row only if it was not in the old state, and a deleted row only if it is not in the new one (strict
semantics). A view that no other view reads may skip this test (nervous semantics): it also reports rows that were, or
still are, in the view. Gates follow the levels of the network, and every differential waits for its gate: one wave
upward.
"""

from __future__ import annotations

from upshot.rewrite.changes.change_rules import DERIVED_IN, OPPOSITE, add_group_changes, add_net_rule, differentials
from upshot.rewrite.demand.demand import IN_BODIES, NETTING, DemandBuilder, DemandProgram, DerivedRule
from upshot.rewrite.demand.demand_listing import list_demand
from upshot.rewrite.listing import RuleListing
from upshot.rewrite.normalize.operators import is_exact
from upshot.rewrite.shapes import is_recursive
from upshot.strategies.epf import add_epf
from upshot.strategies.strategy import DemandRules, Procedure, Stores, Strategy, Verdict, ViewShape
from upshot.syntax.ast import Atom, Not

MARK = {"plus": "+", "minus": "-"}


def add_differencing(demand: DemandBuilder, layer: tuple[str, ...]) -> None:
    """Add the differentials of one node; those of the nodes below must be present. A recursive component is one node,
    which `epf` maintains."""
    if is_recursive(demand.program, layer):
        add_epf(demand, layer)
        return
    (view,) = layer
    if demand.is_aggregate(view):
        add_group_changes(demand, demand.clauses[view][0])
        return
    nervous = demand.is_nervous(view)
    for sign in ("plus", "minus"):
        if demand.is_needed(view, sign) and _add_sign(demand, view, sign) and not is_exact(demand.clauses[view]):
            candidates = demand.name(view, _candidates(sign))
            if nervous:
                _cancel(demand, view, sign)
            else:
                add_net_rule(demand, view, sign, candidates, name="F")


def _candidates(sign: str) -> str:
    return f"{sign}_candidate"


def _add_sign(demand: DemandBuilder, view: str, sign: str) -> bool:
    """Add one rule per influent; return whether there is any."""
    found = False
    state = sign if is_exact(demand.clauses[view]) else _candidates(sign)
    for clause in demand.clauses[view]:
        for each in differentials(demand, clause, sign):
            found = True
            head, read = Atom(demand.name(view, state), clause.head.args), demand.state(DERIVED_IN[sign])
            gate = demand.gate(view, IN_BODIES)
            derived = DerivedRule(f"{MARK[sign]}{each.number}", head, clause, read, gate, waits=True)
            demand.derive(derived, each.driver, each.rest)
    return found


def _cancel(demand: DemandBuilder, view: str, sign: str) -> None:
    """Remove rows that are among both the insertions and the deletions: they are in both states."""
    row, types = demand.row(view), demand.row_types(view)
    mine, other = (Atom(demand.name(view, _candidates(each)), row) for each in (sign, OPPOSITE[sign]))
    demand.add(
        "C", Atom(demand.name(view, sign), row), (mine, Not(other)), types, gate=demand.gate(view, NETTING), rows={0, 1}
    )


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.stored:
        return None
    return Verdict(3, "would work level by level: it pays when many conditions share what lies below them")


def _listing(demand: DemandProgram, view: str | None) -> RuleListing:
    """The rules with the level of each view in the network."""
    return list_demand(demand, view, level=demand.program)


STRATEGY = Strategy(
    name="differencing",
    procedure=Procedure.DEMAND,
    stores=Stores.NOTHING,
    demand=DemandRules(add_differencing, unfolds=True, can_be_nervous=True, listing=_listing),
    verdict=_verdict,
)
