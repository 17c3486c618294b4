"""Functions that convert and round numbers, one record each, as in PostgreSQL.

A tie of a decimal is rounded away from zero, a tie of a float to the even neighbor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
    """The number as a decimal; of a float, its shortest digits that read back as the same."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"`{value}` is not a decimal", code="not-a-number", help="exclude infinities and NaN")
        return Decimal(repr(value))
    return Decimal(value)


def at_scale(value: Any, places: int, mode: str = ROUND_HALF_UP) -> Decimal:
    """The number with so many digits behind the point, which may be negative.

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
    """The quotient with the places that PostgreSQL gives it, which are enough for 16 digits, but 20 at most, or as many
    as an operand has.

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
        wanted = _LEAST_DIGITS - _AT_ONCE * (weight - other - (digits <= divisor))
        places = min(max(wanted, shown), max(QUOTIENT_PLACES, shown))
        whole, rest = divmod(abs(first) * 10**places, abs(second))
        whole += 2 * rest >= abs(second)
        found: Decimal = whole if (first < 0) == (second < 0) else -whole
        return found.scaleb(-places)


def _leading(value: Decimal) -> tuple[int, int]:
    """The place of the first digit to the base 10,000, and that digit."""
    if not value:
        return 0, 0
    weight = value.adjusted() // _AT_ONCE
    return weight, int(abs(value).scaleb(-_AT_ONCE * weight))


def _places_of(value: Decimal) -> int:
    """The places of a value without zeros at its end, some of which a wide one only has from its type."""
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


NUMERIC_FUNCTIONS = (
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
