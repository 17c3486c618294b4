"""Selections of a view: `closure("a", Y)` is the part of `closure` whose first column is "a".

A selection has whole rows of its view. One lookup per changed row finds the selections that contain it, however many
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from upshot.check import check_query
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.service.wire.errors import RequestError
from upshot.syntax import parse_query
from upshot.syntax.ast import Atom, Constant, Variable, Wildcard

S = TypeVar("S")

LONGEST_TEXT = 4_096
"""The longest `where`, in characters."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of `view` with these values in these columns, and one value, not NULL, in each group of columns of `same`.

    >>> from upshot.core.schema import Column
    >>> from upshot.core.types import NUMBER
    >>> schemas = {"edge": Schema("edge", (Column("x", NUMBER), Column("y", NUMBER)))}
    >>> selection("edge", "edge(1, Y)", schemas)
    Selection(view='edge', columns=(0,), values=(1,), same=(), hidden=0)
    """

    view: str
    columns: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()
    same: tuple[tuple[int, ...], ...] = ()
    hidden: int = 0
    """The number of leading columns that are hidden: the parameters of a live query."""

    def holds(self, row: Row) -> bool:
        """Test whether the selection contains the row."""
        return all(
            row[column] == value for column, value in zip(self.columns, self.values, strict=True)
        ) and self.repeats(row)

    def repeats(self, row: Row) -> bool:
        """Test whether the row has equal values where one variable is repeated."""
        return all(row[group[0]] is not None and len({row[column] for column in group}) == 1 for group in self.same)

    def of(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that the selection contains."""
        return [row for row in rows if self.holds(row)]

    def query(self, arity: int) -> tuple[str, dict[str, Any]]:
        """A query for the values of the free columns, and its parameters."""
        terms = [f"V{column}" for column in range(arity)]
        for group in self.same:
            for column in group:
                terms[column] = f"V{group[0]}"
        for column in self.columns:
            terms[column] = f"$c{column}"
        return f"{self.view}({', '.join(terms)})", {f"c{c}": v for c, v in zip(self.columns, self.values, strict=True)}

    def free_columns(self, arity: int) -> list[int]:
        """The columns of the answers to `query`: those without a constant, and the first of each group in `same`."""
        repeated = {column for group in self.same for column in group[1:]}
        return [column for column in range(arity) if column not in self.columns and column not in repeated]

    def whole(self, answers: Iterable[Row], arity: int) -> list[Row]:
        """The rows for answers to `query`."""
        first = {column: group[0] for group in self.same for column in group}
        order = self.free_columns(arity)
        places = {
            column: order.index(first.get(column, column)) for column in range(arity) if column not in self.columns
        }
        fixed = dict(zip(self.columns, self.values, strict=True))
        return [
            tuple(fixed[column] if column in fixed else answer[places[column]] for column in range(arity))
            for answer in answers
        ]


def selection(view: str, where: str | None, schemas: Mapping[str, Schema]) -> Selection:
    """The selection of a `where`: one literal of the view, with constants, variables and `_`. None is the whole view.
    Raises `ProgramError` if the literal does not fit the columns."""
    if where is None:
        return Selection(view)
    if len(where) > LONGEST_TEXT:
        raise _refused(view, f"the selection has more than {LONGEST_TEXT:,} characters")
    formula = parse_query(where)
    if not isinstance(formula, Atom) or formula.relation != view or formula.state:
        raise _refused(view, f"a selection of `{view}` must be one literal")
    if not all(isinstance(term, Constant | Variable | Wildcard) for term in formula.args):
        raise _refused(view, "a selection may use only constants, variables and `_`")
    _, clauses = check_query(formula, {view: schemas[view]}, {})
    (atom,) = clauses[0].body
    assert isinstance(atom, Atom), "checked literals stay literals"
    fixed = {place: term.value for place, term in enumerate(atom.args) if isinstance(term, Constant)}
    groups: dict[str, list[int]] = {}
    for place, term in enumerate(formula.args):
        if isinstance(term, Variable):
            groups.setdefault(term.name, []).append(place)
    same = tuple(tuple(group) for group in groups.values() if len(group) > 1)
    return Selection(view, tuple(fixed), tuple(fixed.values()), same)


def _refused(view: str, message: str) -> RequestError:
    return RequestError(400, "bad-selection", message, help=f'as in `?where={view}("a",Y)`')


@dataclass(slots=True)
class SelectionIndex(Generic[S]):
    """The selections of a view, indexed by their constants."""

    _patterns: dict[tuple[int, ...], dict[Row, list[tuple[Selection, S]]]] = field(default_factory=dict)

    def add(self, selection: Selection, listener: S) -> None:
        self._patterns.setdefault(selection.columns, {}).setdefault(selection.values, []).append((selection, listener))

    def remove(self, selection: Selection, listener: S) -> None:
        bound = self._patterns[selection.columns]
        others = [each for each in bound[selection.values] if each[1] is not listener]
        if others:
            bound[selection.values] = others
            return
        del bound[selection.values]
        if not bound:
            del self._patterns[selection.columns]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def listeners(self) -> Iterator[S]:
        for bound in self._patterns.values():
            for listed in bound.values():
                yield from (listener for _, listener in listed)

    def affected(self, inserted: Sequence[Row], deleted: Sequence[Row]) -> list[tuple[S, list[Row], list[Row]]]:
        """For each listener of a selection that changes, the inserted and deleted rows."""
        found: dict[int, tuple[S, list[Row], list[Row]]] = {}
        for columns, bound in self._patterns.items():
            listed = bound.get(()) if not columns else None
            if listed and all(not selection.same for selection, _ in listed):
                for _, listener in listed:
                    found[id(listener)] = (listener, list(inserted), list(deleted))
                continue
            for side, rows in ((1, inserted), (2, deleted)):
                for row in rows:
                    for selection, listener in bound.get(tuple(row[column] for column in columns), ()):
                        if selection.repeats(row):
                            entry = found.setdefault(id(listener), (listener, [], []))
                            shown = row[selection.hidden :] if selection.hidden else row
                            entry[side].append(shown)  # type: ignore[union-attr]
        return list(found.values())
