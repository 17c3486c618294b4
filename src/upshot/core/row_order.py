"""An order of rows, and pages in it: a page starts after a row, not at an offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError
from upshot.core.schema import Schema

_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The places of all columns in the order of sorting, and whether each is descending. No two rows tie.

    NULL is smaller than every value, NaN larger.

    >>> RowOrder((1, 0), (True, False)).sorted([(1, 2), (1, 3), (0, 3)])
    [(0, 3), (1, 3), (1, 2)]
    """

    places: tuple[int, ...]
    descending: tuple[bool, ...]

    def sorted(self, rows: Sequence[_Row]) -> list[_Row]:
        """The rows in this order."""
        found = list(rows)
        # From the last column to the first: sorting keeps the order of equals, also in reverse.
        for place, descends in reversed(tuple(zip(self.places, self.descending, strict=True))):
            found.sort(key=lambda row, place=place: _key(row[place]), reverse=descends)  # type: ignore[misc]
        return found

    def page(self, rows: Sequence[_Row], after: _Row | None, limit: int) -> list[_Row]:
        """The first `limit` rows after a row, which may be absent."""
        if after is not None:
            rows = [row for row in rows if self._is_before(after, row)]
        return self.sorted(rows)[:limit]

    def _is_before(self, row: _Row, other: _Row) -> bool:
        for place, descends in zip(self.places, self.descending, strict=True):
            left, right = _key(row[place]), _key(other[place])
            if left != right:
                return (left > right) if descends else (left < right)
        return False


def row_order(schema: Schema, text: str | None = None) -> RowOrder:
    """The order given by a text such as `-y` or `y,-x`; the other columns follow, ascending, left to right.

    >>> from upshot.core.schema import Column
    >>> from upshot.core.types import NUMBER
    >>> row_order(Schema("edge", (Column("x", NUMBER), Column("y", NUMBER))), "-y")
    RowOrder(places=(1, 0), descending=(True, False))
    """
    names = [column.name for column in schema.columns]
    chosen: dict[int, bool] = {}
    for part in () if text is None else text.split(","):
        name = part.strip()
        descends = name.startswith("-") and name not in names
        name = name[1:] if descends else name
        if name not in names:
            hint = did_you_mean(name, set(names)) or (f"the columns are {', '.join(names)}" if names else "")
            raise UsageError(f"unknown column `{name}` in `order`", code="unknown-column", help=hint)
        if names.index(name) in chosen:
            hint = "name each column once, as in `-y,x`"
            raise UsageError(f"column `{name}` is twice in `order`", code="wrong-argument", help=hint)
        chosen[names.index(name)] = descends
    places = (*chosen, *(place for place in range(len(names)) if place not in chosen))
    return RowOrder(places, tuple(chosen.get(place, False) for place in places))


def _key(value: Any) -> tuple[int, Any]:
    return (0, 0) if value is None else (2, 0) if value != value else (1, value)
