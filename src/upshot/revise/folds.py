"""Aggregates as the search reads them: a view of groups and values, folded from the rows of one relation.

In normal form every aggregate is a view of its own, `total(G…, V) :- rows(G…, _…), V = sum T : { rows(G…, T, …) }`: a
row for each group that has rows, and none for a group that has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upshot.check.program import Clause
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import NUMBER, Type
from upshot.reasons.concrete import ASKED, Question
from upshot.revise.request import Key, Row
from upshot.revise.world import World
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


@dataclass(slots=True)
class Groups:
    """Asks for the groups of a state."""

    schemas: Mapping[str, Schema]

    def value(self, world: World, fold: Fold, group: Row) -> Any:
        """What a group comes to in the staged state; None if it has no row in the view."""
        found = self._rows(world, fold.view, group)
        return found[0][-1] if found else None

    def rows(self, world: World, fold: Fold, group: Row) -> list[Row]:
        """The rows of a group in the staged state."""
        return self._rows(world, fold.below, group)

    def _rows(self, world: World, relation: str, group: Row) -> list[Row]:
        if None in group:
            return []  # NULL is equal to nothing, and no group
        rest = world.ask(self._question(relation, len(group)), [(0, *group)]).sorted()
        return [(*group, *row[1:]) for row in rest]

    def _question(self, relation: str, width: int) -> Question:
        columns = self.schemas[relation].columns
        names = [f"X{place}" for place in range(len(columns))]
        kinds = [c.type.required() if place < width else c.type for place, c in enumerate(columns)]
        types = {"N": NUMBER, **dict(zip(names, kinds, strict=True))}
        variables, number = tuple(map(Variable, names)), Variable("N")
        asked = Schema(ASKED, (Column("n", NUMBER), *(Column(f"c{i}", kinds[i]) for i in range(width))))
        name = f"group_of_{relation}_by_{width}"
        answer = (Column("n", NUMBER), *(Column(f"v{i}", kinds[i]) for i in range(width, len(kinds))))
        body = (Atom(ASKED, (number, *variables[:width])), Atom(relation, variables))
        return Question(
            Schema(name, answer, Role.VIEW), Clause(Atom(name, (number, *variables[width:])), body, types), asked
        )


def group_key(fold: Fold, group: Row, value: Any) -> Key:
    """The row of the view that says what a group comes to."""
    return fold.view, (*group, value)
