"""The borders between new values that are not alike, and values on all sides of them.

They are found as a search goes on: what rules compare new values with, what a change meets. Between every two that
follow each other a value is tried, and each border itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

from upshot.core.types import Type
from upshot.revise.cells import TooManyBordersError, inside, value_at, without
from upshot.revise.linear import Linear, number_of
from upshot.revise.placeholders import Placeholder
from upshot.revise.rules import Column

Columns = frozenset[Column]

MOST = 24
"""Borders that are kept for the values of a column."""

Border = tuple[Columns, Columns | None, Fraction, Fraction]
"""Of new values of columns: where they are so many times those of other columns, and so much more."""


@dataclass(slots=True)
class KnownBorders:
    """The borders that were found, by the columns of the new values."""

    _known: dict[Columns, dict[Border, None]] = field(default_factory=dict)
    _noted: dict[Border, None] = field(default_factory=dict)

    def note(self, borders: Iterable[Linear], used: Sequence[Placeholder]) -> bool:
        """Notes the borders of new values, for others of their columns; false if they are too many."""
        columns = {each.name: each.columns for each in used if each.columns}
        every = list(borders)
        try:
            for name in columns:
                alone = every
                for other in columns:
                    alone = alone if other == name else without(other, alone)
                for border in {*every, *alone}:
                    if not self._note(border, name, columns):
                        return False
        except TooManyBordersError:
            return False
        return True

    def _note(self, border: Linear, name: str, columns: dict[str, Columns]) -> bool:
        parts = dict(border.parts)
        factor = parts.pop(name, None)
        if not factor or len(parts) > 1 or not columns.keys() >= parts.keys():
            return True
        made: Border = (columns[name], None, Fraction(0), -border.more / factor)
        for other, much in parts.items():
            made = columns[name], columns[other], -much / factor, -border.more / factor
        known = self._known.get(columns[name], {})
        if made not in known and made not in self._noted:
            if len(known) + sum(each[0] == columns[name] for each in self._noted) >= MOST:
                return False
            self._noted[made] = None
        return True

    @property
    def has_news(self) -> bool:
        """Whether borders were noted that are not taken in yet."""
        return bool(self._noted)

    def take_in(self) -> bool:
        """Whether any were noted; from now on values are tried for them."""
        is_new = self.has_news
        for border in self._noted:
            self._known.setdefault(border[0], {})[border] = None
        self._noted.clear()
        return is_new

    def borders(self, columns: Columns, placeholders: Iterable[Placeholder]) -> Iterator[Fraction]:
        """Where the borders of new values of these columns lie, given the new values there are already."""
        there = [(each, number_of(each.witness)) for each in placeholders]
        for _, others, factor, more in self._known.get(columns, ()):
            if others is None:
                yield more
            for each, number in there:
                if others is not None and each.columns == others and number is not None:
                    yield factor * number + more

    def are_joint(self, columns: Columns) -> bool:
        """Whether new values of these columns are compared with other new ones, for which they have to leave room."""
        return any(others is not None for _, others, _, _ in self._known.get(columns, ()))


def values_around(borders: Iterable[Fraction], type: Type, several: bool) -> tuple[tuple[Any, ...], ...]:
    """For each border its value, and for each gap between two values in it, of which one will do; several if they are
    to leave room for others."""
    return _values_around(tuple(sorted({*borders})), type, several)


@lru_cache(maxsize=512)
def _values_around(borders: tuple[Fraction, ...], type: Type, several: bool) -> tuple[tuple[Any, ...], ...]:
    found: list[tuple[Any, ...]] = []
    for low, high in pairwise((None, *borders, None)):
        here = tuple(islice(inside(low, high, type), 40))
        found.append(here)
        if several:
            found += [(each,) for each in here[1:3]]
        at = None if high is None else value_at(high, type)
        if at is not None:
            found.append((at,))
    return tuple(found)
