"""Whether an update is part of another, whatever their new values are called.

The rows of the update are given places one by one, always the row that has the fewest: a place agrees with the row in
all that is no new value, and in the new values that have names already. In the end all new values have to lie where the
update was found to be one. That is quick unless many new values are alike in all respects, which is hard for anyone:
after `MOST` places it is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from upshot.engine.time_limit import check_time
from upshot.revise.branch import Branch, Update
from upshot.revise.placeholders import Placeholder
from upshot.revise.regions import EVERYWHERE, Region
from upshot.revise.request import Key, Row
from upshot.revise.rules import Column

MOST = 5_000
"""Places that are tried for the rows of one update."""
MOST_ROWS = 300
"""Rows with new values that an update may have."""
FEW = 4
"""Values of a row each of which may be new or not."""

IsNew = Callable[[Column, Any], bool]


class TooAlikeError(Exception):
    """So many places were tried that it was left open."""


@dataclass(frozen=True, slots=True)
class Known:
    """A realisation that was found: its update, the new values in it, and where they may lie."""

    update: Update
    placeholders: tuple[Placeholder, ...] = ()
    region: Region = EVERYWHERE
    rows: Mapping[Key, Row] = field(init=False, compare=False)
    """The rows that it brings with new values in them."""

    def __post_init__(self) -> None:
        rows = {key: named(key, self.placeholders) for key in self.update[0]}
        object.__setattr__(self, "rows", {key: row for key, row in rows.items() if row != key[1]})


def contains_one_of(branch: Branch, every: Iterable[Known], is_new: IsNew = lambda _, __: False) -> bool:
    """Whether one of those that are known is part of what the branch has decided on; `TooAlikeError` if that takes too
    long to tell. Values of the branch that are no placeholders stand for new ones where they are new."""
    places: dict[tuple[object, ...], list[Row]] | None = None
    for known in every:
        insert, delete = known.update
        if len(insert) > len(branch.insert) or not delete <= branch.delete:
            continue
        if not branch.insert.issuperset(key for key in insert if key not in known.rows):
            continue
        if not known.rows:
            return True
        if len(known.rows) > MOST_ROWS:
            raise TooAlikeError
        places = _places(branch, is_new) if places is None else places
        if _Places(known.region, {each.name: each for each in known.placeholders}, places).have(known.rows):
            return True
    return False


def _places(branch: Branch, is_new: IsNew) -> dict[tuple[object, ...], list[Row]]:
    """The rows that a branch brings, by what they have in common with rows that have other new values."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for relation, row in branch.insert:
        given = named((relation, row), branch.placeholders)
        marks = [
            (_NEW,) if isinstance(each, Placeholder) else (each, _NEW) if is_new((relation, place), each) else (each,)
            for place, each in enumerate(given)
        ]
        if sum(len(each) > 1 for each in marks) > FEW:
            marks = [each[-1:] for each in marks]
        for shape in product(*marks):
            if _NEW in shape:
                found.setdefault((relation, shape), []).append(row)
                for place, mark in enumerate(shape):
                    if mark is _NEW:
                        found.setdefault((relation, shape, place, row[place]), []).append(row)
    return found


def named(key: Key, placeholders: Sequence[Placeholder]) -> Row:
    """The row with placeholders for the values that they stand for."""
    relation, row = key
    if {each.witness for each in placeholders}.isdisjoint(row):
        return row
    return tuple(
        next((each for each in placeholders if each.stands_at((relation, place), value)), value)
        for place, value in enumerate(row)
    )


@dataclass(slots=True)
class _Places:
    """Finds places for rows of an update with new values in a region, by their names."""

    region: Region
    names: Mapping[str, Placeholder]
    _rows: Mapping[tuple[object, ...], list[Row]]
    _left: int = MOST

    def have(self, rows: Mapping[Key, Row]) -> bool:
        """Whether all of the rows have a place at once."""
        return self._placed({(key[0], row): _shape(row) for key, row in rows.items()}, {})

    def _placed(self, left: Mapping[Key, Row], named: Mapping[str, Any]) -> bool:
        check_time()
        if not left:
            return named in self.region
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

    def _narrowest(self, left: Mapping[Key, Row], named: Mapping[str, Any]) -> tuple[Key, list[Row]]:
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

    def _near(self, key: Key, shape: Row, named: Mapping[str, Any]) -> Iterator[list[Row]]:
        relation, row = key
        yield self._rows.get((relation, shape), [])
        for place, value in enumerate(row):
            if isinstance(value, Placeholder) and value.name in named:
                yield self._rows.get((relation, shape, place, named[value.name]), [])

    def _matched(self, row: Row, other: Row, named: Mapping[str, Any], taken: frozenset[Any]) -> dict[str, Any] | None:
        """The names that make one row the other, beside those there are; no two that are linked get the same."""
        made: dict[str, Any] = {}
        for each, value in zip(row, other, strict=True):
            if not isinstance(each, Placeholder):
                continue
            name = each.name
            if name in named or name in made:
                if named.get(name, made.get(name)) != value:
                    return None
            elif (value in taken or value in made.values()) and any(
                was == value and each.is_linked(self.names[one]) for one, was in (*named.items(), *made.items())
            ):
                return None
            else:
                made[name] = value
        return made


def _shape(row: Iterable[Any]) -> Row:
    """The row with the same mark for every new value."""
    return tuple(_NEW if isinstance(value, Placeholder) else value for value in row)


class _New:
    """Stands for any new value."""


_NEW = _New()
