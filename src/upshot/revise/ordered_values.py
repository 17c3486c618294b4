"""Values of types with an order: their places as numbers, those between others, and texts that pass tests."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice, product
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.values.patterns import pattern as compiled

TRIES = 40
"""Values between two places among which a usable one is looked for."""
LETTERS = 0x110001
"""Letters there are, and none."""
LONGEST = 40
"""Letters of a text that has a place; longer ones are compared as they are."""
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FAR = 1_000_000
_LONGEST_TEXT, _SHORT, _MOST = 12, 3, 4000
"""Lengths of texts of one letter, and of any letters; texts that are tried."""


def number_of(value: Any) -> Fraction | None:
    """The place of a value in the order of its type; None if it has none."""
    match value:
        case bool() | None:
            return None
        case int() | Decimal() | Fraction():
            return Fraction(value)
        case float():
            return Fraction(value) if math.isfinite(value) else None
        case datetime.datetime():
            return Fraction((value - EPOCH) // datetime.timedelta(microseconds=1))
        case datetime.date():
            return Fraction(value.toordinal())
        case str() if len(value) <= LONGEST:
            numerator = 0
            for letter in value:
                numerator = numerator * LETTERS + ord(letter) + 1
            return Fraction(numerator, LETTERS ** len(value))
        case _:
            return None


def unit(type: Type) -> Fraction | None:
    """The distance between two values of a type that follow each other; None where there are always others between."""
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED | Kind.DATE | Kind.TIMESTAMP:
            return Fraction(1)
        case Kind.DECIMAL:
            return Fraction(1, 10**type.scale)
        case _:
            return None


def extent(type: Type) -> tuple[Fraction | None, Fraction | None]:
    """The least and the greatest value of a type."""
    match type.kind:
        case Kind.NUMBER:
            return Fraction(NUMBER_RANGE[0]), Fraction(NUMBER_RANGE[-1])
        case Kind.UNSIGNED:
            return Fraction(UNSIGNED_RANGE[0]), Fraction(UNSIGNED_RANGE[-1])
        case Kind.DATE:
            return Fraction(1), Fraction(datetime.date.max.toordinal())
        case Kind.TIMESTAMP:
            return number_of(_FIRST), number_of(_LAST)
        case Kind.DECIMAL:
            most = Fraction(10**type.precision - 1, 10**type.scale)
            return -most, most
        case _:
            return None, None


_FIRST = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


def value_at(number: Fraction, type: Type) -> Any:
    """The value of a type at a place of its order; None if it has none there."""
    low, high = extent(type)
    if (low is not None and number < low) or (high is not None and number > high):
        return None
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            return int(number) if number.denominator == 1 else None
        case Kind.FLOAT:
            value = _float(number)
            return value if value is not None and Fraction(value) == number else None
        case Kind.DECIMAL:
            scaled = number * 10**type.scale
            return Decimal(int(scaled)).scaleb(-type.scale) if scaled.denominator == 1 else None
        case Kind.DATE:
            return datetime.date.fromordinal(int(number)) if number.denominator == 1 else None
        case Kind.TIMESTAMP:
            return EPOCH + datetime.timedelta(microseconds=int(number)) if number.denominator == 1 else None
        case Kind.SYMBOL:
            return text_at(number)
        case Kind.BOOLEAN:
            return None


def text_at(number: Fraction) -> str | None:
    """The text with this place in the order of texts."""
    letters = list[str]()
    while number:
        number *= LETTERS
        letter = int(number)
        if not 1 <= letter <= LETTERS - 1 or len(letters) > LONGEST:
            return None
        letters.append(chr(letter - 1))
        number -= letter
    return "".join(letters)


def _float(number: Fraction) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None


def inside(low: Fraction | None, high: Fraction | None, type: Type) -> Iterator[Any]:
    """Values between two places, neither included: the one that follows the lower, the one before the higher, one far
    from both, then others."""
    if type.kind is Kind.SYMBOL:
        yield from between(None if low is None else text_at(low), None if high is None else text_at(high))
        return
    step, (least, most) = unit(type), extent(type)
    if step is None:
        yield from _dense(low, high)
        return
    start = math.floor(low / step) + 1 if low is not None and (least is None or low >= least) else None
    end = math.ceil(high / step) - 1 if high is not None and (most is None or high <= most) else None
    for at in _whole(start, end, least, most, step):
        value = value_at(at * step, type)
        if value is not None:
            yield value


def _whole(
    start: int | None, end: int | None, least: Fraction | None, most: Fraction | None, step: Fraction
) -> Iterator[int]:
    assert least is not None, "types with steps have a first value"
    assert most is not None, "and a last one"
    first = math.ceil(least / step) if start is None else start
    last = math.floor(most / step) if end is None else end
    if first > last:
        return
    if start is None and end is None:
        # Not so far out that what is computed from them leaves the range of its type.
        start = 0 if first <= 0 <= last else (first + last) // 2
        distance = min(_FAR, (last - start) // (2 * TRIES))
        sides = (start + sign * distance * each for each in range(1, TRIES) for sign in (-1, 1))
        yield from (each for each in sides if first <= each <= last)
    elif start is None:
        yield from (
            last - each for each in (0, 1, min(_FAR, (last - first) // 2), *range(2, TRIES)) if each <= last - first
        )
    elif end is None:
        yield from (
            first + each for each in (0, 1, min(_FAR, (last - first) // 2), *range(2, TRIES)) if each <= last - first
        )
    else:
        yield from dict.fromkeys((first, last, (first + last) // 2))
        yield from range(first + 1, min(last, first + TRIES))


def _dense(low: Fraction | None, high: Fraction | None) -> Iterator[float]:
    if low is None and high is None:
        yield from (each + 0.5 for each in range(TRIES))
    elif low is None or high is None:
        end, sign = (high, -1) if low is None else (low, 1)
        assert end is not None, "one of them is there"
        near = _float(end)
        step = Fraction(1) if near is None else max(Fraction(1), 2 * Fraction(math.ulp(near)))
        for each in range(1, TRIES):
            value = _float(end + sign * each * step)
            if value is not None and (Fraction(value) - end) * sign > 0:
                yield value
    else:
        for each in range(1, TRIES):
            value = _float(low + (high - low) * Fraction(each, TRIES))
            if value is not None and low < Fraction(value) < high:
                yield value


# ---- texts -----------------------------------------------------------------------------------------------------------


def containing(needle: str, number: int) -> Iterator[str]:
    """A text with another in it."""
    yield f"{needle} {number}"


def matching(pattern: str, number: int) -> Iterator[str]:
    """Texts that match a pattern, as far as short ones made of its own letters do; for each number another comes
    first."""
    letters = dict.fromkeys(each for each in f"{pattern}aA0 " if each.isalnum() or each in " -_.@/:")
    alike = (letter * length for length in range(1, _LONGEST_TEXT) for letter in letters)
    mixed = ("".join(each) for length in range(2, _SHORT + 1) for each in product(letters, repeat=length))
    # A pattern that repeats may take long to refuse a long text.
    plain = () if re.search(r"[*+{]", pattern) else (re.sub(r"[\\^$()?]", "", pattern),)
    found = (text for text in islice(chain(plain, alike, mixed), _MOST) if compiled(pattern).matches(text))
    yield from islice(dict.fromkeys(found), number - 1, number + _LONGEST_TEXT)


def just_below(text: str, number: int) -> Iterator[str]:
    """A text that comes before another, beginning as it does where that is possible."""
    if not text:
        return
    start, last = text[:-1], ord(text[-1])
    if last > ord("!"):
        yield f"{start}{chr(last - 1)} {number}"
    elif start:
        yield start


def between(low: str | None, high: str | None) -> Iterator[str]:
    """Texts after one and before another, if there are any that are easy to find."""
    start = low or ""
    longer = chain((f"{start} {number}" for number in range(1, 9)), (f"{start}!", f"{start}\0", f"{start}\0\0"))
    shorter = chain.from_iterable(just_below(high, number) for number in range(1, 9)) if high else ()
    named = (f"{start}new value {number}" for number in range(1, 9))
    prefixes = (high[:size] for size in range(len(high))) if high else ()
    for text in dict.fromkeys(chain(named, longer, shorter, prefixes)):
        if (low is None or text > low) and (high is None or text < high):
            yield text
