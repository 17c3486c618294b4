"""The oracle's functions of numbers, text and time: a table of its own, as plain as can be."""

from __future__ import annotations

import calendar
import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from upshot.core.errors import DataError, OverflowError_
from upshot.core.types import Type


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


def _to_float(value: Any, _: Type) -> float:
    return float(Fraction(value)) if not isinstance(value, float) else value


def _ratio(a: Decimal, b: Decimal, _: Type) -> float:
    if not b:
        raise _none("a division by zero", "division-by-zero")
    return float(Fraction(a) / Fraction(b))


def postgres_quotient(a: Decimal | Fraction, b: Decimal | Fraction | int) -> Decimal:
    """The quotient with as many places as PostgreSQL decides from four digits at a time, from those of the operands up
    to 20 or theirs."""
    first, second = abs(Fraction(a)), abs(Fraction(b))
    if not second:
        raise _none("a division by zero", "division-by-zero")
    (power, digit), (other, divisor) = _first_of_four(first), _first_of_four(second)
    shown = max(next(n for n in range(99) if (each * 10**n).denominator == 1) for each in (first, second))
    places = 16 - 4 * (power - other) + (4 if digit <= divisor else 0)
    places = min(max(places, shown), max(20, shown))
    found = math.floor(first / second * 10**places + Fraction(1, 2))
    return Decimal(f"{found if (a < 0) == (b < 0) else -found}E-{places}")


def _first_of_four(value: Fraction) -> tuple[int, int]:
    if not value:
        return 0, 0
    power = 0
    while value >= 10000:
        value, power = value / 10000, power + 1
    while value < 1:
        value, power = value * 10000, power - 1
    return power, math.floor(value)


def _shortest(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    # Of all spellings with up to 17 digits, the first that is the value.
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


def kth(values: Sequence[str]) -> str:
    count, colon, _ = sorted(values)[0].partition(":")
    if not colon or not count.isascii() or not count.isdigit() or int(count) == 0:
        raise _none("a k-th text")
    ordered = sorted({*values})
    return ordered[min(int(count), len(ordered)) - 1]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "to_float": _to_float,
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
