"""The oracle's own functions, tests and aggregates by name, as plain as possible."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import operator
import re
import string
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from upshot.core.errors import DataError, OverflowError_
from upshot.core.types import FLOAT, NUMBER, SYMBOL, UNSIGNED, Kind, Type
from upshot.engine.naive_values import (
    ABSENT,
    canonical,
    compare,
    exactly,
    field,
    has_tag,
    make,
    order,
    postgres_quotient,
    rounded_sum,
)
from upshot.engine.naive_windows import functions as window_functions


def _none(what: str, code: str = "not-a-number") -> DataError:
    return DataError(f"{what} has no value", code=code)


def _exact(value: Any) -> Fraction:
    if isinstance(value, float) and not math.isfinite(value):
        raise _none(str(value))
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def _nearest(value: Fraction) -> int:
    """The nearest integer, ties away from zero."""
    return math.floor(value + Fraction(1, 2)) if value >= 0 else math.ceil(value - Fraction(1, 2))


def _places(value: Any, places: int, scale: int, whole: Callable[[Fraction], int]) -> Decimal:
    unit = Fraction(10) ** min(places, scale) if places > -60 else None
    found = Fraction(0) if unit is None else Fraction(whole(_exact(value) * unit)) / unit
    return Decimal(f"{int(found * 10**scale)}E-{scale}")


def _cut(value: Fraction) -> int:
    return math.trunc(value)


def _kept(whole: Callable[[Fraction], int]) -> Callable[[Any, Type], Any]:
    def kept(value: Any, _: Type) -> Any:
        if isinstance(value, float):
            return float(whole(_exact(value))) if math.isfinite(value) else value
        return Decimal(whole(Fraction(value)))

    return kept


def _to_integer(value: Any, _: Type) -> int:
    return round(_exact(value)) if isinstance(value, float) else _nearest(_exact(value))


def _ratio(a: Decimal, b: Decimal, _: Type) -> float:
    if not b:
        raise _none("a division by zero", "division-by-zero")
    return float(Fraction(a) / Fraction(b))


def _shortest(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    # The first spelling, of those with up to 17 digits, that equals the value.
    found = next(f"{value:.{digits - 1}e}" for digits in range(1, 18) if float(f"{value:.{digits - 1}e}") == value)
    mantissa, _, exponent = found.partition("e")
    if not -5 < int(exponent) < 15:
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{exponent}"
    places = max(len(mantissa.partition(".")[2]) - int(exponent), 0)
    text = f"{Decimal(found):.{places}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) if value else "0"


def _root(value: float, _: Type) -> float:
    if value < 0:
        raise _none("a root")
    return math.sqrt(value)


def _logarithm(value: float, _: Type) -> float:
    if value <= 0:
        raise _none("a logarithm")
    return math.log(value)


def _exponential(value: float, _: Type) -> float:
    return math.inf if value > 709.79 else math.exp(value)


# ---- text ---------------------------------------------------------------------------------------


def _turn(letter: str, form: str) -> str:
    turned: str = getattr(letter, form)()
    return turned if len(turned) == 1 else letter


def _words(text: str, _: Type) -> str:
    return "".join(_turn(each, "lower" if at and text[at - 1].isalnum() else "upper") for at, each in enumerate(text))


def _filled(text: str, length: int, fill: str, *, left: bool) -> str:
    if length > 10**7:
        raise OverflowError_("too long", code="overflow")
    missing = max(length - len(text), 0)
    padding = "".join(fill[at % len(fill)] for at in range(missing)) if fill else ""
    return (padding + text if left else text + padding)[: max(length, 0)] if missing else text[: max(length, 0)]


def _times(text: str, count: int, _: Type) -> str:
    if len(text) * max(count, 0) > 10**7:
        raise OverflowError_("too long", code="overflow")
    return "".join(text for _ in range(max(count, 0))) if text else ""


def _field(text: str, separator: str, place: int, _: Type) -> str:
    if place == 0:
        raise _none("a field")
    fields = text.split(separator) if separator else [text]
    fields = fields if place > 0 else fields[::-1]
    return fields[abs(place) - 1] if abs(place) <= len(fields) else ""


def _character(code: int, _: Type) -> str:
    if code <= 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise _none("a character")
    return chr(code)


def _part(text: str, start: int, length: int, _: Type) -> str:
    if length < 0:
        raise _none("a part")
    return "".join(each for at, each in enumerate(text, start=1) if start <= at < start + length)


def _translated(text: str, these: str, those: str, _: Type) -> str:
    made = []
    for each in text:
        at = these.find(each)
        made.append(each if at < 0 else those[at : at + 1])
    return "".join(made)


def _stripped(text: str, characters: str, *, left: bool, right: bool) -> str:
    while left and text and text[0] in characters:
        text = text[1:]
    while right and text and text[-1] in characters:
        text = text[:-1]
    return text


# ---- time ---------------------------------------------------------------------------------------

_PARTS: Mapping[str, Callable[[Any], int]] = {
    "year": lambda t: t.year, "month": lambda t: t.month, "day": lambda t: t.day,
    "quarter": lambda t: (t.month - 1) // 3 + 1, "week": lambda t: int(t.isocalendar()[1]),
    "isoyear": lambda t: int(t.isocalendar()[0]), "isodow": lambda t: int(t.isocalendar()[2]),
    "dow": lambda t: int(t.isocalendar()[2]) % 7, "doy": lambda t: _ordinal(t) - dt.date(t.year, 1, 1).toordinal() + 1,
    "decade": lambda t: t.year // 10, "century": lambda t: -(-t.year // 100),
    "hour": lambda t: t.hour if isinstance(t, dt.datetime) else 0,
    "minute": lambda t: t.minute if isinstance(t, dt.datetime) else 0,
}  # fmt: skip


def _ordinal(time: Any) -> int:
    return dt.date(time.year, time.month, time.day).toordinal()


def _named(time: Any, name: str, _: Type) -> int:
    if name not in _PARTS:
        raise _none(name)
    return _PARTS[name](time)


def _midnight(year: int, month: int = 1, day: int = 1) -> dt.datetime:
    return dt.datetime(year, month, day, tzinfo=dt.UTC)


def _start(time: dt.datetime, unit: str, _: Type) -> dt.datetime:
    steps = {"microseconds": 1, "milliseconds": 1000, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6,
             "day": 86400 * 10**6}  # fmt: skip
    since = (time - _midnight(1)) // dt.timedelta(microseconds=1)
    if unit in steps:
        return _midnight(1) + dt.timedelta(microseconds=since // steps[unit] * steps[unit])
    day = _midnight(time.year, time.month, time.day)
    match unit:
        case "week":
            return day - dt.timedelta(days=day.isoweekday() - 1)
        case "month":
            return _midnight(day.year, day.month)
        case "quarter":
            return _midnight(day.year, {0: 1, 1: 4, 2: 7, 3: 10}[(day.month - 1) // 3])
        case "year":
            return _midnight(day.year)
        case "decade":
            return _midnight(max(day.year - day.year % 10, 1))
        case "century":
            return _midnight(day.year - (day.year - 1) % 100)
    raise _none(unit)


def _on(time: Any, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except (OverflowError, ValueError):
        raise OverflowError_(f"{time} is moved too far", code="overflow") from None


def _months(time: Any, count: int) -> Any:
    months = time.year * 12 + time.month - 1 + count
    year, month = months // 12, months % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError
    return time.replace(year=year, month=month, day=min(time.day, calendar.monthrange(year, month)[1]))


def _seconds(time: Any, _: Type) -> float:
    return (time.second * 10**6 + time.microsecond) / 10**6 if isinstance(time, dt.datetime) else 0.0


def _epoch(time: Any, _: Type) -> float:
    whole = time if isinstance(time, dt.datetime) else _midnight(time.year, time.month, time.day)
    return (whole - _midnight(1970)).total_seconds()


# ---- keys ---------------------------------------------------------------------------------------


def _key(value: Any, _: Type | None = None, *, down: bool = False) -> str:
    if isinstance(value, str):
        return "".join(f"{byte ^ (255 if down else 0):02x}" for byte in value.encode()) + ("~" if down else " ")
    digits = "0123456789abcdef"
    return "".join(digits[15 - digits.index(each)] if down else each for each in _digits(value))


def _digits(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        if math.isnan(value):
            return "f" * 16
        raw = struct.pack(">d", value + 0.0)
        return bytes(b ^ 255 for b in raw).hex() if raw[0] >= 128 else bytes([raw[0] | 128, *raw[1:]]).hex()
    if isinstance(value, Decimal):
        size = 18 if -int(value.as_tuple().exponent) <= 18 else 38
        return str(int(Fraction(value) * 10**size) + 10 ** (2 * size)).zfill(2 * size + 1)
    if isinstance(value, dt.datetime):
        value = (value - _midnight(1970)) // dt.timedelta(microseconds=1)
    elif isinstance(value, dt.date):
        return hex(value.toordinal())[2:].zfill(8)
    return hex(value + 2**63)[2:].zfill(17)


# ---- integers and floats --------------------------------------------------------------------------


def _whole(value: Any, _: Type) -> int:
    """The integer toward zero, or that of a text."""
    if isinstance(value, str):
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value, re.ASCII):
            raise DataError(f"`to_number` of {value!r}, which is no number", code="not-a-number")
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError_(f"{value} is not an integer", code="overflow")
    return int(value)


def _fraction(value: Any, _: Type) -> float:
    if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", value, re.ASCII):
        raise DataError(f"`to_float` of {value!r}, which is no number", code="not-a-number")
    return float(value)


def _power(base: int, exponent: int) -> int:
    if exponent < 0:
        raise DataError(f"{base} ^ {exponent} has a negative exponent", code="negative-exponent")
    # Beyond 64 only the parity of the exponent matters: the result is -1, 0, 1, or too large anyway.
    result: int = base ** min(exponent, 64 + exponent % 2)
    return result


def _divide(dividend: int, divisor: int) -> int:
    """The quotient, rounded toward zero."""
    if divisor == 0:
        raise DataError(f"{dividend} is divided by zero", code="division-by-zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _arithmetic(exact: Callable[..., Any], of_floats: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that computes floats as NumPy does, and everything else exactly."""

    def result(*args: Any) -> Any:
        *operands, type = args
        if type.kind is not Kind.FLOAT:
            return exact(*operands)
        with np.errstate(all="ignore"):
            return float(of_floats(*map(np.float64, operands)))

    return result


def _bits(function: Callable[..., int]) -> Callable[..., int]:
    def result(*args: Any) -> int:
        *operands, type = args
        bits = function(*operands) % 2**64
        return bits - 2**64 if type.kind is Kind.NUMBER and bits >= 2**63 else bits

    return result


_ANALYSIS = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("log", "log2", "log10"),
)


def _analysis(function: str, *args: Any) -> float:
    """A function of floats: the result of `math`, or of NumPy where that is not finite."""
    *operands, _ = args
    names = {"atan2": "arctan2"} | {f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    with np.errstate(all="ignore"):
        nearly = float(getattr(np, names.get(function, function))(*operands))
    return float(getattr(math, function)(*operands)) if math.isfinite(nearly) else nearly


# ---- the table ------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": _arithmetic(operator.add, np.add),
    "-": _arithmetic(operator.sub, np.subtract),
    "*": _arithmetic(operator.mul, np.multiply),
    "/": _arithmetic(_divide, np.divide),
    "%": lambda dividend, divisor, _: dividend - divisor * _divide(dividend, divisor),
    "^": _arithmetic(_power, operator.pow),
    "neg": _arithmetic(operator.neg, np.negative),
    "min": lambda *args: min(args[:-1], key=order),
    "max": lambda *args: max(args[:-1], key=order),
    "band": _bits(operator.and_),
    "bor": _bits(operator.or_),
    "bxor": _bits(operator.xor),
    "bnot": _bits(operator.invert),
    "bshl": lambda value, places, _: value << (places & 63),
    "bshr": _bits(lambda value, places: value >> (places & 63)),
    "bshru": _bits(lambda value, places: int(format(value % 2**64, "064b")[: 64 - (places & 63)] or "0", 2)),
    "land": lambda a, b, _: 1 if a and b else 0,
    "lor": lambda a, b, _: 1 if a or b else 0,
    "lxor": lambda a, b, _: 1 if (a == 0) != (b == 0) else 0,
    "lnot": lambda a, _: 0 if a else 1,
    **dict.fromkeys(("to_number", "to_unsigned", "itou", "ftou", "utoi", "ftoi"), _whole),
    **dict.fromkeys(("to_float", "itof", "utof"), _fraction),
    **{name: partial(_analysis, name) for name in _ANALYSIS},
    "cat": lambda *args: "".join(args[:-1]),
    "strlen": lambda text, _: len(text),
    "substr": lambda text, start, length, _: text[start : start + length] if start >= 0 and length >= 0 else "",
    "ord": lambda text, _: ord(text[0]) if text else -1,
    "reverse": lambda text, _: "".join(reversed(text)),
    "to_string": lambda value, _: str(value),
    "[]": lambda *args: make(*args[:-1]),
    **{f".{kind}": partial(field, kind) for kind in ABSENT},
    **window_functions(),
    "to_decimal": lambda value, _, type: _places(value, type.scale, type.scale, _nearest),
    "to_integer": _to_integer,
    "ratio": _ratio,
    "quotient": lambda a, b, _: postgres_quotient(a, b),
    "round_to": lambda value, places, _, type: _places(value, places, type.scale, _nearest),
    "truncate_to": lambda value, places, _, type: _places(value, places, type.scale, _cut),
    "round": lambda value, type: _kept(round if isinstance(value, float) else _nearest)(value, type),
    "floor": _kept(math.floor),
    "ceil": _kept(math.ceil),
    "sqrt": _root,
    "ln": _logarithm,
    "exp": _exponential,
    "upper": lambda text, _: "".join(_turn(each, "upper") for each in text),
    "lower": lambda text, _: "".join(_turn(each, "lower") for each in text),
    "initcap": _words,
    "trim": lambda text, characters, _: _stripped(text, characters, left=True, right=True),
    "ltrim": lambda text, characters, _: _stripped(text, characters, left=True, right=False),
    "rtrim": lambda text, characters, _: _stripped(text, characters, left=False, right=True),
    "replace": lambda text, old, new, _: new.join(text.split(old)) if old else text,
    "translate": _translated,
    "strpos": lambda text, part, _: text.index(part) + 1 if part in text else 0,
    "lpad": lambda text, length, fill, _: _filled(text, length, fill, left=True),
    "rpad": lambda text, length, fill, _: _filled(text, length, fill, left=False),
    "repeat": _times,
    "left": lambda text, count, _: text[:count],
    "right": lambda text, count, _: text[max(len(text) - count, 0) :] if count >= 0 else text[-count:],
    "split_part": _field,
    "substring": _part,
    "substring_from": lambda text, start, _: "".join(each for at, each in enumerate(text, start=1) if at >= start),
    "chr": _character,
    "to_text": lambda value, _: str(value).lower() if isinstance(value, bool) else format(value, "f")
    if isinstance(value, Decimal) else _shortest(value) if isinstance(value, float) else value.isoformat(),
    "date_field": _named,
    "seconds": _seconds,
    "epoch": _epoch,
    "time_start": _start,
    "date_plus_days": lambda time, count, _: _on(time, lambda: time + dt.timedelta(days=count)),
    "timestamp_plus_days": lambda time, count, _: _on(time, lambda: time + dt.timedelta(days=count)),
    "date_plus_months": lambda time, count, _: _on(time, lambda: _months(time, count)),
    "timestamp_plus_months": lambda time, count, _: _on(time, lambda: _months(time, count)),
    "timestamp_plus_microseconds": lambda time, count, _: _on(time, lambda: time + dt.timedelta(microseconds=count)),
    "microseconds_between": lambda a, b, _: (a - b) // dt.timedelta.resolution,
    "days_between": lambda a, b, _: a.toordinal() - b.toordinal(),
    "to_timestamp": lambda day, _: _midnight(day.year, day.month, day.day),
    "to_date": lambda time, _: dt.date(time.year, time.month, time.day),
    "sort_key": _key,
    "reverse_sort_key": lambda value, _: _key(value, down=True),
}  # fmt: skip
"""Every function of `values` by name, with the result type as last argument. Tests add user functions."""

RESULTS = {
    **dict.fromkeys(("strlen", "ord", "to_number", "utoi", "ftoi"), NUMBER),
    **dict.fromkeys(("to_unsigned", "itou", "ftou"), UNSIGNED),
    **dict.fromkeys(("to_float", "itof", "utof"), FLOAT),
    **dict.fromkeys(("cat", "substr", "reverse", "to_string", "to_text", "chr", "[]"), SYMBOL),
    **dict.fromkeys(("sort_key", "reverse_sort_key", "window_text", "window_value", "join_lines"), SYMBOL),
}
"""Result types that differ from those of the arguments. Results of other functions are not tested for their range."""


def apply(function: str, args: Sequence[Any], type: Type) -> Any:
    """The value of a function or operator with this result type; no argument is NULL."""
    made = FUNCTIONS[function]
    exact = type.kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL)
    return exactly(lambda: made(*args, type), type) if exact else made(*args, type)


def spread(bounds: Sequence[Any], type: Type) -> list[Any]:
    """The values of `range(from, to, step)`; a float that is too large to grow ends it."""
    if None in bounds:
        return []
    first, last, *steps = bounds
    rises = compare("<", first, last)
    if compare("=", first, last) or (steps and steps[0] and compare(">", steps[0], 0) != rises):
        return []
    if steps and not steps[0]:
        return [first]
    sign, step = ("+", steps[0]) if steps else ("+" if rises else "-", 1)
    found = [first]
    while True:
        more = canonical(apply(sign, [found[-1], step], type))
        if not compare("<" if rises else ">", more, last) or more in found:
            return found
        found.append(more)


# ---- tests ----------------------------------------------------------------------------------------

CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "digit": string.digits,
    "lower": string.ascii_lowercase,
    "punct": re.escape(string.punctuation),
    "space": r"\s",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


def python_pattern(pattern: str) -> str:
    """The common part of Soufflé's patterns in Python's syntax; tests compare all patterns with `std::regex`."""
    named = {".": r"[^\n\r]", "^": r"\A", "$": r"\Z"}

    def piece(found: re.Match[str]) -> str:
        return named.get(found[0]) or re.sub(r"\[:(\w+):\]", lambda name: CLASSES[name[1]], found[0])

    return re.sub(r"\[\^?(?:\[:\w+:\]|\\.|[^]\\])*\]|\\.|[.^$]", piece, pattern, flags=re.DOTALL)


TESTS: Mapping[str, Callable[..., bool]] = {
    "true": lambda: True,
    "false": lambda: False,
    "is_null": lambda value: value is None,
    "contains": lambda needle, text: needle in text,
    "[]": has_tag,
    "match": lambda pattern, text: re.fullmatch(python_pattern(pattern), text, re.ASCII) is not None,
}


def holds(name: str, args: Sequence[Any]) -> bool:
    """Test whether a built-in test is true; with a NULL argument only `is_null` is."""
    return (name == "is_null" or None not in args) and bool(TESTS[name](*args))


# ---- aggregates -----------------------------------------------------------------------------------


def _sum(values: Sequence[Any], type: Type) -> Any:
    if type.kind is Kind.FLOAT:
        return rounded_sum(values)
    return exactly(lambda: sum(values, Decimal(0) if type.kind is Kind.DECIMAL else 0), type)


def _median(values: Sequence[Any], _: Type) -> float:
    ranked = sorted(values, key=order)
    middle = ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]
    return rounded_sum(middle) / len(middle)


def _kth(values: Sequence[str], _: Type) -> str:
    count, colon, _text = sorted(values)[0].partition(":")
    if not colon or not count.isascii() or not count.isdigit() or int(count) == 0:
        raise _none("a k-th text")
    ordered = sorted({*values})
    return ordered[min(int(count), len(ordered)) - 1]


AGGREGATES: dict[str, Callable[[Sequence[Any], Type], Any]] = {
    "count": lambda values, _: len(values),
    "sum": _sum,
    "min": lambda values, _: min(values, key=order),
    "max": lambda values, _: max(values, key=order),
    "mean": lambda values, _: rounded_sum(values) / len(values),
    "average": lambda values, _: postgres_quotient(sum(map(Fraction, values), Fraction(0)), len(values)),
    "median": _median,
    "kth": _kth,
    "sequence": lambda values, _: "\n".join(sorted({*values})),
}
"""Every aggregate of `values` by name. Tests add user folds."""


def aggregate(function: str, values: Sequence[Any], type: Type) -> Any:
    """The aggregate of values that are not NULL; without values None, unless it is a count or a sum."""
    return AGGREGATES[function](values, type) if values or function in ("count", "sum") else None
