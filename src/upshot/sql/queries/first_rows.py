"""QUALIFY, and DISTINCT ON as the first row of a window."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from upshot.sql.expressions.conditions import is_true
from upshot.sql.queries.block import Block
from upshot.sql.queries.limits import sort_place
from upshot.sql.queries.row_sets import RowSet
from upshot.sql.queries.sources import Scope
from upshot.sql.translation import Branch, Translation
from upshot.sql.trees import unwrapped


def has_distinct_on(query: exp.Expression) -> bool:
    distinct = query.args.get("distinct") if isinstance(query, exp.Select) else None
    return isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None


def first_of_each(query: exp.Expression) -> exp.Expression:
    """DISTINCT ON as QUALIFY: the row with number 1 of those with the same values, in the order of ORDER BY."""
    made = query.copy()
    on = made.args["distinct"].args["on"]
    partition = [_meant(made, each) for each in (on.expressions if isinstance(on, exp.Tuple) else [on])]
    order = made.args.get("order")
    keys = []
    for each in order.expressions if order is not None else []:
        key = each.copy()
        key.set("this", _meant(made, each.this))
        keys.append(key)
    # Rows that are alike in ORDER BY follow the order of their columns, as with LIMIT.
    keys += [exp.Ordered(this=unwrapped(each).copy()) for each in made.expressions if not each.is_star]
    number = exp.Window(
        this=exp.RowNumber(), partition_by=partition, order=exp.Order(expressions=keys) if keys else None
    )
    made.set("distinct", None)
    made.set("qualify", exp.Qualify(this=number.eq(1)))
    return made


def _meant(query: exp.Expression, node: exp.Expression) -> exp.Expression:
    """The expression of the column that a number or a name refers to."""
    place = sort_place(query, unwrapped(node))
    if place is None or any(each.is_star for each in query.expressions):
        return unwrapped(node).copy()
    return unwrapped(query.expressions[place]).copy()


def with_condition(select: exp.Select, columns: Collection[str]) -> exp.Select:
    """The SELECT with the condition of QUALIFY as its last column. A name in it that none of the `columns` of FROM has
    refers to the column of the SELECT with that name."""
    made = select.copy()
    condition = made.args["qualify"].this.copy()
    made.set("qualify", None)
    aliases = [each for each in made.expressions if isinstance(each, exp.Alias)]
    named = {each.alias.lower(): each.this for each in aliases if each.alias.lower() not in columns}

    def meant(node: exp.Expression) -> exp.Expression:
        is_name = isinstance(node, exp.Column) and node.args.get("table") is None
        return exp.Paren(this=named[node.name.lower()].copy()) if is_name and node.name.lower() in named else node

    made.append("expressions", exp.alias_(condition.transform(meant), "qualified", quoted=True))
    return made


def qualified(translation: Translation, rows: RowSet, select: exp.Select, around: Scope | None) -> RowSet:
    """The rows whose last column is true, without that column."""
    block, node = Block(translation, Scope(around)), select.args["qualify"].this
    branches = [
        Branch((*b.parts, is_true(block, b.values[-1], node)), b.values[:-1], b.identity, b.span) for b in rows.branches
    ]
    return RowSet(rows.names[:-1], tuple(branches))
