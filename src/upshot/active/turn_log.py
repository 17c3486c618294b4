"""The base changes that a transaction had made when its rules had their turns: the states around a firing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from upshot.active.row_sets import RowSet
from upshot.core.rows import Rows
from upshot.engine.rule_processor import ChangeWindow

Deltas = Mapping[str, tuple[Rows, Rows]]
BEGIN = -1
"""The point at which the transaction began."""


@dataclass(frozen=True, slots=True)
class RuleTurn:
    """A turn: its window, and the points of its log at which the rule had its last turn, had `acted` in it, and was
    considered `now`."""

    log: TurnLog
    window: ChangeWindow[RowSet]
    since: int
    acted: int
    now: int


@dataclass(slots=True)
class TurnLog:
    """The points of one transaction, which began with version `begun`. `base` takes the changes of base relations out
    of a propagation; None if they are not worth keeping."""

    begun: int
    base: Callable[[Deltas], Deltas | None]
    points: list[Deltas | None] = field(default_factory=list)
    is_open: bool = True
    """Statements may have come since the last point."""
    _turns: dict[str, int] = field(default_factory=dict)
    _acted: dict[str, int] = field(default_factory=dict)

    def turn(self, rule: str, window: ChangeWindow[RowSet], deltas: Deltas) -> RuleTurn:
        """The rule has its turn."""
        since, now = self._turns.get(rule, BEGIN), self._point(deltas)
        made = RuleTurn(self, window, since, self._acted.get(rule, since), now)
        self._turns[rule] = self._acted[rule] = now
        return made

    def acted(self, rule: str, deltas: Deltas) -> None:
        """The actions of its turn are propagated."""
        self._acted[rule] = self._point(deltas)

    def is_end(self, point: int) -> bool:
        """Test whether the transaction ended in the state of this point."""
        return not self.is_open and point == len(self.points) - 1

    def remember(self) -> tuple[dict[str, int], dict[str, int]]:
        """The last turns, for `restore`."""
        return dict(self._turns), dict(self._acted)

    def restore(self, known: tuple[dict[str, int], dict[str, int]]) -> None:
        self._turns, self._acted = dict(known[0]), dict(known[1])
        self.is_open = True

    def _point(self, deltas: Deltas) -> int:
        if self.is_open:
            self.is_open = False
            self.points.append(self.base(deltas))
        return len(self.points) - 1
