"""ORDER BY with LIMIT and OFFSET in views: the rows up to the last one, whose sort key is an aggregate.

Rows that are equal in ORDER BY are sorted by the columns of the result, from left to right, ascending, NULL last; rows
that are equal in those, by the rows that they are derived from. So the result is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.schema import Column
from upshot.core.types import SYMBOL, Type
from upshot.sql.expressions.formulas import is_given, is_null
from upshot.sql.expressions.values import Case, Value, applied, call, plain
from upshot.sql.queries.block import Block
from upshot.sql.queries.row_sets import RowSet, as_view
from upshot.sql.queries.sources import Scope
from upshot.sql.queries.stages import staged
from upshot.sql.translation import Branch, Translation
from upshot.sql.trees import column_name, unwrapped
from upshot.sql.trouble import Statement
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Formula, Term, Variable

if TYPE_CHECKING:
    from upshot.sql.queries.queries import QueryReader

_FEW = 3
"""The most nullable sort columns whose NULL cases become rules, one for each combination."""

CLAUSES = ("order", "limit", "offset")


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A sort column, by its place, and its direction."""

    place: int
    descending: bool = False
    nulls_first: bool = False


def sort_column(node: exp.Expression, place: int = 0) -> SortColumn:
    """The column at the place with the direction of a part of ORDER BY; by default NULL is the greatest value."""
    descending, nulls_first = bool(node.args.get("desc")), node.args.get("nulls_first")
    return SortColumn(place, descending, descending if nulls_first is None else bool(nulls_first))


def limited(
    reader: QueryReader, translation: Translation, query: exp.Expression, around: Scope | None, *, bag: bool
) -> RowSet:
    """The rows of a query with ORDER BY, LIMIT or OFFSET; the order alone has no effect."""
    inner = query.copy()
    order, limit, offset = (inner.args.pop(key, None) for key in CLAUSES)
    statement = translation.statement
    count = row_count(statement, limit, translation.parameters, "LIMIT")
    skipped = row_count(statement, offset, translation.parameters, "OFFSET")
    width, sort = sort_columns(statement, inner, order)
    if count is None and not skipped:
        rows = reader.rows(translation, inner, around, bag=bag)
        return _narrowed(rows, width)
    rows = reader.rows(translation, inner, around, bag=True)
    shown = len(rows.names) - width
    sort += [SortColumn(place) for place in range(shown)]
    return _cut(translation, _Ordered(rows, shown, tuple(sort)), around, (count, skipped or 0), bag=bag)


def _narrowed(rows: RowSet, extra: int) -> RowSet:
    """The rows without the last columns, which were added for ORDER BY."""
    if not extra:
        return rows
    shown = len(rows.names) - extra
    return RowSet(rows.names[:shown], tuple(replace(b, values=b.values[:shown]) for b in rows.branches))


def row_count(
    statement: Statement, clause: exp.Expression | None, parameters: Mapping[str, Constant], word: str
) -> int | None:
    """The number of LIMIT, OFFSET, FETCH or VERSION AS OF; None without a clause, or for NULL."""
    if clause is None:
        return None
    node = clause.expression
    if isinstance(clause, exp.Fetch):
        options = clause.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            statement.unsupported("FETCH with PERCENT or TIES", clause, help="use FETCH FIRST n ROWS ONLY")
        node = clause.args.get("count") or exp.Literal.number(1)
    node = unwrapped(node)
    if isinstance(node, exp.Null) and not isinstance(clause, exp.Version):
        return None
    value: object = int(node.name) if isinstance(node, exp.Literal) and node.name.isdigit() else None
    if isinstance(node, exp.Placeholder) and node.name in parameters:
        value = parameters[node.name].value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        statement.refuse("sql-syntax", f"{word} needs a non-negative integer", clause, help=f"write {word} 10")
    return value


# ---- order --------------------------------------------------------------------------------------


def sort_columns(
    statement: Statement, query: exp.Expression, order: exp.Expression | None
) -> tuple[int, list[SortColumn]]:
    """The number of columns that are added to the query because only ORDER BY uses them, and all sort columns."""
    found: list[SortColumn] = []
    added: list[exp.Expression] = []
    nodes: list[tuple[exp.Expression, int | None]] = []
    for each in order.expressions if order is not None else []:
        node = unwrapped(each.this)
        place = sort_place(query, node)
        nodes.append((each, place))
        if place is None:
            countable = isinstance(query, exp.Select) and query.args.get("distinct") is None
            if not countable or isinstance(node, exp.Literal):
                statement.refuse(
                    "sql-order", f"`{statement.spelled(node)}` is not a column of the result", node,
                    help="order by a selected column, its name or its number",
                )  # fmt: skip
            added.append(node)
    if isinstance(query, exp.Select):
        for place, node in enumerate(added, start=1):
            query.append("expressions", exp.alias_(node.copy(), f"order_{place}", quoted=True))
    # The added columns are counted from the end, since `*` has as many columns as its tables.
    later = -len(added)
    for each, place in nodes:
        if place is None:
            place, later = later, later + 1
        found.append(sort_column(each, place))
    return len(added), found


def sort_place(query: exp.Expression, node: exp.Expression) -> int | None:
    """The place of the column that a part of ORDER BY refers to, by number, name or expression; None for any other
    expression."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    selected = query.expressions if isinstance(query, exp.Select) else []
    starred = any(each.is_star for each in selected)
    if isinstance(node, exp.Literal) and node.name.isdigit() and not node.is_string:
        place = int(node.name)
        return place - 1 if place >= 1 and (starred or place <= len(selected)) else None
    if starred:
        return None
    if isinstance(node, exp.Column) and node.args.get("table") is None:
        names = [column_name(each) for each in selected]
        named = [place for place, name in enumerate(names) if name is not None and _same(name, node.this)]
        if len(named) == 1:
            return named[0]
    alike = [place for place, each in enumerate(selected) if unwrapped(each) == node]
    return alike[0] if alike else None


def _same(name: exp.Identifier, other: exp.Expression) -> bool:
    quoted = name.args.get("quoted") and other.args.get("quoted")
    return name.name == other.name if quoted else name.name.lower() == other.name.lower()


# ---- the first rows -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Rows whose first `shown` columns are the result, and their sort columns."""

    rows: RowSet
    shown: int
    sort: tuple[SortColumn, ...]


def _cut(
    translation: Translation, ordered: _Ordered, around: Scope | None, bounds: tuple[int | None, int], *, bag: bool
) -> RowSet:
    count, skipped = bounds
    rows, names = ordered.rows, ordered.rows.names[: ordered.shown]
    types = rows.types(translation)[: ordered.shown]
    outer = translation.correlated(Scope(around), (node for branch in rows.branches for node in branch.nodes))
    stored = _stored(translation, ordered, outer, types)
    source = [translation.variable(name) for name in names]
    row_key = translation.variable("key")
    parts: list[Formula] = [Atom(stored, (*outer, *source, row_key))]
    columns = translation.schemas[stored].columns
    _refuse_null(translation, outer, columns[: len(outer)])
    values = tuple(
        plain(variable, column.type) for variable, column in zip(source, columns[len(outer) :], strict=False)
    )
    if count == 0:
        parts.append(Comparison("=", Constant(0), Constant(1)))
    for number, op in (((count or 0) + skipped if count is not None else 0, "<="), (skipped, ">")):
        if number:
            parts += _bound(translation, _Keys(stored, tuple(outer), len(names), row_key), number, op)
    identity = (plain(row_key, SYMBOL),) if bag else ()
    return RowSet(names, (Branch(tuple(parts), values, identity, rows.branches[0].span),))


def _stored(translation: Translation, ordered: _Ordered, outer: Sequence[Variable], types: Sequence[Type]) -> str:
    """A view of the rows with their sort key as the last column."""
    block = None
    if not outer and sum(value.nullable for b in ordered.rows.branches for value in (*b.values, *b.identity)) > _FEW:
        block, ordered = _over_view(translation, ordered)
    branches = []
    for branch in ordered.rows.branches:
        keys = [sort_key(branch.values[each.place], each) for each in ordered.sort]
        keys += [sort_key(value, SortColumn(0)) for value in branch.identity]
        own = [plain(variable, translation.type_of(variable)) for variable in outer]
        parts = translation.domain(outer, branch.parts)
        key = joined_keys(keys, block)
        parts = block.parts if block is not None else parts
        values = (*own, *branch.values[: ordered.shown], key)
        branches.append(Branch(parts, values, (), branch.span))
    names = [translation.variable(name).name for name in ordered.rows.names[: ordered.shown]]
    wide = [*(variable.name for variable in outer), *names, translation.variable("key").name]
    own_types = [translation.type_of(variable) for variable in outer]
    return translation.view("ordered", wide, [*own_types, *types, SYMBOL], branches)


def _over_view(translation: Translation, ordered: _Ordered) -> tuple[Block, _Ordered]:
    """The rows of a view of the rows."""
    stored = as_view(translation, ordered.rows, "unordered")
    source = translation.source(stored.relation, "", stored.names, stored.hidden)
    values = tuple(plain(column.term, column.type) for column in source.columns)
    identity = tuple(plain(v, t) for v, t in zip(source.hidden, source.hidden_types, strict=True))
    branch = Branch((source.atom(),), values, identity, ordered.rows.branches[0].span)
    rows = RowSet(ordered.rows.names, (branch,))
    return Block(translation, Scope(None, [source])), replace(ordered, rows=rows)


def _refuse_null(translation: Translation, outer: Sequence[Variable], columns: Sequence[Column]) -> None:
    for variable, column in zip(outer, columns, strict=True):
        if column.type.nullable and translation.type_of(variable).nullable:
            translation.statement.unsupported(
                f"LIMIT over rows that depend on the nullable `{variable.name}` in this way",
                help="add IS NOT NULL for that column to the inner query, or join instead",
            )


def sort_key(value: Value, column: SortColumn) -> Value:
    """The sort key of a value; a nullable one begins with a mark that sorts NULL first or last."""
    function = "reverse_sort_key" if column.descending else "sort_key"
    made = applied(function, [value], SYMBOL)
    if not value.nullable:
        return made
    given, null = ("1", "0") if column.nulls_first else ("0", "1")
    cases: list[Case] = []
    for before, after in zip(value.cases, made.cases, strict=True):
        if not (isinstance(before.term, Constant) and before.term.value is None):
            marked = call("cat", (Constant(given, SYMBOL), after.term))
            cases.append(Case((*before.when, is_given(before.term)), marked))
        cases.append(Case((*before.when, is_null(before.term)), Constant(null, SYMBOL)))
    return Value(tuple(cases), SYMBOL)


def joined_keys(keys: Sequence[Value], block: Block | None = None) -> Value:
    """The sort key of a row; many nullable keys are joined step by step in views of the block."""
    if block is None or len(keys) == 1:
        return keys[0] if len(keys) == 1 else applied("cat", list(keys), SYMBOL)
    plain_keys = [key for key in keys if key.term is not None]
    if len(plain_keys) >= len(keys) - 2:
        return applied("cat", list(keys), SYMBOL)
    result = keys[0]
    for key in keys[1:]:
        result = staged(block, applied("cat", [result, key], SYMBOL))
    return result


@dataclass(frozen=True, slots=True)
class _Keys:
    """The view of the rows: values of `outer` queries, `width` columns, and the sort key."""

    relation: str
    outer: tuple[Variable, ...]
    width: int
    key: Variable


def _bound(translation: Translation, keys: _Keys, number: int, op: str) -> list[Formula]:
    """The conditions that compare the sort key of a row with that of the row at place `number`."""
    other, last = translation.variable("key"), translation.variable("last")
    idle: list[Term] = [translation.variable("column") for _ in range(keys.width)]
    body = Atom(keys.relation, (*keys.outer, *idle, other))
    prefix = Constant(f"{number}:", SYMBOL)
    fold = Aggregate("kth", call("cat", (prefix, other)), body)
    return [Comparison("=", last, fold), Comparison(op, call("cat", (prefix, keys.key)), last)]
