"""Queries inside conditions and expressions: EXISTS, IN, ANY, ALL and scalar subqueries, correlated or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import NUMBER, Kind, Type
from upshot.sql.expressions.coercion import unified
from upshot.sql.expressions.comparisons import compared
from upshot.sql.expressions.expressions import value_of
from upshot.sql.expressions.formulas import FALSE, TRUE, conjunction, disjunction, is_given, is_null
from upshot.sql.expressions.values import Case, Value, combinations, plain
from upshot.sql.names import relation_name
from upshot.sql.queries.presence import Presence, presence
from upshot.sql.queries.sources import Scope
from upshot.sql.translation import Branch, equality
from upshot.sql.trees import aggregates_in, conjoined, inner_query, unwrapped
from upshot.syntax.ast import Atom, Constant, Formula, Not, Variable
from upshot.values.conditions import OPPOSITE

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block


def type_of_constant(constant: Constant) -> Type | None:
    """The type of a Python value."""
    if constant.value is None:
        return None
    if isinstance(constant.value, tuple | list | dict):
        return Type(Kind.RECORD)
    return NUMBER if constant.type is None else constant.type


def parameter(block: Block, node: exp.Expression) -> Value:
    name = node.name
    if not name or not name.isidentifier():
        block.statement.refuse("sql-parameter", "this parameter has no name", node, help="write it as `:name`")
    return block.known_parameter(name, node)


def _has_one_row(query: exp.Select) -> bool:
    """Test whether the query always has one row: aggregates of all rows."""
    return not query.args.get("group") and query.args.get("having") is None and bool(aggregates_in(query))


def _branches(block: Block, query: exp.Expression) -> list[Branch]:
    """The rows of a subquery, which may use the columns of the block."""
    return list(block.translation.reader.rows(block.translation, query, block.scope).branches)


# ---- EXISTS -----------------------------------------------------------------------------------


def exists(block: Block, node: exp.Exists) -> tuple[Formula, Formula]:
    """The formulas for the query having a row, and for its having none."""
    query = inner_query(node.this)
    if isinstance(query, exp.Select) and _has_one_row(query):
        return TRUE, FALSE
    branches = _branches(block, query)
    return present(block, "exists", [Branch(branch.parts, ()) for branch in branches])


def present(block: Block, purpose: str, branches: Sequence[Branch]) -> tuple[Formula, Formula]:
    """The condition that one of the branches has a row for the values of the outer queries, and its negation."""
    found, keys = _keyed(block, purpose, branches, 0)
    return found.probe(keys)


def _keyed(
    block: Block, purpose: str, branches: Sequence[Branch], width: int, names: Sequence[str] = ()
) -> tuple[Presence, list[Variable]]:
    """The rows of the branches with the values of outer queries that they use, and these values."""
    translation, inner = block.translation, Scope(block.scope)
    keys = translation.correlated(inner, (node for branch in branches for node in branch.nodes))
    own = [
        Branch(
            translation.domain(keys, branch.parts, list(inner.outer())),
            (*(plain(key, translation.type_of(key)) for key in keys), *branch.values),
        )
        for branch in branches
    ]
    nullable = [translation.type_of(key).nullable for key in keys] + [False] * width
    return presence(translation, purpose, [*(key.name for key in keys), *names], own, nullable), keys


# ---- IN, ANY, ALL -----------------------------------------------------------------------------


def member(block: Block, node: exp.In, *, value: bool, certain: bool) -> Formula:
    """`x IN (SELECT …)`. It is unknown if it is not true and either x or one of the rows is NULL."""
    if isinstance(node.this, exp.Tuple):
        return _any(block, "=", node, list(node.this.expressions), node.args["query"], value=value, certain=certain)
    subject, branches = _comparable(block, node, _branches(block, inner_query(node.args["query"])))
    has_null = any(branch.values[0].nullable for branch in branches)
    # NULL equals nothing, so rows with NULL are left out: inside another subquery this literal may be the only one
    # that binds the value.
    equal = [Branch((*branch.parts, *_given(branch.values[0])), branch.values) for branch in branches]
    true, keys = _keyed(block, "in", equal, 1, ["value"])
    if value is certain or not (subject.nullable or has_null):
        return _by_case(subject, true, keys, present=value)
    nulls = (
        present(block, "in_null", [Branch((*b.parts, *_null(b.values[0])), ()) for b in branches])
        if has_null
        else (FALSE, TRUE)
    )
    rows = present(block, "in_any", [Branch(b.parts, ()) for b in branches]) if subject.nullable else (TRUE, FALSE)
    missing = disjunction(conjunction((*case.when, is_null(case.term))) for case in subject.cases)
    given = disjunction(conjunction((*case.when, is_given(case.term))) for case in subject.cases)
    if not subject.nullable:
        missing, given = FALSE, TRUE
    if value:
        found = _by_case(subject, true, keys, present=True)
        return conjunction((rows[0], disjunction((missing, nulls[0], found))))
    absent = _by_case(subject, true, keys, present=False)
    return disjunction((rows[1], conjunction((given, nulls[1], absent))))


def _given(value: Value) -> tuple[Formula, ...]:
    if not value.nullable:
        return ()
    return (disjunction(conjunction((*case.when, is_given(case.term))) for case in value.cases),)


def _null(value: Value) -> tuple[Formula, ...]:
    return (disjunction(conjunction((*case.when, is_null(case.term))) for case in value.cases),)


def _comparable(block: Block, node: exp.In, branches: Sequence[Branch]) -> tuple[Value, list[Branch]]:
    """The value and the rows, converted to one type."""
    for branch in branches:
        if len(branch.values) != 1:
            block.statement.refuse(
                "wrong-arity", f"the query returns {len(branch.values)} columns", node, help="select one column"
            )
    values = [value_of(block, node.this), *(branch.values[0] for branch in branches)]
    (subject, *rows), _ = unified(block.statement, values, [node.this] * len(values))
    return subject, [Branch(branch.parts, (row,)) for branch, row in zip(branches, rows, strict=True)]


def _by_case(subject: Value, rows: Presence, keys: Sequence[Variable], *, present: bool) -> Formula:
    """The formula for the presence, or absence, of a row equal to the value."""
    found = []
    for case in subject.cases:
        there, missing = rows.probe([*keys, case.term])
        if isinstance(case.term, Constant) and case.term.value is None:
            there, missing = FALSE, TRUE
        found.append(conjunction((*case.when, there if present else missing)))
    return disjunction(found)


def quantified(block: Block, op: str, node: exp.Expression, *, value: bool, certain: bool) -> Formula:
    """`x < ANY (SELECT …)` and `x < ALL (SELECT …)`."""
    expected = node.expression
    left = list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]
    query = expected.this
    if not isinstance(query, exp.Query | exp.Subquery):
        block.statement.unsupported("ANY and ALL of a list", expected, help="use IN, or a query")
    if isinstance(expected, exp.All):
        # All rows satisfy a comparison if and only if no row satisfies the opposite one.
        return _any(block, OPPOSITE[op], node, left, query, value=not value, certain=certain)
    return _any(block, op, node, left, query, value=value, certain=certain)


def _any(
    block: Block, op: str, node: exp.Expression, left: Sequence[exp.Expression], query: exp.Expr, *,
    value: bool, certain: bool,
) -> Formula:  # fmt: skip
    """The formula for the presence of a row that satisfies the comparison."""
    branches = _branches(block, inner_query(query))
    made = []
    for branch in branches:
        if len(branch.values) != len(left):
            block.statement.refuse(
                "wrong-arity", f"the query returns {len(branch.values)} columns, not {len(left)}", node,
                help="select as many columns as you compare",
            )  # fmt: skip
        parts = [
            compared(block, op, (value_of(block, each), row), (each, each), True, value is certain)
            for each, row in zip(left, branch.values, strict=True)
        ]
        if len(parts) > 1 and op != "=":
            block.statement.unsupported("this comparison of rows", node, help="compare column by column")
        made.append(Branch((*branch.parts, *parts), ()))
    there, missing = present(block, "any", made)
    return there if value else missing


def listed(
    block: Block, node: exp.In, subject: Value, values: Sequence[Value], *, value: bool, certain: bool
) -> Formula:
    """`x IN (1, 2, 3, …)` with many constants, which become a relation."""
    (own, *each), type_ = unified(block.statement, [subject, *values], [node.this, *node.expressions])
    x = block.translation.variable("value")
    constants = dict.fromkeys(v.constant for v in each if v.constant is not None)
    branches = [Branch((equality(x, constant),), (plain(x, type_),)) for constant in constants]
    assert type_ is not None
    relation = block.translation.view("list", ["value"], [type_], branches)
    parts: list[Formula] = []
    for case in own.cases:
        atom = Atom(relation, (case.term,))
        if isinstance(case.term, Constant) and case.term.value is None:
            parts.append(FALSE if certain else conjunction(case.when))
        elif value:
            unknown = is_null(case.term) if not certain and own.nullable else FALSE
            parts.append(conjunction((*case.when, disjunction((atom, unknown)))))
        else:
            given = is_given(case.term) if certain and own.nullable else TRUE
            parts.append(conjunction((*case.when, given, Not(atom))))
    return disjunction(parts)


# ---- single values ----------------------------------------------------------------------------


def scalar(block: Block, node: exp.Subquery) -> Value:
    """The value of a scalar subquery; NULL if it has no row. It must have at most one row, whatever its tables
    contain."""
    query = inner_query(node)
    if isinstance(query, exp.Select) and len(query.expressions) == 1 and _has_one_row(query):
        (branch,) = _branches(block, query)
        (value,) = branch.values
        cases = [Case((*branch.parts, *when), term) for when, (term,) in combinations([value])]
        return Value(tuple(cases), value.type)
    if not _has_few_rows(block, query):
        block.statement.unsupported(
            "a scalar subquery that may return several rows",
            node,
            help="aggregate it, for example max(…), add ORDER BY … LIMIT 1, select by a key, or join with it",
        )
    branches = _branches(block, query)
    if any(len(branch.values) != 1 for branch in branches):
        block.statement.refuse("wrong-arity", "a scalar subquery has one column", node, help="select one column")
    _, missing = present(block, "scalar", [Branch(branch.parts, ()) for branch in branches])
    cases = [Case((*branch.parts, *when), term) for branch in branches for when, (term,) in combinations(branch.values)]
    type_ = next((branch.values[0].type for branch in branches if branch.values[0].type is not None), None)
    return Value((*cases, Case((missing,), Constant(None))), None if type_ is None else type_.optional())


def _has_few_rows(block: Block, query: exp.Expression) -> bool:
    """Test whether the query has at most one row: by LIMIT 1, without FROM, or by a key of its one table."""
    limit = query.args.get("limit")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression if limit else None
    if isinstance(count, exp.Literal) and count.name in ("0", "1"):
        return True
    if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("joins"):
        return False
    start = query.args.get("from_")
    return start is None or _finds_by_key(block, query, start.this)


def _finds_by_key(block: Block, query: exp.Select, table: exp.Expression) -> bool:
    """Test whether WHERE equates all columns of a key of the table with values that do not depend on its row."""
    if not isinstance(table, exp.Table) or table.args.get("joins") or block.translation.reader.is_common(table):
        return False
    schema = block.translation.schemas[relation_name(block.statement, table, block.translation.schemas)]
    source = block.translation.source(schema.name, table.alias_or_name)
    own, found = Scope(None, [source]), set[str]()

    def column(node: exp.Expression) -> str:
        known = own.own(block.statement, node) if isinstance(node, exp.Column) else None
        return known.name if known is not None else ""

    where = query.args.get("where")
    for each in conjoined(where.this if where is not None else None):
        if isinstance(each, exp.EQ):
            for side, other in ((each.this, each.expression), (each.expression, each.this)):
                fixed = not other.find(exp.Query, exp.Subquery) and not any(map(column, other.find_all(exp.Column)))
                if fixed and (name := column(unwrapped(side))):
                    found.add(name)
    return any({schema.columns[place].name for place in key} <= found for key in schema.keys)
