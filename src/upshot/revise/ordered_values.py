"""Values of types with an order as numbers, and linear expressions of them.

Dates are days and texts are fractions, so that all values are compared in the same way.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type, decimal_of
from upshot.revise.built_ins import value_of, variables
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Call, Constant, Term, Variable

LETTERS = 0x110001
"""The number of characters, and one for the end of a text."""
LONGEST = 40
"""The greatest length of a text that is represented by a number."""
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def number_of(value: Any) -> Fraction | None:
    """The number of a value in the order of its type; None if it has none."""
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
    """The distance of adjacent values of a type; None for a dense order."""
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
    """The value of a type with a number; None if there is none."""
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
    """The text with this number."""
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


# ---- linear expressions ----------------------------------------------------------------------------------------------


EXACT = frozenset({Kind.NUMBER, Kind.UNSIGNED})


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear expression: fresh values, by name, with factors (`parts`), plus a number (`more`)."""

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
        return Linear(tuple(sorted((name, each) for name, each in found.items() if each)), self.more + other.more)

    def times(self, factor: Fraction) -> Linear:
        parts = tuple((name, each * factor) for name, each in self.parts) if factor else ()
        return Linear(parts, self.more * factor)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other.times(Fraction(-1)))

    def replaced(self, given: Mapping[str, Linear]) -> Linear:
        """Substitute expressions for fresh values."""
        made = number(self.more)
        for name, factor in self.parts:
            made = made.plus(given.get(name, new_value(name)).times(factor))
        return made

    def solved(self, name: str) -> Linear:
        """The value of one fresh value for which the expression is 0."""
        rest = Linear(tuple(each for each in self.parts if each[0] != name), self.more)
        return rest.times(-1 / dict(self.parts)[name])


def new_value(name: str) -> Linear:
    return Linear(((name, Fraction(1)),))


def number(value: Fraction) -> Linear:
    return Linear((), value)


def linear_of(term: Term, types: Mapping[str, Type], known: Mapping[str, Linear | None] | None = None) -> Linear | None:
    """A term as a linear expression, with `known` expressions for some variables; None if it is not linear."""
    match term:
        case Variable(name):
            return known[name] if known and name in known else new_value(name)
        case Call(function, args) if variables(term):
            kind = term_type(term, types).kind
            if kind not in EXACT and not (kind is Kind.DECIMAL and function in ("+", "-", "neg")):
                return None
            return _computed(function, [linear_of(arg, types, known) for arg in args])
        case _:
            value = number_of(value_of(term, {}, types))
            return None if value is None else number(value)


def _computed(function: str, args: list[Linear | None]) -> Linear | None:
    match function, args:
        case "neg", [Linear() as one]:
            return one.times(Fraction(-1))
        case "+", [Linear() as one, Linear() as other]:
            return one.plus(other)
        case "-", [Linear() as one, Linear() as other]:
            return one.minus(other)
        case "*", [Linear(parts=()) as one, Linear() as other] | [Linear() as other, Linear(parts=()) as one]:
            return other.times(one.more)
        case _:
            return None


def as_term(value: Linear, type: Type) -> Term:
    """A linear expression as a term."""
    term: Term | None = None
    for name, factor in value.parts:
        part: Term = Variable(name)
        if factor != 1:
            part = Call("*", (Constant(value_at(factor, type), type), part))
        term = part if term is None else Call("+", (term, part))
    more = Constant(value_at(value.more, type), type)
    if term is None:
        return more
    return Call("+", (term, more)) if value.more else term


def in_words(value: Linear) -> str:
    """The text of a linear expression.

    >>> in_words(new_value("?1").plus(number(Fraction(-19))))
    '?1 - 19'
    """
    share = math.lcm(*(factor.denominator for _, factor in value.parts))
    whole = value.times(Fraction(share))
    terms = [(factor, name if abs(factor) == 1 else f"{abs(factor)} * {name}") for name, factor in whole.parts]
    if whole.more or not terms:
        terms.append((whole.more, str(Decimal(abs(whole.more).numerator) / Decimal(whole.more.denominator))))
    terms.sort(key=lambda each: each[0] < 0)
    (first, text), *others = terms
    text = f"-{text}" if first < 0 else text
    text += "".join(f" {'-' if factor < 0 else '+'} {term}" for factor, term in others)
    return text if share == 1 else f"({text}) / {share}.0"
