"""The built-in functions on Python values, and on whole columns of floats where NumPy can."""

from __future__ import annotations

import decimal
import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from upshot.core.errors import DataError, OverflowError_
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import MOST_DIGITS, NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.engine.local.patterns import pattern


def function(name: str, result: Type) -> Callable[..., Any]:
    """The function for one row of non-NULL arguments."""
    if name in _TEXT:
        return _TEXT[name]
    if result.kind is Kind.FLOAT:
        return _FLOAT[name]
    if result.kind is Kind.DECIMAL:
        return functools.partial(_decimal, name, result)
    if name in ("max", "min"):
        return max if name == "max" else min
    bounds = UNSIGNED_RANGE if result.kind is Kind.UNSIGNED else NUMBER_RANGE
    return functools.partial(_integer, name, bounds)


def float_columns(name: str) -> Callable[..., Any] | None:
    """The function over arrays, if NumPy computes the same values."""
    return _COLUMNS.get(name)


def _integer(name: str, bounds: range, a: int, b: int = 0) -> int:
    if name in ("/", "%") and b == 0:
        raise DataError(f"`{a} {name} 0` has no value", code="division-by-zero", help="guard the division with `!= 0`")
    if name == "^" and b < 0:
        raise DataError(f"`{a} ^ {b}` is not a whole number", code="negative-exponent", help="use floats")
    if name == "^" and b > 64 and abs(a) > 1:
        raise overflow(f"{a} ^ {b}")
    result = _INTEGER[name](a, b, bounds)
    if result not in bounds:
        raise overflow(f"{name}({a})" if name in ("neg", "bnot") else f"{a} {name} {b}")
    return result


def overflow(what: str, kind: Kind = Kind.NUMBER) -> OverflowError_:
    """A computation leaves the range of its kind."""
    if kind is Kind.DECIMAL:
        return OverflowError_(
            f"`{what}` has more than {MOST_DIGITS} digits", code="overflow", help="use smaller values, or floats"
        )
    return OverflowError_(f"`{what}` leaves the 64-bit range", code="overflow", help="use floats or decimals")


def too_long(schema: Schema, place: int, value: str, span: Span | None = None) -> OverflowError_:
    """A rule derives a decimal with more digits than the column at this place declares."""
    column = schema.columns[place]
    # Workers know columns by their place only.
    named = f"`{column.name}`" if column.name != f"c{place}" else str(place + 1)
    return OverflowError_(
        f"a rule derives `{value}` for column {named} of `{schema.name}`, "
        f"which has more digits than `{column.type.required()}`",
        code="overflow",
        span=span,
        help=f"declare the column with more digits, up to `decimal({MOST_DIGITS},{column.type.scale})`, "
        "or bound the value in the rule",
    )


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_INTEGER: dict[str, Callable[[int, int, range], int]] = {
    "+": lambda a, b, _: a + b,
    "-": lambda a, b, _: a - b,
    "*": lambda a, b, _: a * b,
    "/": lambda a, b, _: _truncated(a, b),
    "%": lambda a, b, _: a - b * _truncated(a, b),
    "^": lambda a, b, _: a**b,
    "neg": lambda a, _b, _: -a,
    "band": lambda a, b, _: a & b,
    "bor": lambda a, b, _: a | b,
    "bxor": lambda a, b, _: a ^ b,
    "bnot": lambda a, _b, bounds: a ^ (2**64 - 1) if bounds is UNSIGNED_RANGE else ~a,
    "bshl": lambda a, b, _: a << (b & 63),
    "bshr": lambda a, b, _: a >> (b & 63),
}


def _float_quotient(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def _float_power(a: float, b: float) -> float:
    return float(np.float64(a) ** np.float64(b))


def _quiet(f: Callable[..., float]) -> Callable[..., float]:
    def run(*args: float) -> float:
        with np.errstate(all="ignore"):
            return f(*args)

    return run


def _rank(value: float) -> tuple[bool, float]:
    """NaN is above every number."""
    return math.isnan(value), 0.0 if math.isnan(value) else value


def _highest(*values: float) -> float:
    return max(values, key=_rank)


def _lowest(*values: float) -> float:
    return min(values, key=_rank)


_FLOAT: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quiet(_float_quotient),
    "%": _quiet(lambda a, b: float(np.fmod(np.float64(a), np.float64(b)))),
    "^": _quiet(_float_power),
    "neg": lambda a: -a,
    "max": _highest,
    "min": _lowest,
}

# Without `^`: over arrays NumPy rounds powers otherwise than over single values, in the last place.
_COLUMNS: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod, "neg": np.negative,
}  # fmt: skip


def _decimal(name: str, result: Type, a: Any, b: Any = 0, *more: Any) -> decimal.Decimal:
    if more:
        return _decimal(name, result, _decimal(name, result, a, b), *more)
    with decimal.localcontext(prec=60):
        left, right = decimal.Decimal(a), decimal.Decimal(b)
        if name in ("/", "%") and right == 0:
            raise DataError(
                f"`{a} {name} 0` has no value", code="division-by-zero", help="guard the division with `!= 0`"
            )
        value = _DECIMAL[name](left, right)
        unit = decimal.Decimal(1).scaleb(-result.scale)
        value = value.quantize(unit, rounding=decimal.ROUND_DOWN) if name == "/" else value
        if abs(value) >= decimal.Decimal(10) ** (result.precision - result.scale):
            raise overflow(f"{a} {name} {b}", Kind.DECIMAL)
    return value


_DECIMAL: dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "neg": lambda a, _b: -a,
    "max": max,
    "min": min,
}


def _substr(text: str, start: int, length: int) -> str:
    return "" if start < 0 or length < 0 else text[start : start + length]


_NUMBER = re.compile(r"[+-]?[0-9]+")


def _to_number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise DataError(f"`to_number` cannot read {text!r}", code="not-a-number", help="filter with `match` first")
    digits = text.lstrip("+-").lstrip("0")
    number = (-1 if text[0] == "-" else 1) * (int(digits or "0") if len(digits) < 20 else 2**64)
    if number not in NUMBER_RANGE:
        raise overflow(f'to_number("{text}")')
    return number


def to_text(value: Any) -> str:
    """The text a fact file would hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_TEXT: dict[str, Callable[..., Any]] = {
    "cat": lambda *parts: "".join(parts),
    "strlen": len,
    "substr": _substr,
    "ord": lambda text: ord(text[0]) if text else -1,
    "to_number": _to_number,
    "to_string": to_text,
}


TESTS: dict[str, Callable[..., bool]] = {
    "contains": lambda needle, text: needle in text,
    "match": lambda expression, text: pattern(expression).matches(text),
}
