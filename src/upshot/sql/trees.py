"""Parts of a query, found in its tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from upshot.values.aggregates import AGGREGATES as BUILT_IN
from upshot.values.functors import bare_name, is_fold

AGGREGATE_OF: dict[type[exp.Expression], str] = {
    **{getattr(exp, spelling): each.name for each in BUILT_IN.values() for spelling, _ in each.sql},
    exp.GroupConcat: "sequence",
}
"""The aggregates of SQL and the built-in ones that they are."""
AGGREGATES = tuple(AGGREGATE_OF)


_FOLD = "fold"
"""The mark of a call of a fold of the user: its name with types."""


def mark_folds(tree: exp.Expr, functors: Mapping[str, str]) -> None:
    """Mark the calls of folds, which are aggregates, in a tree that has just been read."""
    folds = {bare_name(signed).lower(): signed for signed in functors.values() if is_fold(signed)}
    for node in tree.find_all(exp.Anonymous) if folds else ():
        if (signed := folds.get(node.name.lower())) is not None:
            node.meta[_FOLD] = signed


def fold_of(node: exp.Expr) -> str | None:
    """The fold that the node calls."""
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
    if is_aggregate(node):
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
