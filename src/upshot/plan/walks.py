"""Recognize closures: recursive views in which one column follows the edges of a relation and all others are kept. Each
combination of values of the kept columns is computed by one walk over the edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from upshot.core.schema import Schema
from upshot.core.types import Kind
from upshot.plan.program_plan import ComponentPlan
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Term, Variable

_KINDS = frozenset({Kind.NUMBER, Kind.UNSIGNED, Kind.SYMBOL, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP})
"""Values of these kinds are equal if and only if their codes are."""


@dataclass(frozen=True, slots=True)
class Edges:
    """The rows of a relation as edges from column `source` to column `target`. The other columns, `carried`, equal the
    carried columns of the walk, in the same order."""

    relation: str
    source: int
    target: int
    carried: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Walk:
    """The rows of `view` are those of its rules without recursion and, for each row, the rows that an edge leads to:
    they differ in the column `moving`; all other columns are `kept`. The columns `carried`, some of the kept ones,
    equal those of the edge. If the rule is not linear, the view itself is the relation of edges."""

    view: str
    moving: int
    kept: tuple[int, ...]
    edges: tuple[Edges, ...]
    carried: tuple[int, ...] = ()

    def __str__(self) -> str:
        names = " and ".join(f"`{each.relation}`" for each in self.edges)
        columns = f"column{'s' * (len(self.kept) > 1)} {' and '.join(str(each + 1) for each in self.kept)}"
        return f"computed by a walk over {names} for each value of {columns}"


@dataclass(frozen=True, slots=True)
class _Extension:
    """One step of a walk: the column `moving` follows `edges`; the carried columns equal those of the edge."""

    moving: int
    carried: tuple[int, ...]
    edges: Edges


def walk_of(component: ComponentPlan, schemas: Mapping[str, Schema]) -> Walk | None:
    """The walk that computes the view of a component, if it is a closure.

    `p(X, Y) :- p(X, Z), e(Z, Y)` walks forward from each `X`, `p(X, Y) :- e(X, Z), p(Z, Y)` backward from each `Y`, and
    `p(X, Y) :- p(X, Z), p(Z, Y)` over the rows of the rules without recursion. A label of both rows and edges, as in
    `p(X, Y, L) :- p(X, Z, L), e(Z, Y, L)`, is a carried column.
    """
    if len(component.views) != 1 or not component.recursive:
        return None
    view = component.views[0]
    found: dict[_Extension, None] = {}
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
    edges = tuple(step.edges for step in found)
    is_mixed = len(edges) > 1 and any(each.relation == view for each in edges)
    columns = {(step.moving, step.carried) for step in found}
    if len(columns) != 1 or is_mixed or not _is_plain(view, edges, schemas):
        return None
    moving, carried = columns.pop()
    kept = tuple(each for each in range(schemas[view].arity) if each != moving)
    return Walk(view, moving, kept, edges, carried)


def _step(view: str, head: Atom, own: Atom, other: Atom) -> _Extension | None:
    """The extension that a rule `head :- own, other` makes, in either order of its literals."""
    if own.relation != view:
        return None
    names, own_names, other_names = ([_name(term) for term in atom.args] for atom in (head, own, other))
    moved = [column for column, name in enumerate(names) if own_names[column] != name]
    if len(names) < 2 or len(moved) != 1 or None in names:
        return None
    moving = moved[0]
    middle, target = own_names[moving], names[moving]
    if middle is None or len({middle, *names}) != len(names) + 1 or target in own_names:
        return None
    # Each column of an edge is its source, its target, or a kept column of the row, and none occurs twice.
    known = {middle, *names}
    if None in other_names or not {middle, target} <= set(other_names) <= known:
        return None
    if len(set(other_names)) != len(other_names):
        return None
    carried = tuple(column for column, name in enumerate(names) if column != moving and name in other_names)
    edges = Edges(
        other.relation,
        other_names.index(middle),
        other_names.index(target),
        tuple(other_names.index(names[column]) for column in carried),
    )
    if other.relation == view and not _is_composed(edges, moving, carried):
        return None
    return _Extension(moving, carried, edges)


def _is_composed(edges: Edges, moving: int, carried: tuple[int, ...]) -> bool:
    """Test whether a view is composed with itself: then the rows of its rules without recursion can be its edges."""
    return edges.target == moving and edges.carried == carried


def _name(term: Term) -> str | None:
    return term.name if isinstance(term, Variable) else None


def _is_plain(view: str, edges: tuple[Edges, ...], schemas: Mapping[str, Schema]) -> bool:
    """Test whether equal values have one code in all columns that a walk compares."""
    schema = schemas[view]
    columns = [*schema.types, *(type for each in edges for type in schemas[each.relation].types)]
    return schema.lattice is None and all(type.kind in _KINDS and not type.nullable for type in columns)
