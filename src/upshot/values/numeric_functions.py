"""Functions of floats and decimals, and rounding, as in PostgreSQL, one record each.

A tie of decimals is rounded away from zero, a tie of floats to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

from upshot.core.errors import DataError
from upshot.core.types import QUOTIENT_PLACES, Kind
from upshot.values.conversions import FLOAT_OF_TEXT
from upshot.values.records import BuiltinFunction, FunctionMeaning
from upshot.values.signatures import NUMERIC, fixed, only, uniform

_NUMBER, _FLOAT, _DECIMAL = only(Kind.NUMBER), only(Kind.FLOAT), only(Kind.DECIMAL)
_FRACTION = only(Kind.FLOAT, Kind.DECIMAL)
_DIGITS = 60


def exact(value: Any) -> Decimal:
    """The number as a decimal; of a float, the shortest digits that denote it."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"`{value}` is not a decimal", code="not-a-number", help="exclude infinities and NaN")
        return Decimal(repr(value))
    return Decimal(value)


def at_scale(value: Any, places: int, mode: str = ROUND_HALF_UP) -> Decimal:
    """The number rounded to `places` digits after the point, which may be negative.

    >>> at_scale(2.345, 2), at_scale(-25, -1)
    (Decimal('2.35'), Decimal('-3E+1'))
    """
    with localcontext(prec=400):
        return exact(value).quantize(Decimal(1).scaleb(-places), rounding=mode)


def _to_decimal(value: Any, like: Decimal) -> Decimal:
    return at_scale(value, -int(like.as_tuple().exponent))


def _to_whole(value: Any) -> int:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"`{value}` is not an integer", code="not-a-number", help="exclude infinities and NaN")
        return round(value)
    return int(at_scale(value, 0))


def _ratio(a: Decimal, b: Decimal) -> float:
    if b == 0:
        raise DataError(f"`{a} / 0` has no value", code="division-by-zero", help="guard the division with `!= 0`")
    return float(Fraction(a) / Fraction(b))


_LEAST_DIGITS, _AT_ONCE = 16, 4


def quotient(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The quotient with the scale of PostgreSQL: for at least 16 digits, but at most 20 places, or as many as an
    operand has.

    PostgreSQL estimates the size of the quotient from the leading four digits of both (`select_div_scale`).

    >>> quotient(Decimal("100.0"), 3), quotient(Decimal(1), Decimal("8.00"))
    (Decimal('33.3333333333333333'), Decimal('0.12500000000000000000'))
    """
    if b == 0:
        raise DataError(f"`{a} / 0` has no value", code="division-by-zero", help="guard the division with `!= 0`")
    with localcontext(prec=400):
        first, second = Decimal(a), Decimal(b)
        (weight, digits), (other, divisor) = _leading(first), _leading(second)
        shown = max(_places_of(first), _places_of(second))
        expected = _LEAST_DIGITS - _AT_ONCE * (weight - other - (digits <= divisor))
        places = min(max(expected, shown), max(QUOTIENT_PLACES, shown))
        whole, rest = divmod(abs(first) * 10**places, abs(second))
        whole += 2 * rest >= abs(second)
        found: Decimal = whole if (first < 0) == (second < 0) else -whole
        return found.scaleb(-places)


def _leading(value: Decimal) -> tuple[int, int]:
    """The weight of the first digit to the base 10,000, and that digit."""
    if not value:
        return 0, 0
    weight = value.adjusted() // _AT_ONCE
    return weight, int(abs(value).scaleb(-_AT_ONCE * weight))


def _places_of(value: Decimal) -> int:
    """The decimal places of a value without trailing zeros, which a wide decimal may have from its type."""
    return max(0, -int(value.normalize().as_tuple().exponent))


def _rounded(mode: str) -> Callable[..., Any]:
    def rounded(value: Any, places: int = 0) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return value
        if abs(places) > _DIGITS:
            return value if places > 0 else type(value)(0)
        found = at_scale(value, places, mode)
        return found if isinstance(value, Decimal) else type(value)(found)

    return rounded


def _nearest_whole(value: float) -> float:
    return float(round(value)) if math.isfinite(value) else value


def _root(value: float) -> float:
    if value < 0:
        raise DataError(f"`sqrt({value})` has no value", code="not-a-number", help="guard it with `>= 0`")
    return math.sqrt(value)


def _logarithm(value: float) -> float:
    if value <= 0:
        raise DataError(f"`ln({value})` has no value", code="not-a-number", help="guard it with `> 0`")
    return math.log(value)


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _of_all(python: Callable[..., Any], kinds: tuple[Kind, ...], *, fails: bool = True) -> dict[Kind, FunctionMeaning]:
    return {kind: FunctionMeaning(python, fails=fails) for kind in kinds}


_NUMERIC_KINDS = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL)
_AS_DOUBLE = FunctionMeaning(float, lambda call: call.columns[0].cast("double"))


def _to_places(name: str, mode: str, words: str) -> BuiltinFunction:
    return BuiltinFunction(
        name, fixed(_DECIMAL, NUMERIC, _NUMBER, _DECIMAL),
        _of_all(lambda value, places, like: _rounded(mode)(exact(value), min(places, -like.as_tuple().exponent)),
                _NUMERIC_KINDS),
        f"{name}(a, places, like)", words, scale=lambda scales: scales[-1],
    )  # fmt: skip


# ---- floats as in IEEE 754: computed by Python on every engine, since other libraries differ in the last digit --


def _total(function: Callable[..., float]) -> Callable[..., float]:
    """The function as in IEEE 754: infinite for an overflow or a pole, NaN outside of its domain."""

    def computed(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return -math.inf if function is math.sinh and values[0] < 0 else math.inf
        except ValueError:
            return math.nan

    return computed


def _unbounded_logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: -math.inf if value == 0 else _total(function)(value)


def _inverse_tangent(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) == 1 else _total(math.atanh)(value)


_OF_FLOATS: Mapping[str, tuple[Callable[..., float], int, str]] = {
    "sin": (_total(math.sin), 1, "sine, of radians"),
    "cos": (_total(math.cos), 1, "cosine"),
    "tan": (_total(math.tan), 1, "tangent"),
    "asin": (_total(math.asin), 1, "arc sine; NaN outside of -1 to 1"),
    "acos": (_total(math.acos), 1, "arc cosine; NaN outside of -1 to 1"),
    "atan": (_total(math.atan), 1, "arc tangent"),
    "atan2": (_total(math.atan2), 2, "angle of the point with these y and x"),
    "sinh": (_total(math.sinh), 1, "hyperbolic sine"),
    "cosh": (_total(math.cosh), 1, "hyperbolic cosine"),
    "tanh": (_total(math.tanh), 1, "hyperbolic tangent"),
    "asinh": (_total(math.asinh), 1, "inverse of `sinh`"),
    "acosh": (_total(math.acosh), 1, "inverse of `cosh`; NaN below 1"),
    "atanh": (_inverse_tangent, 1, "inverse of `tanh`; infinite at -1 and 1, NaN beyond"),
    "log": (_unbounded_logarithm(math.log), 1, "natural logarithm; of 0 minus infinity, of less NaN"),
    "log2": (_unbounded_logarithm(math.log2), 1, "logarithm to base 2"),
    "log10": (_unbounded_logarithm(math.log10), 1, "logarithm to base 10"),
}

_FLOATS = tuple(
    BuiltinFunction(
        name, uniform(_FLOAT, arity), {Kind.FLOAT: FunctionMeaning(python)},
        f"{name}({'y, x' if arity == 2 else 'a'})", words,
    )
    for name, (python, arity, words) in _OF_FLOATS.items()
)  # fmt: skip

# ---- the records -------------------------------------------------------------------------------------------

NUMERIC_FUNCTIONS = (
    *_FLOATS,
    BuiltinFunction(
        "to_float", fixed(_FLOAT, NUMERIC | only(Kind.SYMBOL)),
        {**dict.fromkeys(_NUMERIC_KINDS, _AS_DOUBLE), Kind.SYMBOL: FLOAT_OF_TEXT},
        "to_float(a)", "the float nearest to a number, or to the digits of a text", sql=("Cast",),
    ),
    BuiltinFunction(
        "to_decimal", fixed(_DECIMAL, NUMERIC, _DECIMAL), _of_all(_to_decimal, _NUMERIC_KINDS),
        "to_decimal(a, like)", "the decimal nearest to a number, with as many decimals as `like`",
        scale=lambda scales: scales[-1], sql=("Cast",),
    ),
    BuiltinFunction(
        "to_integer", fixed(_NUMBER, _FRACTION), _of_all(_to_whole, (Kind.FLOAT, Kind.DECIMAL)),
        "to_integer(a)", "the integer nearest to a float or decimal; a tie of floats to the even one", sql=("Cast",),
    ),
    BuiltinFunction(
        "ratio", fixed(_FLOAT, _DECIMAL, _DECIMAL), _of_all(_ratio, (Kind.DECIMAL,)),
        "ratio(a, b)", "the float nearest to the quotient of two decimals",
    ),
    BuiltinFunction(
        "quotient", fixed(_DECIMAL, _DECIMAL, _DECIMAL), _of_all(quotient, (Kind.DECIMAL,)),
        "quotient(a, b)", f"the quotient of decimals, a `decimal(38,{QUOTIENT_PLACES})` rounded as PostgreSQL does",
        scale=lambda scales: max(QUOTIENT_PLACES, *scales), sql=("Div",),
    ),
    _to_places("round_to", ROUND_HALF_UP, "rounded to `places` decimals; `like` has at least as many"),
    _to_places("truncate_to", ROUND_DOWN, "truncated to `places` decimals; `like` has at least as many"),
    BuiltinFunction(
        "round", uniform(_FRACTION, 1),
        {Kind.FLOAT: FunctionMeaning(_nearest_whole), **_of_all(_rounded(ROUND_HALF_UP), (Kind.DECIMAL,))},
        "round(a)", "the nearest whole number; a tie of floats to the even one, of decimals away from zero", scale=max,
    ),
    BuiltinFunction(
        "floor", uniform(_FRACTION, 1), _of_all(_rounded(ROUND_FLOOR), (Kind.FLOAT, Kind.DECIMAL)),
        "floor(a)", "the greatest whole number that is not greater",
    ),
    BuiltinFunction(
        "ceil", uniform(_FRACTION, 1), _of_all(_rounded(ROUND_CEILING), (Kind.FLOAT, Kind.DECIMAL)),
        "ceil(a)", "the least whole number that is not less",
    ),
    BuiltinFunction(
        "sqrt", uniform(_FLOAT, 1), _of_all(_root, (Kind.FLOAT,)), "sqrt(a)", "square root", sql=("Sqrt",),
    ),
    BuiltinFunction(
        "ln", uniform(_FLOAT, 1), _of_all(_logarithm, (Kind.FLOAT,)), "ln(a)", "natural logarithm", sql=("Ln",),
    ),
    BuiltinFunction(
        "exp", uniform(_FLOAT, 1), _of_all(_exponential, (Kind.FLOAT,), fails=False),
        "exp(a)", "e to the power of `a`", sql=("Exp",),
    ),
)  # fmt: skip
