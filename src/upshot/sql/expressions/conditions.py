"""Conditions in three-valued logic: formulas for a condition being true, false, not true or not false. A comparison
with NULL is unknown: neither true nor false."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from upshot.core.types import BOOLEAN, Kind
from upshot.sql.expressions import dates
from upshot.sql.expressions.coercion import operands, require_kind
from upshot.sql.expressions.comparisons import COMPARISONS, compared, leaf
from upshot.sql.expressions.formulas import FALSE, TRUE, conjunction, disjunction, is_given, is_null
from upshot.sql.expressions.texts import like_test
from upshot.sql.expressions.values import Value, combinations, is_nothing
from upshot.sql.queries import subqueries
from upshot.syntax.ast import Atom, Constant, Formula, Not, Test
from upshot.syntax.rebuild import rebuilt

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

_LONG_LIST = 8
"""A longer list of IN becomes a relation: one rule for each constant would multiply with other alternatives."""


def holds(block: Block, node: exp.Expression, *, value: bool, certain: bool) -> Formula:
    """The formula for the condition being `value`; if not `certain`, for its being `value` or unknown."""
    match node:
        case exp.Paren():
            return block.holds(node.this, value=value, certain=certain)
        case exp.Not():
            return block.holds(node.this, value=not value, certain=certain)
        case exp.And() | exp.Or():
            both = [block.holds(each, value=value, certain=certain) for each in (node.this, node.expression)]
            return conjunction(both) if isinstance(node, exp.And) is value else disjunction(both)
        case exp.Boolean():
            return TRUE if bool(node.this) is value else FALSE
        case exp.Null():
            return FALSE if certain else TRUE
        case exp.Is():
            return _is(block, node, value)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _distinct(block, node, value is isinstance(node, exp.NullSafeEQ))
        case exp.Between():
            subject, low, high = node.this, node.args["low"], node.args["high"]
            within = exp.And(this=subject >= low, expression=subject <= high)
            if not node.args.get("symmetric"):
                return block.holds(within, value=value, certain=certain)
            turned = exp.And(this=subject >= high, expression=subject <= low)
            return block.holds(exp.Or(this=within, expression=turned), value=value, certain=certain)
        case exp.In():
            return _placed(block, _in(block, node, value, certain), node)
        case exp.Exists():
            found, missing = subqueries.exists(block, node)
            return _placed(block, found if value else missing, node)
        case exp.Like() | exp.ILike() | exp.Escape():
            return _like(block, node, value, certain)
    if (op := COMPARISONS.get(type(node))) is not None:
        return _comparison(block, op, node, value, certain)
    return _boolean(block, block.value(node), node, value, certain)


def _placed(block: Block, formula: Formula, node: exp.Expression) -> Formula:
    """The formula with the place of the condition in its literals, for errors about cycles."""
    place = block.statement.place(node)

    def visit(each: Any) -> Any:
        return replace(each, span=place) if isinstance(each, Atom | Not) and each.span is None else each

    return rebuilt(formula, visit)


def can_be_unknown(block: Block, node: exp.Expression) -> bool:
    """Test whether the condition can be unknown."""
    match node:
        case exp.Paren() | exp.Not():
            return can_be_unknown(block, node.this)
        case exp.And() | exp.Or():
            return can_be_unknown(block, node.this) or can_be_unknown(block, node.expression)
        case exp.Is() | exp.NullSafeEQ() | exp.NullSafeNEQ() | exp.Exists() | exp.Boolean():
            return False
    if type(node) in COMPARISONS and not isinstance(node.expression, exp.Any | exp.All | exp.Tuple):
        values = dates.lengths(block, node.this, node.expression)
        return any(each.nullable for each in values or map(block.value, (node.this, node.expression)))
    return True


# ---- comparisons ------------------------------------------------------------------------------


def _comparison(block: Block, op: str, node: exp.Expression, value: bool, certain: bool) -> Formula:
    left, right = node.this, node.expression
    if isinstance(right, exp.Any | exp.All):
        found = subqueries.quantified(block, op, node, value=value, certain=certain)
        return _placed(block, found, node)
    if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
        return _rows(block, op, node, value, certain)
    values = dates.lengths(block, left, right) or (block.value(left), block.value(right))
    return compared(block, op, values, (left, right), value, certain)


def _rows(block: Block, op: str, node: exp.Expression, value: bool, certain: bool) -> Formula:
    """`(a, b) = (c, d)`"""
    left, right = node.this, node.expression
    if op not in ("=", "!=") or not (isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple)):
        block.statement.unsupported("this comparison of rows", node, help="compare column by column")
    if len(left.expressions) != len(right.expressions):
        block.statement.refuse(
            "wrong-arity", "the rows have different lengths", node, help="compare rows of one length"
        )
    value = value is (op == "=")
    parts = [
        compared(block, "=", (block.value(a), block.value(b)), (a, b), value, certain)
        for a, b in zip(left.expressions, right.expressions, strict=True)
    ]
    return conjunction(parts) if value else disjunction(parts)


def _distinct(block: Block, node: exp.Expression, same: bool) -> Formula:
    """IS [NOT] DISTINCT FROM: NULL equals NULL and differs from any other value."""
    pair, type_ = operands(block, (node.this, node.expression))
    found = []
    for when, (a, b) in combinations(pair):
        equal = FALSE if type_ is None else leaf("=" if same else "!=", a, b, True, (True, True))
        nulls = [(is_null(a), is_null(b))] if same else [(is_null(a), is_given(b)), (is_given(a), is_null(b))]
        found.append(conjunction((*when, disjunction((equal, *map(conjunction, nulls))))))
    return disjunction(found)


def _is(block: Block, node: exp.Is, value: bool) -> Formula:
    """IS [NOT] NULL, TRUE, FALSE: never unknown."""
    tested = node.expression
    while isinstance(tested, exp.Not):
        tested, value = tested.this, not value
    if isinstance(tested, exp.Boolean):
        expected = bool(tested.this)
        return block.holds(node.this, value=expected if value else not expected, certain=value)
    if not isinstance(tested, exp.Null):
        block.statement.unsupported(f"`{block.statement.spelled(node)}`", node, help="IS takes NULL, TRUE or FALSE")
    found = block.value(node.this)
    test = is_null if value else is_given
    return disjunction(conjunction((*case.when, test(case.term))) for case in found.cases)


def _boolean(block: Block, found: Value, node: exp.Expression, value: bool, certain: bool) -> Formula:
    require_kind(block.statement, found, (Kind.BOOLEAN,), "a condition", node, help="compare it with something")
    parts = []
    for case in found.cases:
        made = leaf("=", case.term, Constant(value, BOOLEAN), certain, (found.nullable, False))
        parts.append(conjunction((*case.when, made)))
    return disjunction(parts)


def is_true(block: Block, found: Value, node: exp.Expression) -> Formula:
    """The formula for the value of a condition being true."""
    return _boolean(block, found, node, value=True, certain=True)


# ---- lists and patterns -----------------------------------------------------------------------


def _in(block: Block, node: exp.In, value: bool, certain: bool) -> Formula:
    query = node.args.get("query")
    if query is not None:
        return subqueries.member(block, node, value=value, certain=certain)
    if node.args.get("unnest") is not None or node.args.get("field") is not None:
        block.statement.unsupported("IN of this", node, help="IN takes a list or a query")
    choices = node.expressions
    if len(choices) == 1 and isinstance(choices[0], exp.Values):
        rows = exp.In(this=node.this.copy(), query=exp.Subquery(this=choices[0].copy()))
        return subqueries.member(block, rows, value=value, certain=certain)
    if isinstance(node.this, exp.Tuple):
        each = [holds(block, exp.EQ(this=node.this, expression=c), value=value, certain=certain) for c in choices]
        return disjunction(each) if value else conjunction(each)
    subject = block.value(node.this)
    values = [block.value(choice) for choice in choices]
    if len(choices) > _LONG_LIST and all(v.constant is not None and v.type is not None for v in values):
        return subqueries.listed(block, node, subject, values, value=value, certain=certain)
    each = [
        compared(block, "=", (subject, found), (node.this, choice), value, certain)
        for found, choice in zip(values, choices, strict=True)
    ]
    return disjunction(each) if value else conjunction(each)


def _like(block: Block, node: exp.Expression, value: bool, certain: bool) -> Formula:
    if isinstance(node, exp.Escape) and not isinstance(node.this, exp.Like | exp.ILike):
        block.statement.unsupported(f"`{block.statement.spelled(node)}`", node, help="use LIKE")
    text, pattern = like_test(block, node)
    parts: list[Formula] = []
    for case in text.cases:
        if is_nothing(case.term):
            parts += [] if certain else [conjunction(case.when)]
            continue
        match = Test("match", (pattern, case.term), span=block.statement.place(node))
        test = match if value else conjunction((Not(match), is_given(case.term) if text.nullable else TRUE))
        if not certain and text.nullable:
            test = disjunction((test, is_null(case.term)))
        parts.append(conjunction((*case.when, test)))
    return disjunction(parts)
