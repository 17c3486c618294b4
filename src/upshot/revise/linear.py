"""Values that move with new ones: so much of each, and something more. Where one is 0, comparisons change.

Every value that has an order is a number here, dates as days and texts as fractions, so that all of them are compared
alike; only numbers are computed with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from upshot.core.types import Kind, Type
from upshot.revise.ordered_values import number_of
from upshot.revise.term_values import UNKNOWN
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Call, Constant, Term, Variable

ARITHMETIC = frozenset({Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL})
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
        """Whether it is a new value itself."""
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


def difference(one: Symbolic, other: Symbolic) -> Linear | None:
    """How much more one value is than another; None if one of them has no place in an order."""
    first, second = as_linear(one), as_linear(other)
    return None if first is None or second is None else first.minus(second)


def concrete(value: Symbolic, values: Mapping[str, Any]) -> Any:
    """What a value that moves comes to."""
    if not isinstance(value, Linear):
        return value
    if value.is_bare:
        return values[value.parts[0][0]]
    numbers = {name: number for name, _ in value.parts if (number := number_of(values[name])) is not None}
    found: Fraction = value.at(numbers)
    if any(isinstance(values[name], Decimal) for name, _ in value.parts):
        return Decimal(found.numerator) / Decimal(found.denominator)
    return int(found) if found.denominator == 1 else float(found)


def symbolic(term: Term, binding: Mapping[str, Symbolic], types: Mapping[str, Type], plain: Any) -> Symbolic:
    """What a term comes to: `plain` tells it where no new value is in it; `UNKNOWN` where a variable has no value;
    `NotLinearError` where that cannot be said."""
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
