"""Window functions: the rows of the SELECT become a view, and each of its partitions a sequence of lines, from which a
function computes the value of a row. The cost of a change is that of its partitions.

Rows that are equal in ORDER BY are sorted by the columns of the rows that they are derived from, so that the result is
deterministic, also for `row_number` and `lag`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import FLOAT, NUMBER, SYMBOL, Kind, Type
from upshot.sql.expressions.coercion import unified, zero
from upshot.sql.expressions.expressions import value_of
from upshot.sql.expressions.formulas import is_given, is_null
from upshot.sql.expressions.values import Case, Value, call, plain
from upshot.sql.queries.block import Block
from upshot.sql.queries.limits import SortColumn, joined_keys, sort_column, sort_key
from upshot.sql.queries.row_sets import Stored, as_view
from upshot.sql.queries.sources import FromItem, Scope
from upshot.sql.queries.stages import staged_columns
from upshot.sql.translation import Branch, Translation
from upshot.sql.trees import AGGREGATE_OF, is_aggregate, unwrapped
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Formula, Variable
from upshot.values.aggregates import average_type

if TYPE_CHECKING:
    from upshot.sql.queries.queries import QueryReader

_RANKS: dict[type[exp.Expression], str] = {
    exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank", exp.Ntile: "ntile",
    exp.PercentRank: "percent_rank", exp.CumeDist: "cume_dist",
}  # fmt: skip
_MOVES: dict[type[exp.Expression], str] = {exp.Lag: "lag", exp.Lead: "lead"}
_ENDS: dict[type[exp.Expression], str] = {exp.FirstValue: "first_value", exp.LastValue: "last_value"}
_FOLDS = ("count", "sum", "min", "max", "mean")
_HELP = (
    "there are row_number, rank, dense_rank, percent_rank, cume_dist, ntile, lag, lead, first_value, last_value, "
    "nth_value, count, sum, avg, min and max"
)


def has_windows(select: exp.Select) -> bool:
    return any(_windows(each) for each in select.expressions)


def _windows(node: exp.Expression) -> list[exp.Window]:
    if isinstance(node, exp.Query | exp.Subquery):
        return []
    if isinstance(node, exp.Window):
        return [node]
    return [each for child in node.iter_expressions() for each in _windows(child)]


@dataclass(slots=True)
class _Columns:
    """The columns of the inner query, by their SQL text, with generated names."""

    nodes: dict[str, exp.Expression] = field(default_factory=dict)

    def add(self, node: exp.Expression) -> exp.Expression:
        node = unwrapped(node)
        key = node.sql()
        self.nodes.setdefault(key, node)
        return exp.column(self.name(key), quoted=True)

    def name(self, key: str) -> str:
        return f"w_{list(self.nodes).index(key) + 1}"


@dataclass(frozen=True, slots=True)
class _Window:
    """A window function: its name, its frame or distance, its argument, its partition and its order."""

    node: exp.Window
    function: str
    option: str
    argument: exp.Expression | None
    partition: tuple[exp.Expression, ...]
    order: tuple[tuple[exp.Expression, SortColumn], ...]
    default: exp.Expression | None = None
    """The value of `lag` and `lead` beyond the partition."""


def windowed(
    reader: QueryReader, translation: Translation, select: exp.Select, around: Scope | None
) -> tuple[Block, exp.Select]:
    """The block with the values of the windows, and the SELECT over it."""
    columns, windows = _Columns(), list[_Window]()
    named = {each.this.name.lower(): each for each in select.args.get("windows") or []}
    shown: list[exp.Expression] = []
    for node in select.expressions:
        if node.is_star:
            shown.append(node)
            continue
        shown.append(_named(node, node.transform(lambda each: _outer(translation, each, columns, windows, named))))
    inner = select.copy()
    for key in ("windows", "distinct"):
        inner.set(key, None)
    stars = [each.copy() for each in select.expressions if each.is_star]
    if len(stars) > 1:
        translation.statement.unsupported("two `*` beside a window function", select, help="name the columns")
    items = [exp.alias_(node.copy(), columns.name(key), quoted=True) for key, node in columns.nodes.items()]
    inner.set("expressions", [*stars, *items] or [exp.Literal.number(1)])
    rows = reader.rows(translation, inner, around, bag=True)
    what = "a window function over a correlated query"
    translation.refuse_correlated(Scope(around), rows.branches, what, select, help="compute it in a view, or in WITH")
    stored = as_view(translation, rows, "window_rows")
    block = _valued(translation, stored, windows)
    made_select = exp.Select(expressions=list(_expanded(shown, stored, len(items))))
    return block, made_select


def _expanded(shown: Sequence[exp.Expression], stored: Stored, added: int) -> Iterator[exp.Expression]:
    for node in shown:
        if node.is_star:
            for name in stored.names[: len(stored.names) - added]:
                yield exp.column(name, quoted=True)
        else:
            yield node


def _named(node: exp.Expression, made: exp.Expression) -> exp.Expression:
    """The column with its name in the original SELECT."""
    if isinstance(node, exp.Alias):
        return made
    inner = unwrapped(node)
    if isinstance(inner, exp.Column):
        return exp.Alias(this=made, alias=inner.this.copy())
    if isinstance(inner, exp.Window):
        function = inner.this.this if isinstance(inner.this, exp.Filter) else inner.this
        name = _RANKS.get(type(function), AGGREGATE_OF.get(type(function), function.key))
        return exp.Alias(this=made, alias=exp.to_identifier(name))
    return made


# ---- the SELECT outside -------------------------------------------------------------------------


def _outer(
    translation: Translation, node: exp.Expression, columns: _Columns, windows: list[_Window],
    named: dict[str, exp.Expression],
) -> exp.Expression:  # fmt: skip
    """A node of the SELECT outside: a column of the query inside, or the value of a window."""
    if isinstance(node, exp.Window):
        windows.append(_read(translation, node, columns, named))
        return exp.column(f"window_{len(windows)}", quoted=True)
    if isinstance(node, exp.Column | exp.Subquery | exp.Exists) or is_aggregate(node):
        return columns.add(node)
    return node


def _read(translation: Translation, node: exp.Window, columns: _Columns, named: dict[str, exp.Expression]) -> _Window:
    statement, function = translation.statement, node.this
    base = _base(translation, node, named)
    condition = None
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        statement.unsupported("IGNORE NULLS", node, help="filter the rows first")
    if isinstance(function, exp.Filter):
        function, condition = function.this, function.expression.this
    partition = [
        *(base.args.get("partition_by") or [] if base is not None else []),
        *(node.args.get("partition_by") or []),
    ]
    order = node.args.get("order") or (base.args.get("order") if base is not None else None)
    keys = [(columns.add(each.this), sort_column(each)) for each in (order.expressions if order is not None else ())]
    name, option, argument = _called(translation, node, function, ordered=bool(keys))
    if condition is not None and argument is not None:
        argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
    default = function.args.get("default") if type(function) in _MOVES else None
    return _Window(
        node, name, option, columns.add(argument) if argument is not None else None,
        tuple(columns.add(each) for each in partition), tuple(keys),
        columns.add(default) if default is not None else None,
    )  # fmt: skip


def _base(translation: Translation, node: exp.Window, named: dict[str, exp.Expression]) -> exp.Expression | None:
    """The window of WINDOW that this one is based on."""
    alias = node.args.get("alias")
    if alias is None:
        return None
    found = named.get(alias.name.lower())
    if found is None:
        translation.statement.refuse(
            "unknown-relation", f"unknown window `{alias.name}`", node, help="define it: WINDOW w AS (…)"
        )
    return found


def _called(
    translation: Translation, node: exp.Window, function: exp.Expression, *, ordered: bool
) -> tuple[str, str, exp.Expression | None]:
    """The name of the function, its frame or distance, and its argument."""
    statement, kind = translation.statement, type(function)
    if kind in _RANKS:
        option = _number(translation, function.this, node) if kind is exp.Ntile else 0
        return _RANKS[kind], str(option), None
    if kind in _MOVES:
        step = str(_number(translation, function.args.get("offset"), node))
        return _MOVES[kind], step if function.args.get("default") is None else f"{step},D", function.this
    frame = _frame(translation, node, ordered=ordered)
    if kind in _ENDS:
        return _ENDS[kind], frame, function.this
    if kind is exp.NthValue:
        return f"nth_value:{_number(translation, function.args.get('offset'), node)}", frame, function.this
    name = AGGREGATE_OF.get(kind)
    if name not in _FOLDS or function.expressions:
        statement.unsupported(f"`{statement.spelled(node)}`", node, help=_HELP)
    argument = function.this
    if isinstance(argument, exp.Distinct):
        statement.unsupported("DISTINCT in a window function", node, help="count distinct values with GROUP BY")
    if argument is None or isinstance(argument, exp.Star):
        return "count", frame, exp.Literal.number(1)
    return name, frame, argument


def _number(translation: Translation, node: exp.Expression | None, window: exp.Window) -> int:
    if node is None:
        return 1
    if isinstance(node, exp.Literal) and node.name.isdigit():
        return int(node.name)
    translation.statement.unsupported("a computed distance in a window", window, help="write the number")


def _frame(translation: Translation, node: exp.Window, *, ordered: bool) -> str:
    """The frame: from the first row to the last equal one (`range`), to the row itself (`rows`) or to the end (`all`),
    or two bounds."""
    spec = node.args.get("spec")
    if spec is None:
        return "range" if ordered else "all"
    words = [str(spec.args.get(key) or "").upper() for key in ("kind", "start", "start_side", "end", "end_side")]
    kind, start, side, end, end_side = words
    if not end:
        end, end_side = "CURRENT ROW", ""
    bounds = _bound(start, side), _bound(end, end_side)
    moves = any(each not in (None, 0) for each in bounds)
    if spec.args.get("exclude") or kind not in ("ROWS", "RANGE") or "?" in bounds or (kind == "RANGE" and moves):
        translation.statement.unsupported(
            "this frame of a window",
            node,
            help="use ROWS or RANGE with UNBOUNDED and CURRENT ROW, or ROWS with numbers",
        )
    match bounds:
        case (None, None):
            return "all"
        case (None, 0) if kind == "ROWS" or ordered:
            return kind.lower()
    if kind == "RANGE" and not ordered:
        return "all"
    return ",".join((kind.lower(), *("" if each is None else str(each) for each in bounds)))


def _bound(word: str, side: str) -> int | str | None:
    """The distance from the current row, None for the end of the partition, `?` for any other bound."""
    sign = -1 if side == "PRECEDING" else 1
    if word == "UNBOUNDED":
        return None
    return 0 if word == "CURRENT ROW" else sign * int(word) if word.isdigit() else "?"


# ---- values -------------------------------------------------------------------------------------


def _valued(translation: Translation, stored: Stored, windows: Sequence[_Window]) -> Block:
    """The block over the rows and their lines; its groups are the values of the windows."""
    source = translation.source(stored.relation, "", stored.names, stored.hidden)
    block = Block(translation, Scope(None, [source]))
    expected: list[Value] = []
    for window in windows:
        expected += [_partition(block, window), _line(block, window, source)]
    values = staged_columns(block, expected)
    known = [*source.identity(), *block.computed]
    names = [translation.variable(v.name).name for v, _ in known]
    names += [translation.variable(name).name for _ in windows for name in ("part", "line")]
    types = [*(t for _, t in known), *[SYMBOL] * len(values)]
    branch = Branch(block.parts, (*(plain(v, t) for v, t in known), *values))
    lines = translation.view("windows", names, types, [branch])
    places = [translation.variable(name) for _ in windows for name in ("part", "line")]
    made = Block(translation, Scope(None, [source]), groups={})
    made.stage = Atom(lines, (*(v for v, _ in known), *places))
    assert made.groups is not None
    for number, window in enumerate(windows):
        part, line = places[2 * number : 2 * number + 2]
        at = len(known) + 2 * number
        value = _value(made, block, window, (lines, at), (part, line))
        made.groups[exp.column(f"window_{number + 1}", quoted=True).sql(normalize_functions=True)] = value
    return made


def _partition(block: Block, window: _Window) -> Value:
    keys = [sort_key(block.value(each), SortColumn(0)) for each in window.partition]
    return joined_keys(keys, block) if keys else plain(Constant("", SYMBOL), SYMBOL)


def _line(block: Block, window: _Window, source: FromItem) -> Value:
    keys = [sort_key(block.value(each), column) for each, column in window.order]
    keys.append(plain(Constant("|", SYMBOL), SYMBOL))
    hidden = list(zip(source.hidden, source.hidden_types, strict=True)) or source.identity()
    keys += [sort_key(plain(v, t), SortColumn(0)) for v, t in hidden]
    keys.append(plain(Constant("\t", SYMBOL), SYMBOL))
    keys.append(_field(block, window))
    return joined_keys(keys, block)


def _field(block: Block, window: _Window) -> Value:
    """The argument of the function in a row: `N` for NULL, or `V` and the value as text."""
    if window.argument is None:
        return plain(Constant("N", SYMBOL), SYMBOL)
    value = _argument(block, window)
    cases: list[Case] = []
    for case in value.cases:
        if not (isinstance(case.term, Constant) and case.term.value is None):
            text = call("cat", (Constant("V", SYMBOL), call("window_text", (case.term,))))
            cases.append(Case((*case.when, is_given(case.term)) if value.nullable else case.when, text))
        if value.nullable:
            cases.append(Case((*case.when, is_null(case.term)), Constant("N", SYMBOL)))
    return Value(tuple(cases), SYMBOL)


def _argument(block: Block, window: _Window) -> Value:
    assert window.argument is not None
    value = block.value(window.argument)
    if value.type is None:
        block.statement.unsupported("a window function of NULL", window.node, help="use CAST(NULL AS …)")
    if window.function in ("sum", "mean") and value.kind not in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL):
        block.statement.refuse(
            "type-mismatch",
            f"`{block.statement.spelled(window.node)}` needs numbers, not `{value.type.required()}`",
            window.node,
            help="use count, min or max",
        )  # fmt: skip
    return value


def _value(made: Block, block: Block, window: _Window, place: tuple[str, int], at: tuple[Variable, Variable]) -> Value:
    """The value of the window for a row; its conditions are added to the block."""
    translation = made.translation
    relation, first = place
    part, line = at
    schema = translation.schemas[relation]
    row: list[Variable] = [translation.variable(column.name) for column in schema.columns]
    pairs = translation.view(
        "lines", [part.name, line.name], [SYMBOL, SYMBOL],
        [Branch((Atom(relation, tuple(row)),), (plain(row[first], SYMBOL), plain(row[first + 1], SYMBOL)))],
    )  # fmt: skip
    rows, other, found = (translation.variable(name) for name in ("rows", "line", "found"))
    kind = _argument(block, window).type if window.argument is not None else NUMBER
    assert kind is not None
    made.conditions.append(Comparison("=", rows, Aggregate("sequence", other, Atom(pairs, (part, other)))))
    what = Constant(f"{window.function} {kind.kind.value} {window.option}", SYMBOL)
    made.conditions.append(Comparison("=", found, call("window_value", (rows, line, what))))
    made.computed.append((found, SYMBOL))
    return _typed(made, window, found, _result(window, kind))


def _result(window: _Window, type: Type) -> Type:
    match window.function:
        case "row_number" | "rank" | "dense_rank" | "ntile" | "count":
            return NUMBER
        case "mean" if type.kind is Kind.DECIMAL:
            return average_type(type)
        case "mean" | "percent_rank" | "cume_dist":
            return FLOAT
        case "sum":
            return Type(type.kind, precision=type.precision, scale=type.scale).widest()
        case _:
            return type.required()


def _typed(made: Block, window: _Window, found: Variable, type: Type) -> Value:
    arguments = (found, zero(type.scale)) if type.kind is Kind.DECIMAL else (found,)
    read = call(f"window_{type.kind.value}", arguments)
    if window.function in (*_RANKS.values(), "count"):
        return plain(read, type)

    def mark(op: str, letter: str) -> Formula:
        return Comparison(op, found, Constant(letter, SYMBOL))

    value = Value((Case((mark("!=", "N"),), read), Case((mark("=", "N"),), Constant(None))), type.optional())
    if window.default is None:
        return value
    pair = [value, value_of(made, window.default)]
    (value, other), _ = unified(made.statement, pair, (window.node, window.default))
    cases = [Case((mark("!=", "D"), *case.when), case.term) for case in value.cases]
    cases += [Case((mark("=", "D"), *case.when), case.term) for case in other.cases]
    return Value(tuple(cases), value.type)
