"""When the changes of a view may be forgotten: as the wave passes, not at the end. [Sköld & Risch 1996]"""

from __future__ import annotations

from upshot.check.names.variables import atoms
from upshot.rewrite.demand.demand import NETTING, Demand, DemandRule, Held


def last_reads(demand: Demand) -> dict[str, int]:
    """By relation of changes or steps towards them, the gate after which no rule reads it: when a higher one opens, its
    rows can go. Relations that rules read at any time are not among them: states, what was asked for, and what a state
    is made from; nor are those that no rule reads.

    A rule without a gate is done with a change before the net changes of the view that it works for are let through:
    what it asked for has been answered by then.
    """
    passing = _passing(demand)
    found: dict[str, int] = {}
    for rule in demand.rules:
        read = [atom.relation for literal in rule.clause.body for atom in atoms(literal)]
        if not read or read[0] not in passing:
            # Rows of states come whenever they are asked for.
            passing.difference_update(read)
    for rule in demand.rules:
        for literal in rule.clause.body:
            for atom in atoms(literal):
                if atom.relation in passing:
                    found[atom.relation] = max(found.get(atom.relation, 0), _done(demand, rule))
    return found


def _passing(demand: Demand) -> set[str]:
    """Changes of views and steps towards them; what answers a query is none of them."""
    found = {
        name
        for name, meaning in demand.relations.items()
        if meaning.held in (Held.NET, Held.PART) and meaning.relation not in demand.stored
    }
    grown = True
    while grown:
        answering = {
            rule.clause.head.relation
            for rule in demand.rules
            if rule.clause.head.relation in found and _answers(demand, rule, found)
        }
        found -= answering
        grown = bool(answering)
    return found


def _answers(demand: Demand, rule: DemandRule, passing: set[str]) -> bool:
    """Whether the rule is driven by what was asked for, or by a step of an answer."""
    for literal in rule.clause.body:
        for atom in atoms(literal):
            return demand.relations[atom.relation].held is not Held.CHANGE and atom.relation not in passing
    return True


def _done(demand: Demand, rule: DemandRule) -> int:
    """The gate at which the rule has nothing left to do."""
    if rule.gate is not None:
        return rule.gate
    view = demand.relations[rule.clause.head.relation].relation
    if rule.source is not None:
        view = rule.source.head.relation
    return demand.gate(view, NETTING)
