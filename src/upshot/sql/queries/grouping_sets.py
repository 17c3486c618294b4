"""ROLLUP, CUBE and GROUPING SETS as a union of grouped queries, and EXCEPT ALL as a comparison of counts."""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.sql.trees import column_name, is_aggregate, unwrapped

if TYPE_CHECKING:
    from upshot.sql.translation import Translation

_KINDS = (exp.GroupingSets, exp.Cube, exp.Rollup)
_MOST_SETS = 64
_Key = tuple[exp.Expression, ...]


def has_grouping_sets(select: exp.Select) -> bool:
    """Test whether GROUP BY has more than one grouping set."""
    group = select.args.get("group")
    return group is not None and any(isinstance(each, _KINDS) for each in _elements(group))


def _elements(group: exp.Expression) -> list[exp.Expression]:
    """The parts of GROUP BY, which the tree has in several places."""
    return [*group.expressions, *(e for key in ("grouping_sets", "cube", "rollup") for e in group.args.get(key) or [])]


def one_query_each(translation: Translation, select: exp.Select) -> exp.Expression:
    """The union of one query for each grouping set: keys that are not in the set are NULL."""
    group = select.args["group"]
    choices: list[list[list[_Key]]] = []
    for node in _elements(group):
        choices.append(_sets(select, node) if isinstance(node, _KINDS) else [[(_meant(select, node),)]])
    sets = [list(chain.from_iterable(chosen)) for chosen in product(*choices)]
    if len(sets) > _MOST_SETS:
        translation.statement.unsupported(
            f"GROUP BY with {len(sets)} sets of keys", group, help=f"write at most {_MOST_SETS}, or a view for each"
        )
    every = list({node.sql(): node for chosen in sets for key in chosen for node in key}.values())
    queries = [_grouped(select, every, [node for key in chosen for node in key]) for chosen in sets]
    whole: exp.Expression = queries[0]
    for query in queries[1:]:
        whole = exp.Union(this=whole, expression=query, distinct=False)
    return whole


def _meant(select: exp.Select, node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(select.expressions):
        return unwrapped(select.expressions[int(node.name) - 1])
    return unwrapped(node)


def _sets(select: exp.Select, node: exp.Expression) -> list[list[_Key]]:
    keys = [_key(select, each) for each in node.expressions]
    if isinstance(node, exp.Rollup):
        return [keys[:count] for count in range(len(keys), -1, -1)]
    if isinstance(node, exp.Cube):
        return [list(each) for count in range(len(keys), -1, -1) for each in combinations(keys, count)]
    found: list[list[_Key]] = []
    for each in node.expressions:
        found += _sets(select, each) if isinstance(each, exp.Rollup | exp.Cube) else [[_key(select, each)]]
    return found


def _key(select: exp.Select, node: exp.Expression) -> _Key:
    nodes = node.expressions if isinstance(node, exp.Tuple) else [node]
    return tuple(_meant(select, each) for each in nodes)


def _grouped(select: exp.Select, every: list[exp.Expression], keys: list[exp.Expression]) -> exp.Select:
    """The query with these keys; other keys are NULL outside aggregates."""
    kept = {node.sql() for node in keys}
    missing = {node.sql() for node in every} - kept
    query = select.copy()
    query.set("with_", None)
    unique = {node.sql(): node.copy() for node in keys}
    query.set("group", exp.Group(expressions=list(unique.values())) if keys else None)
    query.set("expressions", [_named(each, missing, kept) for each in query.expressions])
    having = query.args.get("having")
    if having is not None:
        having.set("this", _replaced(having.this, missing, kept))
    elif not keys:
        query.set("having", exp.Having(this=exp.true()))
    return query


def _named(node: exp.Expression, missing: set[str], kept: set[str]) -> exp.Expression:
    name = column_name(node)
    made = _replaced(unwrapped(node), missing, kept)
    return exp.Alias(this=made, alias=name.copy()) if name is not None else made


def _replaced(root: exp.Expression, missing: set[str], kept: set[str]) -> exp.Expression:
    """The expression with NULL for the missing keys, but for those in aggregates and subqueries."""

    def visit(node: exp.Expression) -> exp.Expression:
        if node.sql() in missing:
            return exp.Null()
        if isinstance(node, exp.Grouping):
            bits = "".join("0" if unwrapped(each).sql() in kept else "1" for each in node.expressions)
            return exp.Literal.number(int(bits, 2))
        # A copy ends the descent.
        return node.copy() if isinstance(node, exp.Query) or is_aggregate(node) else node

    return root.transform(visit)


def as_counts(query: exp.Expression, width: int) -> exp.Select:
    """`a EXCEPT ALL b` or `a INTERSECT ALL b` as a set: the rows of the result, each with the number of its copies."""
    names = [f"column{place}" for place in range(1, width + 1)]
    counts = ("left_rows", "right_rows")
    sides = []
    for place, side in enumerate((query.this, query.expression)):
        table = exp.Subquery(
            this=side.copy(),
            alias=exp.TableAlias(this=exp.to_identifier("side"), columns=list(map(exp.to_identifier, names))),
        )
        marks = [exp.alias_(exp.Literal.number(int(place == at)), name) for at, name in enumerate(counts)]
        sides.append(exp.select(*names, *marks).from_(table))
    both = exp.Subquery(
        this=exp.Union(this=sides[0], expression=sides[1], distinct=False),
        alias=exp.TableAlias(this=exp.to_identifier("counted")),
    )
    left, right = (exp.Sum(this=exp.column(name)) for name in counts)
    test: exp.Expr = left > right
    times: exp.Expr = left - right
    if isinstance(query, exp.Intersect):
        test, times = exp.and_(left > 0, right > 0), exp.Least(this=left.copy(), expressions=[right.copy()])
    return exp.select(*names, exp.alias_(times, "times")).from_(both).group_by(*names).having(test)
