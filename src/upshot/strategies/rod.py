"""Algorithms 2 and 3: maintenance rules for views of which only the definition is stored. [Staudt & Jarke 1996, 3.2]

The rules are those of Algorithm 1; before a literal of a view, the literals to its left query exactly the old rows that
the join needs. The gates are the stages of the layered procedure: deletions first, then the new state, then the test
for idle insertions when the old state has been queried for every insertion.
"""

from __future__ import annotations

from upshot.check.program import Clause
from upshot.rewrite.changes.change_rules import add_group_changes, add_net_rule, differentials
from upshot.rewrite.demand.demand import (
    IN_BODIES,
    NETTING,
    OWN_STATE,
    STATE_ABOVE,
    DemandBuilder,
    DerivedRule,
    Read,
    RelationReading,
)
from upshot.rewrite.shapes import aggregate_of
from upshot.strategies.strategy import DemandRules, Procedure, Stores, Strategy, Verdict, ViewShape
from upshot.syntax.ast import Atom, Not


def add_rod(demand: DemandBuilder, layer: tuple[str, ...]) -> None:
    """Add the rules of one stratum; those of the strata below must be present."""
    for view in layer:
        for clause in demand.clauses[view]:
            if aggregate_of(clause) is not None:
                add_group_changes(demand, clause)
            else:
                _add_clause(demand, clause, layer)
        if not demand.is_aggregate(view):
            _add_states(demand, view)


def _add_clause(demand: DemandBuilder, clause: Clause, layer: tuple[str, ...]) -> None:
    view, old, new = clause.head.relation, demand.state("old"), _new_state(demand, layer)
    gate = demand.gate(view, IN_BODIES)
    for letter, sign, state, read in (("D", "minus", "del", old), ("I", "plus", "ins", new)):
        head = Atom(demand.name(view, state), clause.head.args)
        for each in differentials(demand, clause, sign, {"plus": "ins", "minus": "del"}, layer):
            demand.derive(DerivedRule(f"{letter}{each.number}", head, clause, read, gate), each.driver, each.rest)
    deleted = Atom(demand.name(view, "del"), clause.head.args)
    red = Atom(demand.name(view, "red"), clause.head.args)
    demand.derive(DerivedRule("R", red, clause, new, gate, frozenset({0})), deleted, clause.body)


def _add_states(demand: DemandBuilder, view: str) -> None:
    """Add N1 to N3, E1 and E2."""
    row, types = demand.row(view), demand.row_types(view)
    old, new, deleted, red, ins = (Atom(demand.name(view, state), row) for state in ("old", "new", "del", "red", "ins"))
    demand.add("N1", new, (old, Not(deleted)), types, gate=demand.gate(view, OWN_STATE), rows={0, 1})
    demand.add("N2", new, (red,), types)
    demand.add("N3", new, (ins,), types)
    add_net_rule(demand, view, "plus", ins.relation, name="E1")
    minus = Atom(demand.name(view, "minus"), row)
    demand.add(
        "E2", minus, (deleted, Not(ins), Not(red)), types, gate=demand.gate(view, NETTING), rows={0, 1, 2}
    )  # fmt: skip


def _new_state(demand: DemandBuilder, layer: tuple[str, ...]) -> Read:
    """Read the new state of a view as its old rows, which are queried, with its changes."""

    def read(relation: str) -> RelationReading:
        if relation in demand.stored:
            return RelationReading(demand.name(relation, "new"))
        if relation not in layer and not demand.is_unchanged(relation):
            _add_state_above(demand, relation)
        return RelationReading(demand.name(relation, "new"), "old")

    return read


def _add_state_above(demand: DemandBuilder, view: str) -> None:
    """`r_new :- r, !r_minus.` and `r_new :- r_plus.`"""
    row, types = demand.row(view), demand.row_types(view)
    old, new, plus, minus = (Atom(demand.name(view, state), row) for state in ("old", "new", "plus", "minus"))
    demand.add("N'", new, (old, Not(minus)), types, gate=demand.gate(view, STATE_ABOVE), rows={0, 1})
    demand.add("N''", new, (plus,), types)


def _verdict(shape: ViewShape) -> Verdict | None:
    if shape.stored:
        return None
    return Verdict(4, "would over-delete, and prove what stays: it pays for bulk deletions")


STRATEGY = Strategy(
    name="rod",
    procedure=Procedure.DEMAND,
    stores=Stores.NOTHING,
    demand=DemandRules(add_rod, reads_states=True),
    verdict=_verdict,
)
