"""Values of types with an order as numbers: those between others, texts that pass tests, linear expressions.

Dates are days and texts fractions, so that all values are compared alike; only numbers are computed with.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice, product
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type, decimal_of
from upshot.revise.built_ins import UNKNOWN
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Call, Constant, Term, Variable
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
            return decimal_of(int(scaled), type.scale) if scaled.denominator == 1 else None
        case Kind.DATE:
            return datetime.date.fromordinal(int(number)) if number.denominator == 1 else None
        case Kind.TIMESTAMP:
            return EPOCH + datetime.timedelta(microseconds=int(number)) if number.denominator == 1 else None
        case Kind.SYMBOL | Kind.RECORD:
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


# ---- linear expressions ----------------------------------------------------------------------------------------------


EXACT = frozenset({Kind.NUMBER, Kind.UNSIGNED})


class NotLinearError(Exception):
    """A value is computed in a way that is not followed."""


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of so much of each new value, by name, and of a number."""

    parts: tuple[tuple[str, Fraction], ...]
    more: Fraction = Fraction(0)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Fractions are slow to hash, and borders are looked up all the time.
        object.__setattr__(self, "_hash", hash((self.parts, self.more)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_bare(self) -> bool:
        """Test whether it is a fresh value itself."""
        return not self.more and len(self.parts) == 1 and self.parts[0][1] == 1

    def at(self, values: Mapping[str, Fraction]) -> Fraction:
        return sum((factor * values[name] for name, factor in self.parts), self.more)

    def plus(self, other: Linear) -> Linear:
        found = dict(self.parts)
        for name, factor in other.parts:
            found[name] = found.get(name, Fraction(0)) + factor
        return _linear(found, self.more + other.more)

    def times(self, factor: Fraction) -> Linear:
        return _linear({name: each * factor for name, each in self.parts}, self.more * factor)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other.times(Fraction(-1)))

    def scaled(self) -> Linear:
        """The same border, with 1 for the first part."""
        return self.times(1 / self.parts[0][1]) if self.parts else self


def _linear(parts: Mapping[str, Fraction], more: Fraction) -> Linear:
    return Linear(tuple(sorted((name, factor) for name, factor in parts.items() if factor)), more)


def new_value(name: str) -> Linear:
    return Linear(((name, Fraction(1)),))


Symbolic = Any
"""A value, or how one moves with new values: `Linear`."""


def as_linear(value: Symbolic) -> Linear | None:
    if isinstance(value, Linear):
        return value
    number = number_of(value)
    return None if number is None else Linear((), number)


def symbolic(term: Term, binding: Mapping[str, Symbolic], types: Mapping[str, Type], plain: Any) -> Symbolic:
    """The symbolic value of a term: `plain` is its value without fresh values; `UNKNOWN` where a variable has no value;
    `NotLinearError` where it is not linear."""
    match term:
        case Constant(value):
            return value
        case Variable(name):
            return binding.get(name, UNKNOWN)
        case Call(function, args):
            values = [symbolic(arg, binding, types, plain) for arg in args]
            if UNKNOWN in values:
                return UNKNOWN
            if not any(isinstance(each, Linear) for each in values):
                return plain(term)
            kind = term_type(term, types).kind
            if kind not in EXACT and not (kind is Kind.DECIMAL and function in ("+", "-", "neg")):
                raise NotLinearError
            return _computed(function, [as_linear(each) for each in values])
        case _:
            return UNKNOWN


def _computed(function: str, args: list[Linear | None]) -> Linear:
    match function, args:
        case "neg", [Linear() as one]:
            return one.times(Fraction(-1))
        case "+", [Linear() as one, Linear() as other]:
            return one.plus(other)
        case "-", [Linear() as one, Linear() as other]:
            return one.minus(other)
        case "*", [Linear(parts=()) as one, Linear() as other]:
            return other.times(one.more)
        case "*", [Linear() as one, Linear(parts=()) as other]:
            return one.times(other.more)
        case _:
            raise NotLinearError
