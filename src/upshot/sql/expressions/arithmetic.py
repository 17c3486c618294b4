"""Arithmetic with the types of PostgreSQL: operands are converted to the widest of integer, decimal and float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.core.types import FLOAT, MOST_DIGITS, NUMBER, Kind, Type
from upshot.sql.expressions import dates
from upshot.sql.expressions.coercion import NUMERIC, coerced, least_scale, literal, operands, zero
from upshot.sql.expressions.values import NULL, Value, applied, call, combined
from upshot.syntax.ast import Constant
from upshot.values.functions import FUNCTIONS

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

_SIGNS: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_SIGNED = (Kind.NUMBER, Kind.FLOAT, Kind.DECIMAL)


def refuse_kind(block: Block, node: exp.Expression, values: Sequence[Value], kinds: Sequence[Kind] = NUMERIC) -> None:
    for value in values:
        if value.type is not None and value.kind not in kinds:
            block.statement.refuse(
                "type-mismatch",
                f"`{value.type.required()}` cannot be used in arithmetic here",
                node,
                help="use numbers" if value.kind not in NUMERIC else "convert it with CAST",
            )


def _arithmetic(block: Block, node: exp.Expression) -> Value:
    if (made := dates.arithmetic(block, node)) is not None:
        return made
    function = _SIGNS[type(node)]
    nodes = (node.this, node.expression)
    values = [block.value(each) for each in nodes]
    refuse_kind(block, node, values)
    kinds = {value.kind for value in values}
    if Kind.DECIMAL in kinds and kinds <= {Kind.DECIMAL, Kind.NUMBER}:
        return _of_decimals(block, node, function, values)
    values, type_ = operands(block, nodes)
    return NULL if type_ is None else applied(function, values, Type(type_.kind))


def _of_decimals(block: Block, node: exp.Expression, function: str, values: Sequence[Value]) -> Value:
    """Arithmetic of decimals: a product has the decimal places of both operands, any other result the most of them."""
    places = FUNCTIONS[function].scale
    scales = [_scale(value) for value in values]
    if places(scales) > MOST_DIGITS:
        # The result does not need trailing zeros of literals.
        scales = [
            scale if v.constant is None else least_scale(v.constant) for v, scale in zip(values, scales, strict=True)
        ]
    scale = places(scales)
    expected = scales if function in ("*", "quotient") else [scale] * len(values)
    parts = [
        coerced(block.statement, value, _decimal(each), part)
        for value, each, part in zip(values, expected, (node.this, node.expression), strict=True)
    ]
    return applied(function, parts, _decimal(scale))


def _decimal(scale: int) -> Type:
    return Type(Kind.DECIMAL, scale=scale).widest()


def _scale(value: Value) -> int:
    return value.type.scale if value.type is not None else 0


def _division(block: Block, node: exp.Expression) -> Value:
    values, type_ = operands(block, (node.this, node.expression))
    refuse_kind(block, node, values)
    if type_ is None:
        return NULL
    if type_.kind is Kind.DECIMAL:
        if isinstance(node, exp.IntDiv):
            block.statement.unsupported("DIV of decimals", node, help="divide with `/`")
        return _of_decimals(block, node, "quotient", [block.value(each) for each in (node.this, node.expression)])
    whole = type_.kind is not Kind.FLOAT
    if whole and isinstance(node, exp.Div) and not node.args.get("typed"):
        block.statement.unsupported("division of integers", node, help="write `a DIV b` for integer division")
    if not whole and isinstance(node, exp.IntDiv):
        block.statement.unsupported("DIV of floats", node, help="divide with `/`")
    return combined(values, lambda terms: call("/", terms), Type(type_.kind))


def _modulo(block: Block, node: exp.Expression) -> Value:
    values = [block.value(each) for each in (node.this, node.expression)]
    refuse_kind(block, node, values, (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL))
    if Kind.DECIMAL in {value.kind for value in values}:
        return _of_decimals(block, node, "%", values)
    values, type_ = operands(block, (node.this, node.expression))
    return NULL if type_ is None else combined(values, lambda terms: call("%", terms), Type(type_.kind))


def negated(block: Block, node: exp.Neg) -> Value:
    """`-a`"""
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return literal(block.statement, inner, negative=True)
    value = block.value(inner)
    refuse_kind(block, node, [value], _SIGNED)
    return applied("neg", [value], value.type)


def _absolute(block: Block, node: exp.Expression) -> Value:
    value = block.value(node.this)
    refuse_kind(block, node, [value], _SIGNED)
    return combined([value], lambda terms: call("max", (terms[0], call("neg", (terms[0],)))), value.type)


# ---- rounding -----------------------------------------------------------------------------------


def _rounded(block: Block, node: exp.Expression) -> Value:
    """ROUND, TRUNC with or without a number of places, CEIL and FLOOR."""
    value = block.value(node.this)
    refuse_kind(block, node, [value])
    if value.type is None:
        return NULL
    cuts = isinstance(node, exp.Trunc)
    if isinstance(node, exp.Round | exp.Trunc) and (node.args.get("decimals") is not None or cuts):
        return _to_places(block, node, value, "truncate_to" if cuts else "round_to")
    if value.kind is Kind.NUMBER:
        return value
    name = node.key
    if node.args.get("decimals") is not None or node.args.get("to") is not None:
        block.statement.unsupported(f"{name.upper()} with a number of places", node, help="use ROUND or TRUNC")
    return applied(name, [value], value.type)


def _to_places(block: Block, node: exp.Expression, value: Value, function: str) -> Value:
    written = node.args.get("decimals")
    places = block.value(written).constant if written is not None else Constant(0)
    if places is None or not isinstance(places.value, int) or not -MOST_DIGITS <= places.value <= MOST_DIGITS:
        block.statement.unsupported(
            "rounding to a computed number of places", node, help=f"write the number, at most {MOST_DIGITS}"
        )
    scale = max(places.value, 0)
    type_ = _decimal(scale)
    made = combined([value], lambda terms: call(function, (terms[0], Constant(places.value), zero(scale))), type_)
    if value.kind is Kind.NUMBER:
        return applied("to_integer", [made], NUMBER)
    return made


def _power(block: Block, node: exp.Expression) -> Value:
    """`a ^ b` and `power(a, b)`, which are floats."""
    values = [block.value(each) for each in (node.this, node.expression)]
    refuse_kind(block, node, values)
    floats = [coerced(block.statement, v, FLOAT, n) for v, n in zip(values, (node.this, node.expression), strict=True)]
    return combined(floats, lambda terms: call("^", terms), FLOAT)


def _of_float(block: Block, node: exp.Expression) -> Value:
    """SQRT, LN and EXP, which are floats."""
    value = block.value(node.this)
    refuse_kind(block, node, [value])
    name = node.key
    return applied(name, [coerced(block.statement, value, FLOAT, node)], FLOAT)


def _sign(block: Block, node: exp.Expression) -> Value:
    """SIGN as the comparison with 0 on both sides."""
    value = node.this
    return block.value(exp.case().when(value > 0, "1").when(value < 0, "-1").when(value.eq(0), "0"))


ARITHMETIC: dict[type[exp.Expression], Callable[[Block, exp.Expression], Value]] = {
    **dict.fromkeys(_SIGNS, _arithmetic),
    exp.Div: _division,
    exp.IntDiv: _division,
    exp.Mod: _modulo,
    exp.Abs: _absolute,
    **dict.fromkeys((exp.Round, exp.Trunc, exp.Ceil, exp.Floor), _rounded),
    exp.Pow: _power,
    **dict.fromkeys((exp.Sqrt, exp.Ln, exp.Exp), _of_float),
    exp.Sign: _sign,
}
