"""Comparisons of values, which are unknown if one of them is NULL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.sql.expressions.coercion import unified
from upshot.sql.expressions.formulas import FALSE, TRUE, conjunction, disjunction, is_null
from upshot.sql.expressions.values import Value, combinations, is_nothing
from upshot.syntax.ast import Comparison, Constant, Formula, Term
from upshot.values import conditions

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

COMPARISONS: dict[type[exp.Expression], str] = {
    getattr(exp, each.sql): name for name, each in conditions.COMPARISONS.items()
}


def compared(
    block: Block, op: str, values: Sequence[Value], nodes: Sequence[exp.Expression], value: bool, certain: bool
) -> Formula:
    """The comparison of two values, case by case."""
    (left, right), type_ = unified(block.statement, values, nodes)
    if type_ is None:
        return FALSE if certain else TRUE
    unknown = [value.nullable for value in (left, right)]
    span = block.statement.place(nodes[0]).to(block.statement.place(nodes[1]))
    found = []
    for when, (a, b) in combinations([left, right]):
        made = leaf(op if value else conditions.OPPOSITE[op], a, b, certain, unknown)
        if isinstance(made, Comparison):
            made = replace(made, span=span)
        found.append(conjunction((*when, made)))
    return disjunction(found)


def leaf(op: str, left: Term, right: Term, certain: bool, nullable: Sequence[bool]) -> Formula:
    """The comparison of two terms; if not `certain`, also true if it is unknown, because a `nullable` term is NULL."""
    if is_nothing(left) or is_nothing(right):
        return FALSE if certain else TRUE
    if isinstance(left, Constant) and isinstance(right, Constant) and type(left.value) is type(right.value):
        return TRUE if conditions.COMPARISONS[op].python(left.value, right.value) else FALSE
    compared = Comparison(op, left, right)
    if certain:
        return compared
    missing = (is_null(term) for term, can in zip((left, right), nullable, strict=True) if can)
    return disjunction((compared, *missing))
