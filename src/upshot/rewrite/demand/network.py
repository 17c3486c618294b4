"""The propagation network: which relation influences which, and at what distance from the base relations.
[Sköld & Risch 1996]"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from upshot.check.program import CheckedProgram
from upshot.rewrite.shapes import atoms_of, is_recursive


@dataclass(frozen=True, slots=True)
class NetworkNode:
    """One view, or the views of a recursive component, which change together. `level` is the longest path from a
    relation that no rule defines; `influents` and `users` are the relations one edge below and above."""

    views: tuple[str, ...]
    level: int
    influents: tuple[str, ...]
    users: tuple[str, ...]
    recursive: bool


def network(program: CheckedProgram) -> tuple[NetworkNode, ...]:
    """The nodes in the order of the wave: level by level, ties in evaluation order."""
    users: dict[str, list[str]] = {name: [] for name in program.schemas}
    influents: dict[str, list[str]] = {name: [] for name in program.schemas}
    for clause in program.clauses:
        head = clause.head.relation
        for _, atom, _ in atoms_of(clause):
            users[atom.relation].append(head)
            influents[head].append(atom.relation)
    level = levels(program)
    nodes = [
        NetworkNode(
            layer,
            level[layer[0]],
            _outside(layer, [name for view in layer for name in influents[view]]),
            _outside(layer, [name for view in layer for name in users[view]]),
            is_recursive(program, layer),
        )
        for layer in program.strata
    ]
    return tuple(sorted(nodes, key=lambda node: node.level))


def _outside(layer: Collection[str], names: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name not in layer))


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
