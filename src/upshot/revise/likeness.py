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


def contains_update(branch: Branch, known: Known, is_new: IsNew = lambda _, __: False) -> bool:
    """Whether what is known is part of what the branch has decided on; `TooAlikeError` if that takes too long to tell.
    Values of the branch that are no placeholders stand for new ones where they are new."""
    insert, delete = known.update
    if len(insert) > len(branch.insert) or not delete <= branch.delete:
        return False
    rows = {key: named(key, known.placeholders) for key in insert}
    open_ = [key for key, row in rows.items() if row != key[1]]
    if not branch.insert.issuperset(key for key in insert if rows[key] == key[1]):
        return False
    if not open_:
        return True
    if len(open_) > MOST_ROWS:
        raise TooAlikeError
    places = _Places(known.region, {each.name: each for each in known.placeholders})
    for key in branch.insert:
        places.add(key, branch.placeholders, is_new)
    return places.have({key: rows[key] for key in open_})


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
    """The rows of a branch, by what they have in common with rows that have other new values."""

    region: Region
    names: Mapping[str, Placeholder]
    _rows: dict[tuple[object, ...], list[Row]] = field(default_factory=dict)
    _left: int = MOST

    def add(self, key: Key, placeholders: Sequence[Placeholder], is_new: IsNew) -> None:
        relation, row = key
        given = named(key, placeholders)
        marks = [
            (_NEW,) if isinstance(each, Placeholder) else (each, _NEW) if is_new((relation, place), each) else (each,)
            for place, each in enumerate(given)
        ]
        if sum(len(each) > 1 for each in marks) > FEW:
            marks = [each[-1:] for each in marks]
        for shape in product(*marks):
            if _NEW in shape:
                self._rows.setdefault((relation, shape), []).append(row)
                for place, mark in enumerate(shape):
                    if mark is _NEW:
                        self._rows.setdefault((relation, shape, place, row[place]), []).append(row)

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
