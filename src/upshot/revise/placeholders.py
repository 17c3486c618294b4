"""Values that do not occur yet: a placeholder, and a witness that stands for it while a realisation is proven."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from upshot.core.types import Kind, Type
from upshot.revise.text_witnesses import just_below

_NAMES = re.compile(r"\?\d+")
_CALL = re.compile(r"\w+\([^()]*\)")
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
    is_opaque: bool = field(default=False, compare=False)
    """Whether it is computed in a way that is not found out by trying others: what rules ask of it has to be said."""

    def stands_at(self, column: tuple[str, int], value: Any) -> bool:
        """Whether a value in a column is this one."""
        return bool(value == self.witness and (self.columns is None or column in self.columns))

    def is_linked(self, other: Placeholder) -> bool:
        """Whether rules may take the values of two for each other: then they are different."""
        return self.columns is None or other.columns is None or not self.columns.isdisjoint(other.columns)

    def __repr__(self) -> str:
        """As it stands in rows: `?1`."""
        return self.name


def renamed(condition: str, names: Mapping[str, str]) -> str:
    """A condition with other names for new values."""
    return _NAMES.sub(lambda found: names.get(found[0], found[0]), condition)


def telling(conditions: Sequence[str], used: Iterable[str]) -> tuple[str, ...]:
    """The conditions in terms of the names that are used: others are replaced by what they are equal to.

    >>> telling(["?2 = ?1 % 3", "?2 > 1"], ["?1"])
    ('?1 % 3 > 1',)
    """
    stated, shown = list(dict.fromkeys(conditions)), {*used}
    while (found := next(_equations(stated, shown), None)) is not None:
        equation, name, value = found
        stated = [_with_value(each, name, value) for each in stated if each != equation]
    return tuple(dict.fromkeys(stated))


def _equations(conditions: Iterable[str], shown: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Conditions that say what a name is that is not shown, with the name and what it is equal to."""
    for each in conditions:
        left, _, right = each.partition(" = ")
        for name, value in ((left, right), (right, left)):
            if _NAMES.fullmatch(name) and value and name not in shown and name not in _NAMES.findall(value):
                yield each, name, value


def _with_value(condition: str, name: str, value: str) -> str:
    """A condition with what a name is equal to in its place."""
    whole = rf"^{re.escape(name)}(?= (?:[<>]=?|!?=) )|(?<=[<>=] ){re.escape(name)}$"
    inside = value if _CALL.fullmatch(value) or " " not in value else f"({value})"
    return re.sub(rf"{re.escape(name)}(?!\d)", lambda _: inside, re.sub(whole, lambda _: value, condition))


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
