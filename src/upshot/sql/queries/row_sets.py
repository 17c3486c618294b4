"""The rows of queries: unions, and views of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from upshot.check.names.variables import fresh_name
from upshot.core.types import NUMBER, Type
from upshot.sql.expressions.coercion import coerced, common_type
from upshot.sql.expressions.values import Value, plain
from upshot.sql.translation import Branch, Translation
from upshot.syntax.ast import Call, Comparison, Constant
from upshot.values.functions import RANGE


@dataclass(frozen=True, slots=True)
class RowSet:
    """The rows of a query: the names of its columns, and branches. Different branches may have equal rows."""

    names: tuple[str, ...]
    branches: tuple[Branch, ...]

    def types(self, translation: Translation) -> list[Type]:
        found: list[Type] = []
        for place, name in enumerate(self.names):
            type = next((b.values[place].type for b in self.branches if b.values[place].type is not None), None)
            if type is None:
                translation.statement.refuse(
                    "sql-type", f"column `{name}` is NULL and has no type", help="write CAST(NULL AS …) for its type"
                )
            found.append(type)
        return found


@dataclass(frozen=True, slots=True)
class Stored:
    """A query as a view; the last `hidden` columns distinguish equal rows."""

    relation: str
    names: tuple[str, ...]
    hidden: int


def as_view(translation: Translation, rows: RowSet, purpose: str) -> Stored:
    """The rows as a view, with hidden columns that distinguish equal rows."""
    types, extra = rows.types(translation), identity_types(rows)
    width = len(extra)
    taken: list[str] = []
    for name in (*rows.names, *(f"row_{place}" for place in range(1, width + 1))):
        taken.append(fresh_name(name, taken))
    branches = [replace(b, values=(*b.values, *b.identity), identity=()) for b in rows.branches]
    relation = translation.view(purpose, taken, [*types, *extra], branches)
    return Stored(relation, rows.names, width)


def identity_types(rows: RowSet) -> list[Type]:
    """The types of the values that distinguish equal rows."""
    found: list[Type] = []
    for place in range(len(rows.branches[0].identity)):
        types = (branch.identity[place].type for branch in rows.branches)
        found.append(next((type for type in types if type is not None), NUMBER))
    return found


def all_of(translation: Translation, found: Stored) -> RowSet:
    """All rows of a view."""
    source = translation.source(found.relation, "", found.names, found.hidden)
    return RowSet(found.names, (Branch((source.atom(),), tuple(plain(c.term, c.type) for c in source.columns)),))


def repeated(translation: Translation, found: Stored, names: tuple[str, ...]) -> RowSet:
    """The rows of a view, with as many copies as its last column; the number of a copy distinguishes it."""
    source = translation.source(found.relation, "", found.names, found.hidden)
    *columns, times = source.columns
    values, copy = tuple(plain(c.term, c.type) for c in columns), translation.variable("copy")
    numbered = Comparison("=", copy, Call(RANGE, (Constant(0), times.term)))
    branch = Branch((source.atom(), numbered), values, (plain(copy, NUMBER),))
    made = as_view(translation, RowSet(names, (branch,)), "copies")
    rows = translation.source(made.relation, "", names, made.hidden)
    identity = tuple(plain(variable, type) for variable, type in rows.identity())
    return RowSet(names, (Branch((rows.atom(),), tuple(plain(c.term, c.type) for c in rows.columns), identity),))


def united(translation: Translation, parts: Sequence[RowSet], node: exp.Expression, *, bag: bool) -> RowSet:
    """The rows of all parts; with `bag`, the number of the branch distinguishes equal rows."""
    alike = aligned(translation, parts, node)
    branches = [branch for rows in alike for branch in rows.branches]
    if bag:
        every = [branch.identity for branch in branches]
        made = []
        for place, branch in enumerate(branches):
            identity: list[Value] = [plain(Constant(place), NUMBER)]
            for other, values in enumerate(every):
                identity += values if other == place else [plain(Constant(None), _nullable(v)) for v in values]
            made.append(replace(branch, identity=tuple(identity)))
        branches = made
    return RowSet(alike[0].names, tuple(branches))


def _nullable(value: Value) -> Type:
    return (value.type or NUMBER).optional()


def aligned(translation: Translation, parts: Sequence[RowSet], node: exp.Expression) -> list[RowSet]:
    """The parts with their columns converted to common types."""
    widths = {len(rows.names) for rows in parts}
    if len(widths) > 1:
        listed = " and ".join(str(len(rows.names)) for rows in parts)
        translation.statement.refuse(
            "wrong-arity",
            f"the queries have different numbers of columns: {listed}",
            node,
            help="select the same number of columns",
        )
    values = [[branch.values for rows in parts for branch in rows.branches]]
    types = [
        common_type(translation.statement, column, [node] * len(column))
        for column in ([row[place] for row in values[0]] for place in range(widths.pop()))
    ]
    return [
        RowSet(rows.names, tuple(_coerced(translation, branch, types, node) for branch in rows.branches))
        for rows in parts
    ]


def _coerced(translation: Translation, branch: Branch, types: Sequence[Type | None], node: exp.Expression) -> Branch:
    values = tuple(
        coerced(translation.statement, value, type, node) for value, type in zip(branch.values, types, strict=True)
    )
    return replace(branch, values=values)


def typed_like(
    translation: Translation, parts: Sequence[RowSet], types: Sequence[Type], node: exp.Expression
) -> list[Branch]:
    """The branches of all parts, with the types of the first part."""
    found = [branch for rows in aligned(translation, parts, node) for branch in rows.branches]
    for place, type in enumerate(types):
        for branch in found:
            other = branch.values[place].type
            if other is not None and (other.kind, other.scale) != (type.kind, type.scale):
                translation.statement.refuse(
                    "type-mismatch",
                    f"column {place + 1} of the recursion has two types: `{type.required()}` and `{other.required()}`",
                    node,
                    help="cast the first to the type of the second",
                )
    return found
