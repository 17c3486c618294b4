"""Closures: recursion over a binary view in which one column stays as it is and the other follows the rows of a
relation. Each value of the column that stays is computed by a walk of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from upshot.core.schema import Schema
from upshot.core.types import Kind
from upshot.plan.program_plan import ComponentPlan
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Term, Variable

_KINDS = frozenset({Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP})
"""Columns of these kinds are equal where their codes are."""


@dataclass(frozen=True, slots=True)
class Edges:
    """The rows of a relation as edges from one of its two columns to the other."""

    relation: str
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The rows of `view` are those that its rules without recursion give, and from each row those that differ in the
    column other than `pivot`, where it has an edge to a value. The view itself is its relation of edges where its rule
    is not linear."""

    view: str
    pivot: int
    edges: tuple[Edges, ...]

    def __str__(self) -> str:
        names = " and ".join(f"`{each.relation}`" for each in self.edges)
        return f"computed by a walk over {names} for each value of column {self.pivot + 1}"


def walk_of(component: ComponentPlan, schemas: Mapping[str, Schema]) -> Walk | None:
    """The walk that computes the view of a component, if its recursion is one.

    `p(X, Y) :- p(X, Z), e(Z, Y)` walks forward from each `X`, `p(X, Y) :- e(X, Z), p(Z, Y)` backward from each `Y`, and
    `p(X, Y) :- p(X, Z), p(Z, Y)` over the rows that rules without recursion give.
    """
    if len(component.views) != 1 or not component.recursive:
        return None
    view = component.views[0]
    found: dict[tuple[int, Edges], None] = {}
    for clause in component.clauses:
        if aggregate_of(clause) is not None:
            return None
        atoms = [each for each in clause.body if isinstance(each, Atom)]
        if not any(each.relation == view for each in atoms):
            continue
        if len(clause.body) != 2 or len(atoms) != 2:
            return None
        step = _step(view, clause.head, atoms[0], atoms[1]) or _step(view, clause.head, atoms[1], atoms[0])
        if step is None:
            return None
        found[step] = None
    pivots = {pivot for pivot, _ in found}
    edges = tuple(edges for _, edges in found)
    is_mixed = len(edges) > 1 and any(each.relation == view for each in edges)
    if len(pivots) != 1 or is_mixed or not _is_plain(view, edges, schemas):
        return None
    return Walk(view, pivots.pop(), edges)


def _step(view: str, head: Atom, own: Atom, other: Atom) -> tuple[int, Edges] | None:
    """The pivot and the edges of a rule `head :- own, other`, in whichever order its literals stand."""
    if own.relation != view or len(head.args) != 2 or len(other.args) != 2:
        return None
    for pivot in (0, 1):
        kept, moved, middle = head.args[pivot], head.args[1 - pivot], own.args[1 - pivot]
        names = [_name(term) for term in (kept, moved, middle)]
        if None in names or len(set(names)) < 3 or _name(own.args[pivot]) != names[0]:
            continue
        # The rows of non-recursive rules replace the view only where the view is composed with itself.
        for source in (0, 1) if other.relation != view else (pivot,):
            if [_name(other.args[source]), _name(other.args[1 - source])] == [names[2], names[1]]:
                return pivot, Edges(other.relation, source, 1 - source)
    return None


def _name(term: Term) -> str | None:
    return term.name if isinstance(term, Variable) else None


def _is_plain(view: str, edges: tuple[Edges, ...], schemas: Mapping[str, Schema]) -> bool:
    """Test whether values that are equal have one code, in all columns that a walk compares."""
    schema = schemas[view]
    columns = [*schema.types, *(type for each in edges for type in schemas[each.relation].types)]
    return schema.lattice is None and all(type.kind in _KINDS and not type.nullable for type in columns)
