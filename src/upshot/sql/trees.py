"""Find parts of queries in sqlglot trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from upshot.values.aggregates import AGGREGATES as BUILT_IN
from upshot.values.functors import bare_name, is_fold

AGGREGATE_OF: dict[type[exp.Expression], str] = {
    **{getattr(exp, spelling): each.name for each in BUILT_IN.values() for spelling, _ in each.sql},
    exp.GroupConcat: "sequence",
}
"""The built-in aggregate of each aggregate of SQL."""
AGGREGATES = tuple(AGGREGATE_OF)


_FOLD = "fold"
"""The key in `meta` of a call of a fold of the user: its signature."""


def mark_folds(tree: exp.Expr, functors: Mapping[str, str]) -> None:
    """Mark the calls of folds, which are aggregates, in a parsed tree."""
    folds = {bare_name(signed).lower(): signed for signed in functors.values() if is_fold(signed)}
    for node in tree.find_all(exp.Anonymous) if folds else ():
        if (signed := folds.get(node.name.lower())) is not None:
            node.meta[_FOLD] = signed


def fold_of(node: exp.Expr) -> str | None:
    """The signature of the fold that the node calls."""
    found = node.meta.get(_FOLD) if isinstance(node, exp.Anonymous) else None
    return found if isinstance(found, str) else None


def is_aggregate(node: exp.Expr) -> bool:
    """Test whether the node is an aggregate, a built-in one or a fold of the user."""
    return isinstance(node, (*AGGREGATES, exp.Filter)) or fold_of(node) is not None


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
    """The conditions of a conjunction."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return conjoined(node.this)
    if isinstance(node, exp.And):
        return [*conjoined(node.this), *conjoined(node.expression)]
    return [node]


def aggregates_in(query: exp.Select) -> list[exp.Expression]:
    """The aggregates of the columns and of HAVING, without those of inner queries."""
    having = query.args.get("having")
    return [each for node in (*query.expressions, *([having] if having else [])) for each in aggregates_of(node)]


def aggregates_of(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Query | exp.Subquery):
        return
    if is_aggregate(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregates_of(child)


def column_name(node: exp.Expression) -> exp.Identifier | None:
    """The name of a column of a SELECT: its alias, or that of the column that it selects."""
    if isinstance(node, exp.Alias):
        alias = node.args["alias"]
        return alias if isinstance(alias, exp.Identifier) else None
    found = unwrapped(node)
    return found.this if isinstance(found, exp.Column) and isinstance(found.this, exp.Identifier) else None
