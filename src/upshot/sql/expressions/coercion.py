"""Convert values to a common type without loss; refuse conversions that lose something."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from sqlglot import exp

from upshot.check.types.constants import fit
from upshot.core.types import (
    BOOLEAN,
    DATE,
    FLOAT,
    MOST_DIGITS,
    NUMBER,
    NUMBER_RANGE,
    SYMBOL,
    TIMESTAMP,
    WIDE_DIGITS,
    Kind,
    Type,
    most_digits,
)
from upshot.sql.expressions.values import Case, Value, applied, call, combined
from upshot.sql.trouble import Statement
from upshot.syntax import literals
from upshot.syntax.ast import Constant, Term
from upshot.values.numeric_functions import at_scale

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
NUMERIC = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL)


def common_type(statement: Statement, values: Sequence[Value], nodes: Sequence[exp.Expression]) -> Type | None:
    """The common type of all values; None if all are NULL."""
    typed = [(value, node) for value, node in zip(values, nodes, strict=True) if value.type is not None]
    if not typed:
        return None
    # Literals take the type of the other values.
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


_ORDER = (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL, Kind.FLOAT)
"""Of two numbers of different kinds, the one whose kind is first here is converted to the other, as in PostgreSQL."""
_TIMES = (Kind.DATE, Kind.TIMESTAMP)


def _wider(statement: Statement, left: Type, right: Type, node: exp.Expression, *, all_literals: bool) -> Type:
    if left.kind is right.kind:
        if left.kind is Kind.DECIMAL:
            return _both_decimal(left, right)
        return left if left.name == right.name else Type(left.kind)
    both = {left.kind, right.kind}
    if both <= set(NUMERIC) and (all_literals or both != {Kind.NUMBER, Kind.UNSIGNED}):
        return replace(max(left, right, key=lambda type: _ORDER.index(type.kind)), name="").widest()
    if both <= set(_TIMES):
        return Type(Kind.TIMESTAMP)
    if all_literals and Kind.SYMBOL in both and both & set(_TIMES):
        return left if left.kind in _TIMES else right
    return _mismatch(statement, left, right, node)


def _both_decimal(left: Type, right: Type) -> Type:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _sized(whole, scale)


def _sized(whole: int, scale: int) -> Type:
    """The decimal type with these digits before and after the point, or with the most that decimals can have."""
    most = most_digits(scale)
    return Type(Kind.DECIMAL, precision=min(whole + scale, most) if most == MOST_DIGITS else most, scale=scale)


def _with_literal(statement: Statement, type: Type, literal: Value, node: exp.Expression) -> Type:
    """The type of the other values, or the wider one that the literal needs."""
    constant = literal.constant
    assert constant is not None
    assert literal.type is not None
    if type.kind is literal.type.kind and type.kind is not Kind.DECIMAL:
        return type
    if type.kind is Kind.DECIMAL and literal.kind in (Kind.DECIMAL, Kind.NUMBER):
        scale = min(max(type.scale, least_scale(constant)), WIDE_DIGITS)
        whole = max(type.precision - type.scale, len(str(abs(int(constant.value or 0)))))
        return _sized(whole, scale)
    if type.kind is Kind.FLOAT and literal.kind in (Kind.DECIMAL, Kind.NUMBER):
        return type
    if type.kind is Kind.UNSIGNED and literal.kind is Kind.NUMBER:
        return type
    if type.kind in (*_TIMES, Kind.RECORD, Kind.BOOLEAN) and literal.kind is Kind.SYMBOL:
        return type
    if type.kind is Kind.DATE and literal.kind is Kind.TIMESTAMP and _is_midnight(constant):
        return type
    if literal.kind is Kind.RECORD:
        statement.refuse("type-mismatch", f"`{constant.value!r}` is no `{type.required()}`", node, help=_BESIDE)
    if type.kind is not literal.kind and {type.kind, literal.kind} in ({Kind.NUMBER, Kind.UNSIGNED},):
        return _mismatch(statement, type, literal.type, node)
    return _wider(statement, type, literal.type, node, all_literals=False)


def _is_midnight(constant: Constant) -> bool:
    time = constant.value
    return isinstance(time, datetime.datetime) and time.time() == datetime.time()


def least_scale(constant: Constant) -> int:
    """The decimal places that a literal needs, without trailing zeros."""
    return len(f"{Decimal(constant.value or 0):f}".partition(".")[2].rstrip("0"))


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


def operands(block: Block, nodes: Sequence[exp.Expression]) -> tuple[list[Value], Type | None]:
    """The values of the expressions converted to one type, and this type."""
    return unified(block.statement, [block.value(node) for node in nodes], nodes)


def unified(
    statement: Statement, values: Sequence[Value], nodes: Sequence[exp.Expression]
) -> tuple[list[Value], Type | None]:
    """The values converted to one type, and this type."""
    type = common_type(statement, values, nodes)
    return [coerced(statement, value, type, node) for value, node in zip(values, nodes, strict=True)], type


def coerced(statement: Statement, value: Value, type: Type | None, node: exp.Expression) -> Value:
    """The value converted to the type, which is a result of `common_type`."""
    if type is None or value.type is None:
        return Value(value.cases, None if type is None else type.optional())
    nullable = value.nullable
    if value.constant is not None:
        constant = literal_as(statement, value.constant, type, node)
        return Value((Case((), constant),), replace(type, nullable=nullable))
    if type.kind is Kind.DECIMAL is value.kind and value.type.scale < type.scale:
        return combined([value], lambda terms: call("+", (terms[0], zero(type.scale))), type)
    if value.kind is not type.kind and (made := _conversion(value.type, type)) is not None:
        return combined([value], made, type)
    return Value(value.cases, replace(type, nullable=nullable))


def require_kind(
    statement: Statement, value: Value, kinds: Sequence[Kind], what: str, node: exp.Expression, *, help: str
) -> Value:
    """The value, if it is of one of the kinds or NULL; any other is refused."""
    if value.type is not None and value.kind not in kinds:
        statement.refuse("type-mismatch", f"`{value.type.required()}` is not {what}", node, help=help)
    return value


def zero(scale: int) -> Constant:
    """The decimal 0 with this scale."""
    return literals.tagged("decimal", f"{Decimal(0).scaleb(-scale):f}")


def _conversion(have: Type, want: Type) -> Callable[[Sequence[Term]], Term] | None:
    """The function that converts values of one type to the other, without loss or as in PostgreSQL."""
    if want.kind is Kind.FLOAT and have.kind in NUMERIC:
        return lambda terms: call("to_float", terms)
    if want.kind is Kind.DECIMAL and have.kind in NUMERIC:
        return lambda terms: call("to_decimal", (terms[0], zero(want.scale)))
    if want.kind is Kind.TIMESTAMP and have.kind is Kind.DATE:
        return lambda terms: call("to_timestamp", terms)
    return None


def literal_as(statement: Statement, constant: Constant, type: Type, node: exp.Expression) -> Constant:
    """The literal as a constant of the type."""
    value = constant.value
    if value is None:
        return constant
    if type.kind is Kind.RECORD:
        return _record(statement, constant, type, node)
    if type.kind is Kind.FLOAT and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Constant(float(value), FLOAT, span=constant.span)
    if type.kind is Kind.DECIMAL and isinstance(value, int | Decimal):
        spelling = f"{Decimal(value):f}"
        scaled = f"{Decimal(value):.{type.scale}f}"
        # With the scale of the type if the digits suffice: a comparison does not need it.
        fits = Decimal(scaled) == value and len(scaled.strip("-").replace(".", "")) <= most_digits(type.scale)
        return _tagged(statement, "decimal", scaled if fits else spelling, node)
    if type.kind is Kind.UNSIGNED and isinstance(value, int):
        return Constant(value, Type(Kind.UNSIGNED), span=constant.span)
    if type.kind in _TIMES and isinstance(value, str):
        spelling = value.strip()
        midnight = type.kind is Kind.TIMESTAMP and _DAY.fullmatch(spelling) is not None
        return _tagged(statement, type.kind.value, f"{spelling} 00:00:00" if midnight else spelling, node)
    if type.kind is Kind.BOOLEAN and isinstance(value, str):
        return _truth(statement, value, node)
    if type.kind is Kind.DATE and isinstance(value, datetime.datetime):
        return Constant(value.date(), DATE, span=constant.span)
    if type.kind is Kind.TIMESTAMP and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return Constant(
            datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC), TIMESTAMP, span=constant.span
        )
    return constant


def _truth(statement: Statement, text: str, node: exp.Expression) -> Constant:
    """The boolean of a text, as in PostgreSQL: a word or a prefix of one."""
    word = text.strip().lower()
    for value, words, shortest in ((True, ("true", "yes"), 1), (False, ("false", "no"), 1), (False, ("off",), 2)):
        if len(word) >= shortest and any(each.startswith(word) for each in words):
            return Constant(value, BOOLEAN)
    if word in ("on", "1", "0"):
        return Constant(word != "0", BOOLEAN)
    statement.refuse("malformed-literal", f"'{text}' is not a `boolean`", node, help="write true or false")


def _record(statement: Statement, constant: Constant, type: Type, node: exp.Expression) -> Constant:
    """The record of a text or a parameter."""
    if not type.definition:
        message = f"`{constant.value!r}` is a record, and its type is not known here"
        statement.refuse("type-mismatch", message, node, help=_BESIDE)
    value, problem = fit(constant.value, type)
    if problem:
        statement.refuse("type-mismatch", f"`{constant.value!r}` {problem}", node, help=_BESIDE)
    return Constant(value, type.required(), span=constant.span)


_BESIDE = "compare a record with a column of its type, as in p = :p with p=(1, 'a')"


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
    digits = f"{whole or '0'}.{fraction}" if fraction else whole
    found = _tagged(statement, "decimal", f"{'-' * negative}{digits}", node)
    # Results of computations with it may have more digits.
    return Value((Case((), found),), found.type.widest() if found.type is not None else None)


def cast(statement: Statement, value: Value, type: Type, node: exp.Expression) -> Value:
    """`CAST(value AS type)`, rounded as PostgreSQL rounds."""
    type = replace(type, nullable=value.nullable)
    if value.type is None:
        return Value(value.cases, type.optional())
    if value.kind is type.kind and (value.type.scale, value.type.precision) == (type.scale, type.precision):
        return Value(value.cases, type)
    if (constant := value.constant) is not None and (found := _cast_literal(statement, constant, type, node)):
        return found
    if value.kind is Kind.DECIMAL is type.kind and _holds_all(type, value.type):
        return coerced(statement, value, type, node)
    name = _CASTS.get((value.kind, type.kind))
    if name is None:
        statement.unsupported(
            f"a cast from `{value.type.required()}` to `{type.required()}`",
            node,
            help=_CURES.get((value.kind, type.kind), "declare the column with the needed type"),
        )
    if name == "to_decimal":
        return combined([value], lambda terms: call(name, (terms[0], zero(type.scale))), type)
    return applied(name, [value], type)


def to_any_decimal(statement: Statement, value: Value, node: exp.Expression) -> Value:
    """`CAST(value AS NUMERIC)`, which keeps the scale of the value."""
    if value.kind is Kind.DECIMAL or value.type is None:
        return value
    constant = value.constant
    if constant is not None and isinstance(constant.value, str):
        found = _tagged(statement, "decimal", constant.value.strip(), node)
        return Value((Case((), found),), found.type.widest() if found.type is not None else None)
    if value.kind is not Kind.NUMBER:
        statement.refuse(
            "sql-type", f"NUMERIC needs a precision and a scale for `{value.type.required()}`", node,
            help=f"as in NUMERIC({MOST_DIGITS}, 6)",
        )  # fmt: skip
    return cast(statement, value, Type(Kind.DECIMAL, precision=MOST_DIGITS), node)


_CASTS: dict[tuple[Kind | None, Kind], str] = {
    **{(kind, Kind.FLOAT): "to_float" for kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL)},
    **{(kind, Kind.DECIMAL): "to_decimal" for kind in NUMERIC},
    **{(kind, Kind.NUMBER): "to_integer" for kind in (Kind.FLOAT, Kind.DECIMAL)},
    **{(kind, Kind.SYMBOL): "to_string" for kind in (Kind.NUMBER, Kind.UNSIGNED)},
    **{(kind, Kind.SYMBOL): "to_text" for kind in (Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE, Kind.FLOAT)},
    (Kind.SYMBOL, Kind.NUMBER): "to_number",
    (Kind.DATE, Kind.TIMESTAMP): "to_timestamp",
    (Kind.TIMESTAMP, Kind.DATE): "to_date",
}
"""The supported casts, and their functions."""


_CURES: dict[tuple[Kind | None, Kind], str] = {
    (Kind.TIMESTAMP, Kind.SYMBOL): "write TO_CHAR(…, 'YYYY-MM-DD HH24:MI:SS')",
    (Kind.SYMBOL, Kind.BOOLEAN): "compare it: … = 'true'",
}


def _holds_all(wide: Type, narrow: Type) -> bool:
    """Test whether every decimal of the narrow type is one of the wide type."""
    return narrow.scale <= wide.scale and narrow.precision - narrow.scale <= wide.precision - wide.scale


def _cast_literal(statement: Statement, constant: Constant, type: Type, node: exp.Expression) -> Value | None:
    """The literal as a constant of the type; None if a function must convert it."""
    value = constant.value
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if type.kind is Kind.BOOLEAN and isinstance(value, str):
        return Value((Case((), literal_as(statement, constant, type, node)),), type)
    if type.kind in _TIMES and isinstance(value, str | datetime.date):
        return Value((Case((), literal_as(statement, constant, type, node)),), type)
    if type.kind is Kind.SYMBOL and isinstance(value, int) and not isinstance(value, bool):
        return Value((Case((), Constant(str(value), SYMBOL)),), SYMBOL)
    if type.kind is Kind.FLOAT and is_number:
        return Value((Case((), literal_as(statement, constant, type, node)),), type)
    if type.kind is Kind.UNSIGNED and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Value((Case((), literal_as(statement, constant, type, node)),), type)
    if isinstance(value, str) and type.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.NUMBER):
        return _number_in_text(statement, value, type, node)
    if type.kind is Kind.DECIMAL and is_number:
        found = at_scale(value, type.scale)
        if abs(found) >= Decimal(10) ** (type.precision - type.scale):
            statement.refuse(
                "number-out-of-range", f"{value} has too many digits for `{type.required()}`", node,
                help="cast to a type of more digits",
            )  # fmt: skip
        return Value((Case((), _tagged(statement, "decimal", f"{found:f}", node)),), type)
    return None


def _number_in_text(statement: Statement, text: str, type: Type, node: exp.Expression) -> Value:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or (type.kind is Kind.NUMBER and number != int(number)):
        statement.refuse("malformed-literal", f"'{text}' is not a `{type.required()}`", node, help="write a number")
    constant = Constant(int(number)) if type.kind is Kind.NUMBER else Constant(number)
    if type.kind is Kind.NUMBER:
        return Value((Case((), constant),), type)
    found = _cast_literal(statement, constant, type, node)
    assert found is not None
    return found
