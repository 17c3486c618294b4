"""Parts of a query, found in its tree."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from upshot.values.aggregates import AGGREGATES as BUILT_IN

AGGREGATE_OF: dict[type[exp.Expression], str] = {
    **{getattr(exp, spelling): each.name for each in BUILT_IN.values() for spelling, _ in each.sql},
    exp.GroupConcat: "sequence",
}
"""The aggregates of SQL and the built-in ones that they are."""
AGGREGATES = tuple(AGGREGATE_OF)


def inner_query(node: exp.Expr) -> exp.Expression:
    """The query inside parentheses."""
    while isinstance(node, exp.Subquery | exp.Paren) and not node.args.get("with_"):
        node = node.this
    assert isinstance(node, exp.Expression)
    return node


def unwrapped(node: exp.Expression) -> exp.Expression:
    """The expression without parentheses and alias."""
    while isinstance(node, exp.Paren | exp.Alias):
        node = node.this
    return node


def conjoined(node: exp.Expression | None) -> list[exp.Expression]:
    """The conditions that all have to hold."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return conjoined(node.this)
    if isinstance(node, exp.And):
        return [*conjoined(node.this), *conjoined(node.expression)]
    return [node]


def aggregates_in(query: exp.Select) -> list[exp.Expression]:
    """The aggregates of the columns and of HAVING, those of inner queries left out."""
    having = query.args.get("having")
    return [each for node in (*query.expressions, *([having] if having else [])) for each in aggregates_of(node)]


def aggregates_of(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Query | exp.Subquery):
        return
    if isinstance(node, (*AGGREGATES, exp.Filter)):
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregates_of(child)


def column_name(node: exp.Expression) -> exp.Identifier | None:
    """The name that a column of a SELECT gets from what is written."""
    if isinstance(node, exp.Alias):
        alias = node.args["alias"]
        return alias if isinstance(alias, exp.Identifier) else None
    found = unwrapped(node)
    return found.this if isinstance(found, exp.Column) and isinstance(found.this, exp.Identifier) else None
