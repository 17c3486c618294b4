"""The base changes that a transaction had made at the turns of its rules: the states around a firing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from upshot.active.row_sets import RowSet
from upshot.core.rows import Rows
from upshot.engine.rule_processor import ChangeWindow

Deltas = Mapping[str, tuple[Rows, Rows]]
BEGIN = -1
"""The point before the first statement."""


@dataclass(frozen=True, slots=True)
class RuleTurn:
    """A turn: its window, and the points of the log at the rule's last turn (`since`), after its actions then (`acted`)
    and at this turn (`now`)."""

    log: TurnLog
    window: ChangeWindow[RowSet]
    since: int
    acted: int
    now: int


@dataclass(slots=True)
class TurnLog:
    """The points of one transaction, which began at version `begun`. `base` returns the base changes of a propagation;
    None if they are too many to keep."""

    begun: int
    base: Callable[[Deltas], Deltas | None]
    points: list[Deltas | None] = field(default_factory=list)
    is_open: bool = True
    """True if statements may have been staged since the last point."""
    _turns: dict[str, int] = field(default_factory=dict)
    _acted: dict[str, int] = field(default_factory=dict)

    def turn(self, rule: str, window: ChangeWindow[RowSet], deltas: Deltas) -> RuleTurn:
        since, now = self._turns.get(rule, BEGIN), self._point(deltas)
        made = RuleTurn(self, window, since, self._acted.get(rule, since), now)
        self._turns[rule] = self._acted[rule] = now
        return made

    def acted(self, rule: str, deltas: Deltas) -> None:
        """Note that the actions of the rule's turn are propagated."""
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
