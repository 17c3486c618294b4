"""Convert constants to the types of their places."""

from __future__ import annotations

import datetime
from decimal import Decimal, localcontext
from typing import Any

from upshot.check.findings import Findings
from upshot.core.structures import Misshapen, canonical
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, WIDE_DIGITS, Kind, Type, most_digits
from upshot.syntax.ast import Constant

_PRECISION = 400
_EXACT_FLOAT_DIGITS = 15
"""A float literal of at most this many digits can be recovered exactly from the float."""


_CLASSES: dict[Kind, tuple[type, ...]] = {
    Kind.NUMBER: (int,), Kind.UNSIGNED: (int,), Kind.FLOAT: (int, float, Decimal), Kind.SYMBOL: (str,),
    Kind.BOOLEAN: (bool,), Kind.DATE: (datetime.date,), Kind.TIMESTAMP: (datetime.datetime,),
    Kind.DECIMAL: (int, float, Decimal), Kind.RECORD: (object,),
}  # fmt: skip
"""The Python classes of constants of each kind; a record can be of any class, see `structures.canonical`."""


def fit(value: Any, type: Type) -> tuple[Any, str]:
    """The value converted to the type, and the reason why it is no value of it (empty if it is).

    >>> from upshot.core.types import FLOAT, UNSIGNED
    >>> fit(3, FLOAT), fit(-1, UNSIGNED)
    ((3.0, ''), (-1, 'is negative'))
    """
    if value is None:
        return None, ""
    if type.kind is Kind.RECORD and type.definition:
        return _fit_record(value, type)
    if not _is_of(value, type.kind):
        return value, f"is not a value of type `{type.required()}`"
    match type.kind:
        case Kind.NUMBER:
            return value, "" if int(value) in NUMBER_RANGE else "does not fit in 64 bits"
        case Kind.UNSIGNED:
            fits = int(value) in UNSIGNED_RANGE
            return value, "" if fits else "is negative" if value < 0 else "does not fit in 64 bits"
        case Kind.FLOAT:
            return _fit_float(value)
        case Kind.DECIMAL:
            return _fit_decimal(value, type)
        case Kind.TIMESTAMP if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return value.astimezone(datetime.UTC), ""
        case _:
            return value, ""


def _is_of(value: Any, kind: Kind) -> bool:
    if isinstance(value, bool) or kind is Kind.BOOLEAN:
        return isinstance(value, bool) and kind is Kind.BOOLEAN
    return isinstance(value, _CLASSES[kind]) and not (kind is Kind.DATE and isinstance(value, datetime.datetime))


def _fit_float(value: Any) -> tuple[Any, str]:
    try:
        # Adding 0.0 makes -0.0 the one zero.
        return float(value) + 0.0, ""
    except OverflowError:
        return value, "is too large for a float"


def _fit_record(value: Any, type: Type) -> tuple[Any, str]:
    try:
        return canonical(value, type), ""
    except Misshapen as wrong:
        return value, f"is not {wrong}"


def _fit_decimal(value: Any, type: Type) -> tuple[Any, str]:
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not number.is_finite():
        return value, "is not a decimal number"
    if isinstance(value, float) and len(number.as_tuple().digits) > _EXACT_FLOAT_DIGITS:
        return value, 'has too many digits for a float literal: write `decimal("…")`'
    if number.copy_abs() >= Decimal(10) ** (type.precision - type.scale):
        return value, f"has more than {type.precision - type.scale} digits before the point"
    with localcontext(prec=_PRECISION):
        rounded = number.quantize(Decimal(1).scaleb(-type.scale))
    if rounded != number:
        return value, f"has more than {type.scale} digits after the point"
    return (rounded if rounded else rounded.copy_abs()), ""


def natural_type(value: Any, kind: Kind) -> Type:
    """The type of a constant operand: a decimal keeps its own scale."""
    if kind is not Kind.DECIMAL:
        return Type(kind)
    number = value if isinstance(value, Decimal) else Decimal(repr(value or 0))
    exponent = number.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    scale = min(scale, WIDE_DIGITS)
    return Type(kind, precision=most_digits(scale), scale=scale)


def convert(constant: Constant, type: Type, findings: Findings) -> Constant:
    """The constant converted to the type; one that is no value of it is reported and left unchanged."""
    value, problem = fit(constant.value, type)
    if problem:
        shown = str(constant.value)
        shown = shown if len(shown) <= 40 else shown[:37] + "…"
        findings.error(
            "constant-out-of-range",
            f"constant `{shown}` {problem}",
            constant.span,
            label=f"not a value of type `{type}`",
            help=_range_in_words(type),
        )
    return Constant(value, type.optional() if value is None else type.required(), span=constant.span)


def _range_in_words(type: Type) -> str:
    match type.kind:
        case Kind.NUMBER:
            return "a `number` ranges from -2^63 to 2^63 - 1"
        case Kind.UNSIGNED:
            return "an `unsigned` ranges from 0 to 2^64 - 1"
        case Kind.DECIMAL:
            digits, decimals = type.precision, type.scale
            return f"a `decimal({digits},{decimals})` has {digits} digits, {decimals} of them after the point"
        case _:
            return f"write a value of type `{type}`"
