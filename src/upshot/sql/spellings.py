"""Rewrite alternative spellings in a parsed tree to one form.

`x = ANY (ARRAY[1, 2])` is `x IN (1, 2)`, `every` is `bool_and`, `to_char(day, 'YYYY-MM')` joins parts of the date, and
`array_agg` is PostgreSQL's text of the array, computed by `string_agg`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce

from sqlglot import exp

from upshot.values.functors import bare_name

ELEMENT = "element"
"""The key in `meta` of a `string_agg` that replaces `array_agg`: the aggregated value."""

OUTPUT = "output"
"""The key in `meta` of a cast to text that prints a boolean as `t` or `f`, as PostgreSQL does in arrays and CONCAT."""

Change = Callable[[exp.Expression], exp.Expression | None]

_PARTS: Mapping[str, tuple[str, int]] = {
    "%Y": ("year", 4), "%m": ("month", 2), "%d": ("day", 2), "%H": ("hour", 2), "%M": ("minute", 2),
    "%S": ("second", 2),
}  # fmt: skip
_FORMAT = re.compile(r"%[YmdHMS]|[-/:., T_]+")
_QUOTED = '{}",\\ \t\n\r\v\f'
"""The characters that must be quoted in an element of an array."""


def in_one_spelling(tree: exp.Expr, functors: Mapping[str, str]) -> None:
    """Rewrite all alternative spellings in the tree; `functors` are functions of the user."""
    own = {bare_name(signed).lower() for signed in functors.values()}
    # Innermost nodes first, since outer ones copy them.
    for node in reversed(list(tree.find_all(*_CHANGES, bfs=False))):
        if isinstance(node, exp.Anonymous) and node.name.lower() in own:
            continue
        made = _CHANGES[type(node)](node)
        if made is not None:
            node.replace(made)


def _anonymous(node: exp.Expression) -> exp.Expression | None:
    word, values = node.name.lower(), node.expressions
    if word == "every" and len(values) == 1:
        return exp.LogicalAnd(this=values[0].copy())
    if word == "row" and values:
        return exp.Tuple(expressions=[each.copy() for each in values])
    return None


def _in_list(node: exp.Expression) -> exp.Expression | None:
    """`x = ANY (ARRAY[…])` and `x <> ALL (ARRAY[…])`."""
    side = node.expression
    is_any = isinstance(side, exp.Any)
    is_all = isinstance(side, exp.All) or (isinstance(side, exp.Anonymous) and side.name.upper() == "ALL")
    if not (is_any if isinstance(node, exp.EQ) else is_all):
        return None
    values = side.expressions[0] if isinstance(side, exp.Anonymous) and side.expressions else side.this
    values = values.unnest()
    if not isinstance(values, exp.Array) or not values.expressions:
        return None
    if any(isinstance(each, exp.Query | exp.Subquery) for each in values.expressions):
        return None
    found = exp.In(this=node.this.copy(), expressions=[each.copy() for each in values.expressions])
    return found if is_any else exp.Not(this=found)


def _starts(node: exp.Expression) -> exp.Expression:
    text, start = node.this, node.expression
    first = exp.Left(this=text.copy(), expression=exp.Length(this=start.copy()))
    return exp.Paren(this=first.eq(start))


def _date_text(node: exp.Expression) -> exp.Expression | None:
    """`to_char` of a date or timestamp with numeric parts, which have leading zeros."""
    form = node.args.get("format")
    if not isinstance(form, exp.Literal) or not form.is_string or not form.name or _FORMAT.sub("", form.name):
        return None
    parts: list[exp.Expression] = []
    for piece in _FORMAT.findall(form.name):
        if piece not in _PARTS:
            parts.append(exp.Literal.string(piece))
            continue
        field, width = _PARTS[piece]
        value: exp.Expression = exp.Extract(this=exp.var(field), expression=node.this.copy())
        value = exp.cast(exp.Floor(this=value) if field == "second" else value, "bigint")
        parts.append(
            exp.Pad(
                this=exp.cast(value, "text"), expression=exp.Literal.number(width),
                fill_pattern=exp.Literal.string("0"), is_left=True,
            )
        )  # fmt: skip
    return exp.Paren(this=reduce(_joined, parts))


def _array_text(node: exp.Expression) -> exp.Expression | None:
    """`array_agg(x ORDER BY …)`: the texts of the elements in braces, quoted as in PostgreSQL."""
    order = node.this.expressions if isinstance(node.this, exp.Order) else []
    value = node.this.this if isinstance(node.this, exp.Order) else node.this
    distinct = isinstance(value, exp.Distinct)
    if distinct:
        if len(value.expressions) != 1:
            return None
        value = value.expressions[0]
    keys = [each.copy() for each in order] or [exp.Ordered(this=value.copy(), nulls_first=False)]
    element = _element(value)
    inner = exp.Distinct(expressions=[element]) if distinct else element
    made: exp.Expression = exp.GroupConcat(
        this=exp.Order(this=inner, expressions=keys), separator=exp.Literal.string(",")
    )
    made.meta[ELEMENT] = value.copy()
    target = node.parent if isinstance(node.parent, exp.Filter) else node
    parent = target.parent
    if isinstance(target, exp.Filter):
        made = exp.Filter(this=made, expression=target.args["expression"].copy())
    parts: list[exp.Expression] = [exp.Literal.string("{"), made, exp.Literal.string("}")]
    found: exp.Expr = reduce(_joined, parts)
    if isinstance(parent, exp.Select):
        found = exp.alias_(found, "array_agg", quoted=True)
    target.replace(found if isinstance(parent, exp.Select | exp.Alias) else exp.Paren(this=found))
    return None


def output_text(value: exp.Expression) -> exp.Expression:
    """The value as PostgreSQL prints it, which differs from a cast for booleans."""
    made = exp.Cast(this=value.copy(), to=exp.DataType.build("text"))
    made.meta[OUTPUT] = True
    return made


def _element(value: exp.Expression) -> exp.Expression:
    if isinstance(value, exp.Predicate | exp.Connector | exp.Not):
        return _letter(value)
    text = output_text(value)
    plain = exp.Translate(this=text.copy(), from_=_text(_QUOTED), to=_text(""))
    needs_quotes = exp.or_(text.eq(_text("")), exp.Upper(this=text.copy()).eq(_text("NULL")), plain.neq(text))
    escaped: exp.Expression = text.copy()
    for character in ("\\", '"'):
        escaped = exp.Replace(this=escaped, expression=_text(character), replacement=_text("\\" + character))
    quoted = reduce(_joined, [_text('"'), escaped, _text('"')])
    return exp.case().when(value.is_(exp.null()), _text("NULL")).when(needs_quotes, quoted).else_(text)


def _letter(condition: exp.Expression) -> exp.Expression:
    return exp.case().when(condition, _text("t")).when(exp.not_(condition), _text("f")).else_(_text("NULL"))


def _text(value: str) -> exp.Literal:
    return exp.Literal.string(value)


def _escaped_text(node: exp.Expression) -> exp.Expression:
    """`E'…'`, whose escapes the parser has replaced."""
    return exp.Literal.string(node.name)


def _without_limit(node: exp.Expression) -> None:
    """`LIMIT ALL`."""
    if isinstance(node.expression, exp.Var) and node.expression.name.upper() == "ALL":
        node.pop()


def _joined(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    return exp.DPipe(this=left, expression=right)


_CHANGES: Mapping[type[exp.Expression], Change] = {
    exp.Anonymous: _anonymous, exp.EQ: _in_list, exp.NEQ: _in_list, exp.StartsWith: _starts,
    exp.TimeToStr: _date_text, exp.ArrayAgg: _array_text, exp.ByteString: _escaped_text, exp.Limit: _without_limit,
}  # fmt: skip
