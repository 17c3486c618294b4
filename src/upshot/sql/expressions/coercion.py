"""Values brought to one type, where that changes none of them; refused where it would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from upshot.core.types import FLOAT, MOST_DIGITS, NUMBER, NUMBER_RANGE, SYMBOL, Kind, Type
from upshot.sql.expressions.values import Case, Value, combined
from upshot.sql.trouble import Statement
from upshot.syntax import literals
from upshot.syntax.ast import Call, Constant, Term

NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL)


def common_type(statement: Statement, values: Sequence[Value], nodes: Sequence[exp.Expression]) -> Type | None:
    """The type that all values have or can be given; None if all are NULL."""
    typed = [(value, node) for value, node in zip(values, nodes, strict=True) if value.type is not None]
    if not typed:
        return None
    # What is written as a literal takes the type of what is not.
    fixed = [(value, node) for value, node in typed if value.constant is None] or typed
    types = [value.type for value, _ in fixed if value.type is not None]
    result = types[0]
    for value, node in fixed[1:]:
        assert value.type is not None
        result = _wider(statement, result, value.type, node, all_literals=fixed is typed)
    for value, node in typed:
        if value.constant is not None and fixed is not typed:
            result = _with_literal(statement, result, value, node)
    return replace(result, nullable=any(value.nullable for value in values))


def _wider(statement: Statement, left: Type, right: Type, node: exp.Expression, *, all_literals: bool) -> Type:
    if left.kind is right.kind:
        if left.kind is Kind.DECIMAL:
            scale = max(left.scale, right.scale)
            whole = max(left.precision - left.scale, right.precision - right.scale)
            return Type(Kind.DECIMAL, precision=min(whole + scale, MOST_DIGITS), scale=scale)
        return left if left.name == right.name else Type(left.kind)
    if all_literals and left.kind in NUMERIC and right.kind in NUMERIC:
        order = (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL, Kind.FLOAT)
        return max(left, right, key=lambda type: order.index(type.kind))
    return _mismatch(statement, left, right, node)


def _with_literal(statement: Statement, type: Type, literal: Value, node: exp.Expression) -> Type:
    constant = literal.constant
    assert constant is not None
    assert literal.type is not None
    if type.kind is literal.type.kind and type.kind is not Kind.DECIMAL:
        return type
    if type.kind is Kind.DECIMAL and literal.kind in (Kind.DECIMAL, Kind.NUMBER):
        scale = max(type.scale, literal.type.scale)
        whole = max(type.precision - type.scale, len(str(abs(int(constant.value or 0)))))
        return Type(Kind.DECIMAL, precision=min(whole + scale, MOST_DIGITS), scale=scale)
    if type.kind is Kind.FLOAT and literal.kind in (Kind.DECIMAL, Kind.NUMBER):
        return type
    if type.kind is Kind.UNSIGNED and literal.kind is Kind.NUMBER:
        return type
    if type.kind in (Kind.DATE, Kind.TIMESTAMP) and literal.kind is Kind.SYMBOL:
        return type
    return _mismatch(statement, type, literal.type, node)


def _mismatch(statement: Statement, left: Type, right: Type, node: exp.Expression) -> Type:
    both = {left.kind, right.kind}
    hint = "use columns of one type"
    if both <= set(NUMERIC):
        hint = "no lossless conversion exists: declare both with one type"
    elif Kind.SYMBOL in both and Kind.NUMBER in both:
        hint = "convert one of them: CAST(… AS TEXT) or CAST(… AS BIGINT)"
    statement.refuse(
        "type-mismatch",
        f"types `{right.required()}` and `{left.required()}` do not match",
        node,
        help=hint,
        label=f"`{right.required()}`",
    )


def coerced(statement: Statement, value: Value, type: Type | None, node: exp.Expression) -> Value:
    """The value as one of the type, which `common_type` has found."""
    if type is None or value.type is None:
        return Value(value.cases, None if type is None else type.optional())
    nullable = value.nullable
    if value.constant is not None:
        constant = literal_as(statement, value.constant, type, node)
        return Value((Case((), constant),), replace(type, nullable=nullable))
    if type.kind is Kind.DECIMAL and value.type.scale < type.scale:
        zero = literals.tagged("decimal", f"{Decimal(0).scaleb(-type.scale):f}")
        return combined([value], lambda terms: Call("+", (terms[0], zero)), type)
    return Value(value.cases, replace(type, nullable=nullable))


def literal_as(statement: Statement, constant: Constant, type: Type, node: exp.Expression) -> Constant:
    """The literal as a constant of the type."""
    value = constant.value
    if value is None:
        return constant
    if type.kind is Kind.FLOAT and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Constant(float(value), FLOAT)
    if type.kind is Kind.DECIMAL and isinstance(value, int | Decimal):
        spelling = f"{Decimal(value):f}"
        scaled = f"{Decimal(value):.{type.scale}f}"
        # With the places of its type, as far as it has room for them: a comparison does not need them.
        fits = Decimal(scaled) == value and len(scaled.strip("-").replace(".", "")) <= MOST_DIGITS
        return _tagged(statement, "decimal", scaled if fits else spelling, node)
    if type.kind is Kind.UNSIGNED and isinstance(value, int):
        return Constant(value, Type(Kind.UNSIGNED))
    if type.kind in (Kind.DATE, Kind.TIMESTAMP) and isinstance(value, str):
        return _tagged(statement, type.kind.value, value.strip(), node)
    return constant


def _tagged(statement: Statement, kind: str, spelling: str, node: exp.Expression) -> Constant:
    try:
        return literals.tagged(kind, spelling)
    except literals.BadLiteral as error:
        cure = {"date": "2026-01-31", "timestamp": "2026-01-31 10:00:00Z"}.get(kind, "1.50")
        statement.refuse(error.slug, error.message, node, help=f"write it as {cure}")


def literal(statement: Statement, node: exp.Literal, *, negative: bool = False) -> Value:
    """The value of a literal."""
    if node.is_string:
        return Value((Case((), Constant(node.name, SYMBOL)),), SYMBOL)
    spelling = node.name
    if spelling.isdigit():
        number = -int(spelling) if negative else int(spelling)
        if number not in NUMBER_RANGE:
            statement.refuse(
                "number-out-of-range", f"{number} does not fit in 64 bits", node, help="numbers have 64 bits"
            )
        return Value((Case((), Constant(number)),), NUMBER)
    if "e" in spelling.lower():
        constant: Term = Constant((-float(spelling) if negative else float(spelling)) or 0.0, FLOAT)
        return Value((Case((), constant),), FLOAT)
    whole, _, fraction = spelling.partition(".")
    found = _tagged(statement, "decimal", f"{'-' * negative}{whole or '0'}.{fraction or '0'}", node)
    # What is computed from it may have more digits.
    return Value((Case((), found),), found.type.widest() if found.type is not None else None)


def cast(statement: Statement, value: Value, type: Type, node: exp.Expression) -> Value:
    """`CAST(value AS type)`, where it is exact."""
    type = replace(type, nullable=value.nullable)
    if value.type is None:
        return Value(value.cases, type.optional())
    if value.kind is type.kind and (value.type.scale, value.type.precision) == (type.scale, type.precision):
        return Value(value.cases, type)
    if (constant := value.constant) is not None:
        return _cast_literal(statement, constant, type, node)
    if value.kind is Kind.DECIMAL is type.kind and _holds_all(type, value.type):
        return coerced(statement, value, type, node)
    if value.kind in (Kind.NUMBER, Kind.UNSIGNED) and type.kind is Kind.SYMBOL:
        return combined([value], lambda terms: Call("to_string", tuple(terms)), SYMBOL)
    if value.kind is Kind.SYMBOL and type.kind is Kind.NUMBER:
        return combined([value], lambda terms: Call("to_number", tuple(terms)), NUMBER)
    statement.unsupported(
        f"a cast from `{value.type.required()}` to `{type.required()}`",
        node,
        help="declare the column with the needed type",
    )


def _holds_all(wide: Type, narrow: Type) -> bool:
    """Whether every decimal of the narrow type is one of the wide type."""
    return narrow.scale <= wide.scale and narrow.precision - narrow.scale <= wide.precision - wide.scale


def _cast_literal(statement: Statement, constant: Constant, type: Type, node: exp.Expression) -> Value:
    value = constant.value
    fits = {
        Kind.DATE: isinstance(value, str),
        Kind.TIMESTAMP: isinstance(value, str),
        Kind.SYMBOL: isinstance(value, int) and not isinstance(value, bool),
        Kind.FLOAT: isinstance(value, int | Decimal) and not isinstance(value, bool),
        Kind.UNSIGNED: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        Kind.DECIMAL: isinstance(value, int | Decimal) and not isinstance(value, bool),
        Kind.NUMBER: isinstance(value, int) and not isinstance(value, bool),
    }
    if not fits.get(type.kind, False):
        statement.unsupported(f"this cast to `{type.required()}`", node, help="write a literal of that type")
    if type.kind is Kind.SYMBOL:
        return Value((Case((), Constant(str(value), SYMBOL)),), SYMBOL)
    if type.kind is Kind.DECIMAL:
        number = Decimal(value)
        if number != round(number, type.scale) or abs(number) >= Decimal(10) ** (type.precision - type.scale):
            statement.unsupported(f"rounding to `{type.required()}`", node, help="write the rounded number")
        return Value((Case((), _tagged(statement, "decimal", f"{number:.{type.scale}f}", node)),), type)
    return Value((Case((), literal_as(statement, constant, type, node)),), type)
