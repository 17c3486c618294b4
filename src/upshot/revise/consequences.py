"""What a change with new values does to views: whether it does the same with others.

Rows that move with new values are known by how they do: `w(?1 + 1)`. Where such a row is there already, it does not
come; where it is one that goes, it stays. Both are what the formula says, and make no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from upshot.revise.borders import Found
from upshot.revise.linear import Symbolic
from upshot.revise.request import Key, Row
from upshot.revise.rules import Column
from upshot.revise.world import World


@dataclass(frozen=True, slots=True)
class Consequences:
    """By view, the rows that come and those that go. `moving` are rows as they move with new values, `met` those of
    them that were there before, `still` the others that come, without what may move unseen in them. They `are_whole` if
    all rows that move are known."""

    came: Mapping[str, Counter[Row]]
    went: Mapping[str, frozenset[Row]]
    moving: frozenset[tuple[str, tuple[Symbolic, ...]]]
    met: frozenset[Key]
    still: Mapping[str, Counter[Row]]
    are_whole: bool

    def are_like(self, other: Consequences) -> bool:
        """Whether both are the same, but for the new values in them."""
        if not (self.are_whole and other.are_whole):
            return self.came == other.came and self.went == other.went
        return (
            self.moving == other.moving
            and self.still == other.still
            and self._goes_beyond(other) <= other.met
            and other._goes_beyond(self) <= self.met
        )

    def _goes_beyond(self, other: Consequences) -> frozenset[Key]:
        return frozenset((name, row) for name, rows in self.went.items() for row in rows - other.went.get(name, set()))


def consequences(world: World, views: Iterable[str], columns: Collection[Column], found: Found) -> Consequences:
    """Those of the staged change: `columns` are where new values may move, `found` is where they were seen to."""
    came, went, still, met = {}, {}, {}, set[Key]()
    known = {name: {key[1] for key in found.rows if key[0] == name} for name in {key[0] for key in found.rows}}
    names = frozenset(views)
    for name in names:
        added, removed = world.added(name), world.removed(name)
        moving = known.get(name, set())
        if added:
            came[name] = Counter(_masked(name, row, columns) for row in added)
            if others := Counter(_masked(name, row, columns) for row in added if row not in moving):
                still[name] = others
        if removed:
            went[name] = frozenset(removed)
        met.update((name, row) for row in moving.difference(added))
    versions = frozenset((key[0], row) for key, rows in found.rows.items() if key[0] in names for row in rows)
    return Consequences(came, went, versions, frozenset(met), still, not found.missing)


def _masked(name: str, row: Row, columns: Collection[Column]) -> Row:
    return tuple(None if (name, place) in columns else value for place, value in enumerate(row))
