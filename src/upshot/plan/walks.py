"""Closures: recursion over a view in which all columns but one stay as they are and that one follows the rows of a
relation. Each value of the columns that stay is computed by a walk of its own."""

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
    """The rows of a relation as edges from one of its columns to another. The other columns, `carried`, agree with
    those of the walk that carry the same name, in the order of the view's columns."""

    relation: str
    source: int
    target: int
    carried: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Walk:
    """The rows of `view` are those that its rules without recursion give, and from each row those that differ in the
    column `moving`, where it has an edge to a value; all others are `kept`. An edge is for the rows that have its
    values in the columns `carried`, which are some of them. The view itself is its relation of edges where its rule is
    not linear."""

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
    """One column of a row moves over edges; the carried columns are shared by both."""

    moving: int
    carried: tuple[int, ...]
    edges: Edges


def walk_of(component: ComponentPlan, schemas: Mapping[str, Schema]) -> Walk | None:
    """The walk that computes the view of a component, if its recursion is one.

    `p(X, Y) :- p(X, Z), e(Z, Y)` walks forward from each `X`, `p(X, Y) :- e(X, Z), p(Z, Y)` backward from each `Y`, and
    `p(X, Y) :- p(X, Z), p(Z, Y)` over the rows that rules without recursion give. A label that rows and edges have,
    `p(X, Y, L) :- p(X, Z, L), e(Z, Y, L)`, is carried along.
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
    ways = {(step.moving, step.carried) for step in found}
    if len(ways) != 1 or is_mixed or not _is_plain(view, edges, schemas):
        return None
    moving, carried = ways.pop()
    return Walk(view, moving, _others(schemas[view].arity, moving), edges, carried)


def _others(arity: int, column: int) -> tuple[int, ...]:
    return tuple(each for each in range(arity) if each != column)


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
    # Each column of an edge is its source, its target, or a column that the row keeps, and none is there twice.
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
    """Test whether a view is composed with itself: only then do the rows of its rules without recursion replace it."""
    return edges.target == moving and edges.carried == carried


def _name(term: Term) -> str | None:
    return term.name if isinstance(term, Variable) else None


def _is_plain(view: str, edges: tuple[Edges, ...], schemas: Mapping[str, Schema]) -> bool:
    """Test whether values that are equal have one code, in all columns that a walk compares."""
    schema = schemas[view]
    columns = [*schema.types, *(type for each in edges for type in schemas[each.relation].types)]
    return schema.lattice is None and all(type.kind in _KINDS and not type.nullable for type in columns)
