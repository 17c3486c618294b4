"""Functions that convert numbers, compute with floats, and combine integers as truth values, one record each.

Those of floats are computed by Python wherever they run: other libraries differ in the last digit.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping

from upshot.core.errors import DataError
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind
from upshot.values.records import BuiltinFunction, FunctionMeaning, call_in_words, overflow
from upshot.values.signatures import INTEGER, fixed, only, uniform

_NUMBER, _UNSIGNED, _FLOAT = only(Kind.NUMBER), only(Kind.UNSIGNED), only(Kind.FLOAT)

# ---- conversions -------------------------------------------------------------------------------------------


def _truncated(name: str, value: float) -> int:
    if not math.isfinite(value):
        raise overflow(call_in_words(name, (value,)))
    return math.trunc(value)


_DIGITS = re.compile(r"\s*([+-]?)([0-9]+)\s*", re.ASCII)
_FRACTION = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)


def read_integer(name: str, text: str) -> int:
    """The integer that a text of digits stands for."""
    found = _DIGITS.fullmatch(text)
    if found is None:
        raise DataError(f"`{name}` cannot read {text!r}", code="not-a-number", help="filter with `match` first")
    sign, digits = found[1], found[2].lstrip("0")
    # More digits than any number has: out of range, without computing it.
    return (-1 if sign == "-" else 1) * (int(digits or "0") if len(digits) < 21 else 2**70)


def _read_float(text: str) -> float:
    if not _FRACTION.fullmatch(text):
        raise DataError(f"`to_float` cannot read {text!r}", code="not-a-number", help="filter with `match` first")
    return float(text)


def _integer_from(name: str, bounds: range) -> Mapping[Kind, FunctionMeaning]:
    """The meanings of a conversion to an integer type."""
    same = FunctionMeaning(lambda value: value, fails=bounds is UNSIGNED_RANGE)
    other = FunctionMeaning(lambda value: value, fails=bounds is NUMBER_RANGE)
    return {
        Kind.NUMBER: same,
        Kind.UNSIGNED: other,
        Kind.FLOAT: FunctionMeaning(lambda value: _truncated(name, value), fails=True),
        Kind.SYMBOL: FunctionMeaning(lambda text: read_integer(name, text), fails=True),
    }


_TO_FLOAT = FunctionMeaning(float)
FLOAT_OF_TEXT = FunctionMeaning(_read_float, fails=True)

TO_NUMBER = _integer_from("to_number", NUMBER_RANGE)
_TO_UNSIGNED = _integer_from("to_unsigned", UNSIGNED_RANGE)
CONVERTIBLE = only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)

_CONVERSIONS = (
    BuiltinFunction(
        "to_unsigned", fixed(_UNSIGNED, CONVERTIBLE), _TO_UNSIGNED,
        "to_unsigned(a)", "as `to_number`; a negative number is an error (Soufflé wraps around)",
    ),
    BuiltinFunction(
        "itof", fixed(_FLOAT, _NUMBER), {Kind.NUMBER: _TO_FLOAT}, "itof(a)", "as `to_float`",
    ),
    BuiltinFunction(
        "utof", fixed(_FLOAT, _UNSIGNED), {Kind.UNSIGNED: _TO_FLOAT}, "utof(a)", "as `to_float`",
    ),
    BuiltinFunction(
        "itou", fixed(_UNSIGNED, _NUMBER), {Kind.NUMBER: _TO_UNSIGNED[Kind.NUMBER]}, "itou(a)", "as `to_unsigned`",
    ),
    BuiltinFunction(
        "ftou", fixed(_UNSIGNED, _FLOAT), {Kind.FLOAT: _TO_UNSIGNED[Kind.FLOAT]}, "ftou(a)", "as `to_unsigned`",
    ),
    BuiltinFunction(
        "utoi", fixed(_NUMBER, _UNSIGNED), {Kind.UNSIGNED: TO_NUMBER[Kind.UNSIGNED]}, "utoi(a)", "as `to_number`",
    ),
    BuiltinFunction(
        "ftoi", fixed(_NUMBER, _FLOAT), {Kind.FLOAT: TO_NUMBER[Kind.FLOAT]}, "ftoi(a)", "as `to_number`",
    ),
)  # fmt: skip

# ---- floats ------------------------------------------------------------------------------------------------


def _total(function: Callable[..., float]) -> Callable[..., float]:
    """The function as IEEE 754 has it: infinite where it overflows or has a pole, NaN outside of its domain."""

    def computed(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return -math.inf if function is math.sinh and values[0] < 0 else math.inf
        except ValueError:
            return math.nan

    return computed


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
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
    "log": (_logarithm(math.log), 1, "natural logarithm; of 0 minus infinity, of less NaN"),
    "log2": (_logarithm(math.log2), 1, "logarithm to base 2"),
    "log10": (_logarithm(math.log10), 1, "logarithm to base 10"),
}

_FLOATS = tuple(
    BuiltinFunction(
        name, uniform(_FLOAT, arity), {Kind.FLOAT: FunctionMeaning(python)},
        f"{name}({'y, x' if arity == 2 else 'a'})", words,
    )
    for name, (python, arity, words) in _OF_FLOATS.items()
)  # fmt: skip

# ---- integers as truth values, and their bits --------------------------------------------------------------


def _truth(function: Callable[[bool, bool], bool]) -> Callable[[int, int], int]:
    return lambda a, b: int(function(bool(a), bool(b)))


def _both(python: Callable[..., int]) -> Mapping[Kind, FunctionMeaning]:
    return {Kind.NUMBER: FunctionMeaning(python), Kind.UNSIGNED: FunctionMeaning(python)}


def _shifted_as_bits(a: int, b: int) -> int:
    bits = (a % 2**64) >> (b & 63)
    return bits - 2**64 if bits >= 2**63 and a < 0 else bits


_TRUTHS = (
    BuiltinFunction("land", uniform(INTEGER, 2), _both(_truth(operator.and_)), "a land b", "1 if neither is 0, else 0"),
    BuiltinFunction("lor", uniform(INTEGER, 2), _both(_truth(operator.or_)), "a lor b", "1 if one is not 0, else 0"),
    BuiltinFunction("lxor", uniform(INTEGER, 2), _both(_truth(operator.xor)), "a lxor b", "1 if just one is 0, else 0"),
    BuiltinFunction("lnot", uniform(INTEGER, 1), _both(lambda a: int(a == 0)), "lnot a", "1 if it is 0, else 0"),
    BuiltinFunction(
        "bshru", uniform(INTEGER, 2), _both(_shifted_as_bits),
        "a bshru b", "bits shifted right, zeros from the left; the distance counts modulo 64",
    ),
)  # fmt: skip

FURTHER: tuple[BuiltinFunction, ...] = (*_CONVERSIONS, *_FLOATS, *_TRUTHS)
