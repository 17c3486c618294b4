"""Auxiliary views that are kept by production rules because the views they serve are."""

from __future__ import annotations

from upshot.check.names.variables import atoms
from upshot.check.program import CheckedProgram


def served_by_production(checked: CheckedProgram, normal: CheckedProgram) -> dict[str, str]:
    """The views that normal form added and that only views with `strategy=production`, or such auxiliary views, use:
    so these rest on nothing but production rules. Each with a view that it serves."""
    readers: dict[str, set[str]] = {name: set() for name in normal.schemas}
    for clause in normal.clauses:
        for literal in clause.body:
            for atom in atoms(literal):
                readers[atom.relation].add(clause.head.relation)
    asked = {name for name, options in checked.options.items() if options.strategy == "production"}
    served: dict[str, str] = {}
    for layer in reversed(normal.strata):
        users = {user for view in layer for user in readers[view]} - set(layer)
        if users and users <= asked | served.keys() and checked.schemas.keys().isdisjoint(layer):
            served |= dict.fromkeys(layer, min(users))
    return served
