"""Values that do not occur yet: a placeholder, and a witness that stands for it while a realisation is proven."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from upshot.core.types import Kind, Type
from upshot.revise.text_witnesses import just_below

_NAMES = re.compile(r"\?\d+")
_FAR = 7_000_000_000
_DISTANCES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True, repr=False)
class Placeholder:
    """Some new value of a type, which the user fills in. `witness` is the value it was proven with; it stands for the
    new value in `columns`, or in all if those are not known. One that `is_computed` follows from others."""

    name: str
    type: Type
    witness: Any
    columns: frozenset[tuple[str, int]] | None = field(default=None, compare=False)
    is_computed: bool = field(default=False, compare=False)

    def stands_at(self, column: tuple[str, int], value: Any) -> bool:
        """Whether a value in a column is this one."""
        return bool(value == self.witness and (self.columns is None or column in self.columns))

    def is_linked(self, other: Placeholder) -> bool:
        """Whether rules may take the values of two for each other: then they are different."""
        return self.columns is None or other.columns is None or not self.columns.isdisjoint(other.columns)

    def __repr__(self) -> str:
        """As it stands in rows: `?1`."""
        return self.name


def telling(conditions: Sequence[str], used: Iterable[str]) -> tuple[str, ...]:
    """The conditions without those that only say what a value would be that is not part of the change: equations with
    a name that is not used, and that no other condition has."""
    names, shown = [{*_NAMES.findall(each)} for each in conditions], {*used}

    def says_nothing(place: int) -> bool:
        others = {name for at, each in enumerate(names) if at != place for name in each}
        return " = " in conditions[place] and bool(names[place] - shown - others)

    return tuple(each for place, each in enumerate(conditions) if not says_nothing(place))


def witnesses(number: int, type: Type, near: Iterable[Any] = ()) -> Iterator[Any]:
    """Values for the placeholder of this number, the most unusual first, then some that lie beside others."""
    yield from _unusual(number, type)
    for value in near:
        for distance in (number, *range(1, number)):
            yield from _beside(value, distance, type)


def further_witnesses(number: int, type: Type, near: Iterable[Any] = ()) -> Iterator[Any]:
    """More of them, ever further away, for when the first ones occur in the data."""
    for distance in _DISTANCES:
        yield from _unusual(number + distance, type)
    for value in near:
        for distance in _DISTANCES:
            yield from _beside(value, number + distance, type)


def regions(type: Type, landmarks: Sequence[Any]) -> list[tuple[Any, Any]]:
    """What lies above the last landmark, below the first, and between every two; None where there is no bound. Values
    that have no order, and those of types that have no new ones, are all in one region."""
    if not landmarks or type.kind is Kind.BOOLEAN:
        return [(None, None)]
    return [(landmarks[-1], None), (None, landmarks[0]), *pairwise(landmarks)]


def lies_in(value: Any, region: tuple[Any, Any]) -> bool:
    low, high = region
    return (low is None or value > low) and (high is None or value < high)


def _unusual(number: int, type: Type) -> Iterator[Any]:
    match type.kind:
        case Kind.NUMBER:
            yield from (_FAR + number, -_FAR - number)
        case Kind.UNSIGNED:
            yield _FAR + number
        case Kind.FLOAT:
            yield from (_FAR + number + 0.5, -_FAR - number - 0.5)
        case Kind.SYMBOL:
            yield f"new value {number}"
        case Kind.DATE:
            yield from (datetime.date(9000, 1, 1) + datetime.timedelta(number), datetime.date(2, 1, 1 + number % 28))
        case Kind.TIMESTAMP:
            for year in (9000, 2):
                yield datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=number)
        case Kind.DECIMAL:
            largest = Decimal(10) ** (type.precision - type.scale) - 1
            yield from (largest - number, number - largest) if number <= largest else ()
        case Kind.BOOLEAN:
            return


def _beside(value: Any, number: int, type: Type) -> Iterator[Any]:
    """Values just above and just below one, as a comparison may want them."""
    step: Any
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            step = number
        case Kind.FLOAT:
            step = number / 1024
        case Kind.DECIMAL:
            step = Decimal(number).scaleb(-type.scale)
        case Kind.DATE | Kind.TIMESTAMP:
            step = datetime.timedelta(days=number)
        case Kind.SYMBOL:
            yield f"{value} {number}"
            yield from just_below(value, number)
            return
        case Kind.BOOLEAN:
            return
    for direction in (1, -1):
        if direction > 0 or type.kind is not Kind.UNSIGNED or value >= step:
            with contextlib.suppress(OverflowError):  # Dates have a first and a last.
                yield value + direction * step
