"""The levels of the propagation network: the distance of each relation from the base relations. [Sköld & Risch 1996]"""

from __future__ import annotations

from upshot.check.program import CheckedProgram
from upshot.rewrite.shapes import atoms_of


def levels(program: CheckedProgram) -> dict[str, int]:
    """The level of every relation: 0 if no rule defines it, else one more than the highest that its rules read."""
    found = dict.fromkeys(program.schemas, 0)
    read: dict[str, set[str]] = {name: set() for name in program.schemas}
    for clause in program.clauses:
        read[clause.head.relation].update(atom.relation for _, atom, _ in atoms_of(clause))
    for layer in program.strata:
        below = {name for view in layer for name in read[view]}.difference(layer)
        found.update(dict.fromkeys(layer, 1 + max((found[name] for name in below), default=0)))
    return found
