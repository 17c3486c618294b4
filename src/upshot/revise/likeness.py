"""Whether an update is part of another, whatever their new values are called.

The rows of the update are given places one by one, always the row that has the fewest: a place agrees with the row in
all that is no new value, and in the new values that have names already. That is quick unless many new values are alike
in all respects, which is hard for anyone: after `MOST` places it is left open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.engine.time_limit import check_time
from upshot.revise.branch import Branch, Update
from upshot.revise.placeholders import Placeholder
from upshot.revise.request import Key, Row

MOST = 5_000
"""Places that are tried for the rows of one update."""
MOST_ROWS = 300
"""Rows with new values that an update may have."""


class TooAlikeError(Exception):
    """So many places were tried that it was left open."""


def contains_update(branch: Branch, update: Update, names: tuple[Placeholder, ...]) -> bool:
    """Whether an update with these new values is part of what the branch has decided on; `TooAlikeError` if that takes
    too long to tell."""
    insert, delete = update
    if len(insert) > len(branch.insert) or not delete <= branch.delete:
        return False
    new = {each.witness for each in names}
    fixed = [key for key in insert if new.isdisjoint(key[1])]
    if not branch.insert.issuperset(fixed):
        return False
    open_ = [key for key in insert if not new.isdisjoint(key[1])]
    if not open_:
        return True
    if len(open_) > MOST_ROWS:
        raise TooAlikeError
    places = _Places(frozenset(each.witness for each in branch.placeholders), new)
    for key in branch.insert:
        places.add(key)
    return places.have(open_)


@dataclass(slots=True)
class _Places:
    """The rows of a branch, by what they have in common with rows that have other new values."""

    values: frozenset[Any]
    new: set[Any]
    _rows: dict[tuple[object, ...], list[Row]] = field(default_factory=dict)
    _left: int = MOST

    def add(self, key: Key) -> None:
        relation, row = key
        if not self.values.isdisjoint(row):
            shape = _shape(row, self.values)
            self._rows.setdefault((relation, shape), []).append(row)
            for place, value in enumerate(row):
                if value in self.values:
                    self._rows.setdefault((relation, shape, place, value), []).append(row)

    def have(self, rows: Iterable[Key]) -> bool:
        """Whether all of the rows have a place at once."""
        return self._placed({key: _shape(key[1], self.new) for key in rows}, {})

    def _placed(self, left: Mapping[Key, Row], named: Mapping[Any, Any]) -> bool:
        check_time()
        if not left:
            return True
        self._left -= 1
        chosen, rows = self._narrowest(left, named)
        rest = {key: shape for key, shape in left.items() if key != chosen}
        taken = frozenset(named.values())
        for row in rows:
            self._left -= 1
            made = self._matched(chosen[1], row, named, taken)
            if made is not None and self._placed(rest, {**named, **made}):
                return True
            if self._left < 0:
                raise TooAlikeError
        return False

    def _narrowest(self, left: Mapping[Key, Row], named: Mapping[Any, Any]) -> tuple[Key, list[Row]]:
        """The row that has the fewest places to be tried, and those."""
        best: tuple[Key, list[Row]] | None = None
        for key, shape in left.items():
            for rows in self._near(key, shape, named):
                if best is None or len(rows) < len(best[1]):
                    best = key, rows
            if best is not None and len(best[1]) <= 1:
                break
        assert best is not None, "a row is left"
        return best

    def _near(self, key: Key, shape: Row, named: Mapping[Any, Any]) -> Iterator[list[Row]]:
        relation, row = key
        yield self._rows.get((relation, shape), [])
        for place, value in enumerate(row):
            if value in named:
                yield self._rows.get((relation, shape, place, named[value]), [])

    def _matched(self, row: Row, other: Row, named: Mapping[Any, Any], taken: frozenset[Any]) -> dict[Any, Any] | None:
        """The names that make one row the other, beside those there are; no two values get the same."""
        made: dict[Any, Any] = {}
        for value, name in zip(row, other, strict=True):
            if value not in self.new:
                continue
            if value in named or value in made:
                if named.get(value, made.get(value)) != name:
                    return None
            elif name in taken or name in made.values():
                return None
            else:
                made[value] = name
        return made


def _shape(row: Row, new: frozenset[Any] | set[Any]) -> Row:
    """The row with the same mark for every new value."""
    return tuple(_NEW if value in new else value for value in row)


class _New:
    """Stands for any new value."""


_NEW = _New()
