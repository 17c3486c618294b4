"""Functions that convert numbers and write and read them as text, one record each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from upshot.core.errors import DataError
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind
from upshot.values.inverses import INTEGERS, TEXTS
from upshot.values.records import BuiltinFunction, FunctionMeaning, call_in_words, overflow
from upshot.values.signatures import fixed, only

_NUMBER, _UNSIGNED, _FLOAT, _SYMBOL = only(Kind.NUMBER), only(Kind.UNSIGNED), only(Kind.FLOAT), only(Kind.SYMBOL)


def _truncated(name: str, value: float) -> int:
    if not math.isfinite(value):
        raise overflow(call_in_words(name, (value,)))
    return math.trunc(value)


_DIGITS = re.compile(r"\s*([+-]?)([0-9]+)\s*", re.ASCII)
_FRACTION = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)


def read_integer(name: str, text: str) -> int:
    """Parse an integer."""
    found = _DIGITS.fullmatch(text)
    if found is None:
        raise DataError(f"`{name}` cannot read {text!r}", code="not-a-number", help="filter with `match` first")
    sign, digits = found[1], found[2].lstrip("0")
    # With more digits it is out of range anyway.
    return (-1 if sign == "-" else 1) * (int(digits or "0") if len(digits) < 21 else 2**70)


def _read_float(text: str) -> float:
    if not _FRACTION.fullmatch(text):
        raise DataError(f"`to_float` cannot read {text!r}", code="not-a-number", help="filter with `match` first")
    return float(text)


def _float_text(value: float) -> str:
    """The shortest digits that denote the same float; with an exponent if it has more than 15 digits before the point
    or 4 zeros after it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if -5 < power < 15 or value == 0:
        return f"{Decimal(repr(value)).normalize():f}" if value else "0"
    text = "".join(map(str, digits))
    return f"{'-' * sign}{text[0]}{'.' * (len(text) > 1)}{text[1:]}e{'-' if power < 0 else '+'}{abs(power):02d}"


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

_TO_NUMBER = _integer_from("to_number", NUMBER_RANGE)
_TO_UNSIGNED = _integer_from("to_unsigned", UNSIGNED_RANGE)
_CONVERTIBLE = only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)

_READ_NUMBER = replace(_TO_NUMBER[Kind.SYMBOL], inverse=TEXTS["to_number"])
_TO_STRING = FunctionMeaning(str, lambda call: call.columns[0].cast("string"), inverse=INTEGERS["to_string"])

CONVERSIONS = (
    BuiltinFunction(
        "to_number", fixed(_NUMBER, _CONVERTIBLE), {**_TO_NUMBER, Kind.SYMBOL: _READ_NUMBER},
        "to_number(a)",
        "integer, of a float truncated; of a text, an optional sign and decimal digits, with blanks around them; else "
        "an error (Soufflé ignores what follows)",
        sql=("Cast",),
    ),
    BuiltinFunction(
        "to_string", fixed(_SYMBOL, _CONVERTIBLE),
        {
            Kind.NUMBER: _TO_STRING, Kind.UNSIGNED: _TO_STRING, Kind.FLOAT: FunctionMeaning(repr),
            Kind.SYMBOL: FunctionMeaning(lambda text: text),
        },
        "to_string(a)", "digits; of a float the shortest that read back as the same (Soufflé: six decimals)",
        sql=("Cast",),
    ),
    BuiltinFunction(
        "to_text", fixed(_SYMBOL, only(Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE, Kind.FLOAT)),
        {
            Kind.FLOAT: FunctionMeaning(_float_text),
            Kind.DECIMAL: FunctionMeaning(lambda value: f"{value:f}"),
            Kind.BOOLEAN: FunctionMeaning(lambda value: "true" if value else "false"),
            Kind.DATE: FunctionMeaning(str),
        },
        "to_text(a)", "a decimal, boolean, date or float as PostgreSQL writes it", sql=("Cast",),
    ),
    BuiltinFunction(
        "to_unsigned", fixed(_UNSIGNED, _CONVERTIBLE), _TO_UNSIGNED,
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
        "utoi", fixed(_NUMBER, _UNSIGNED), {Kind.UNSIGNED: _TO_NUMBER[Kind.UNSIGNED]}, "utoi(a)", "as `to_number`",
    ),
    BuiltinFunction(
        "ftoi", fixed(_NUMBER, _FLOAT), {Kind.FLOAT: _TO_NUMBER[Kind.FLOAT]}, "ftoi(a)", "as `to_number`",
    ),
)  # fmt: skip
