"""Aggregates as the search reads them: a view of groups and values, folded from the rows of one relation.

In normal form every aggregate is a view of its own, `total(G…, V) :- rows(G…, _…), V = sum T : { rows(G…, T, …) }`: a
row for each group that has rows, and none for a group that has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.revise.request import Row
from upshot.rewrite.shapes import aggregate_of, conjunction
from upshot.syntax.ast import Atom, Constant, Variable

COUNT = "count"


@dataclass(frozen=True, slots=True)
class Fold:
    """`view` has the groups, which are the first `width` columns, and the values of a `function` of the rows of
    `below`. What is folded is the column `target` of them, or the same `constant` for each; of neither, rows count."""

    view: str
    below: str
    function: str
    width: int
    type: Type
    target: int | None = None
    constant: Any = None

    def group(self, row: Row) -> Row:
        return row[: self.width]

    def folded(self, row: Row) -> Any:
        """What a row adds to the fold; None if nothing."""
        if self.function == COUNT:
            return 1
        return self.constant if self.target is None else row[self.target]


def fold_of(clause: Clause, schemas: Mapping[str, Schema]) -> Fold | None:
    """The fold that a clause in normal form is, if it is one."""
    aggregate = aggregate_of(clause)
    if aggregate is None:
        return None
    (inner,) = conjunction(aggregate.body)
    assert isinstance(inner, Atom), "an aggregate folds the rows of one relation"
    view, width = clause.head.relation, len(clause.head.args) - 1
    assert inner.args[:width] == clause.head.args[:width], "the group comes first"
    type = schemas[view].columns[-1].type
    match aggregate.target:
        case Variable() as variable:
            return Fold(view, inner.relation, aggregate.function, width, type, inner.args.index(variable))
        case Constant(value):
            return Fold(view, inner.relation, aggregate.function, width, type, None, value)
        case _:
            return Fold(view, inner.relation, aggregate.function, width, type)
