"""Which gates of a demand program may open together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from upshot.check.names.variables import atoms
from upshot.plan.demand_plans import Group
from upshot.rewrite.demand.demand import DemandProgram, DemandRule


def waits_for(program: DemandProgram, groups: Sequence[Group]) -> dict[int, frozenset[int]]:
    """For each gate the lower ones whose rows must not be waiting when it opens: those whose rules lead, whatever other
    rules come in between, to a relation that its own rules read. All others have no say in what it finds."""
    onward: dict[str, set[str]] = {}
    for rule in program.rules:
        for name in _read(rule):
            onward.setdefault(name, set()).add(rule.clause.head.relation)
    gated = [(group.gate, (*group.rules, *group.folds)) for group in groups if group.gate is not None]
    reached = {gate: _reached({rule.clause.head.relation for rule in rules}, onward) for gate, rules in gated}
    read = {gate: {name for rule in rules for name in _read(rule)} for gate, rules in gated}
    return {
        gate: frozenset(lower for lower in reached if lower < gate and not reached[lower].isdisjoint(read[gate]))
        for gate in read
    }


def _read(rule: DemandRule) -> set[str]:
    return {atom.relation for literal in rule.clause.body for atom in atoms(literal)}


def _reached(start: Iterable[str], onward: Mapping[str, set[str]]) -> set[str]:
    found = set(start)
    waiting = list(found)
    while waiting:
        for name in onward.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found
