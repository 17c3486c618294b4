"""The last commits, for monitoring: inserted and deleted rows per relation, and seconds."""

from __future__ import annotations

import datetime as dt
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from upshot.active.firing import Firing
from upshot.core.rows import Row, Rows
from upshot.database.database import Database
from upshot.database.watch import CommitEvent, Event

KEPT = 200
KEPT_FIRINGS = 200
KEPT_CAUSES = 20
"""Versions whose firings are kept with the changes around them, so that their causes can be found."""
_ROWS_OF_FIRING = 20


@dataclass(slots=True)
class CommitSummary:
    """One version: the numbers of inserted and deleted rows per changed relation. `seconds` is set if a request made
    it, not a rule."""

    version: int
    changes: Mapping[str, tuple[int, int]]
    time: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """A rule that fired with a version, and the first of the instances it fired for."""

    version: int
    rule: str
    count: int
    rows: Sequence[Row]


class RecentCommits:
    """The commits since the service started, the newest last; bounded."""

    def __init__(self, database: Database, count: Callable[[], None]) -> None:
        """`count` is called once for each commit."""
        self._count = count
        self._guard = threading.Lock()
        self._commits: deque[CommitSummary] = deque(maxlen=KEPT)
        self._firings: deque[Fired] = deque(maxlen=KEPT_FIRINGS)
        self._made: deque[tuple[int, tuple[Firing, ...]]] = deque(maxlen=KEPT_CAUSES)
        self._subscriptions = [database.watch_commits(self._heard)]
        for rule in database.rules:
            self._subscriptions.append(database.watch(rule, self._fired, since=database.version))

    def _heard(self, event: CommitEvent) -> None:
        counts = {name: (len(change.inserted), len(change.deleted)) for name, change in event.changes.items()}
        with self._guard:
            self._commits.append(CommitSummary(event.version, counts))
        self._count()

    def _fired(self, event: Event) -> None:
        rows: Rows = event.inserted
        if len(rows):
            fired = Fired(event.version, event.view, len(rows), rows.sorted()[:_ROWS_OF_FIRING])
            with self._guard:
                self._firings.append(fired)

    def took(self, version: int, seconds: float, firings: tuple[Firing, ...] = ()) -> None:
        """The version was made in this time, and rules fired."""
        with self._guard:
            if firings:
                self._made.append((version, firings))
            for each in reversed(self._commits):
                if each.version == version:
                    each.seconds = seconds
                if each.version <= version:
                    return

    def latest(self, limit: int) -> list[CommitSummary]:
        """The last commits, newest first."""
        with self._guard:
            return list(reversed(self._commits))[:limit]

    def firings(self, limit: int = KEPT_FIRINGS) -> list[Fired]:
        """The last firings, newest first."""
        with self._guard:
            return list(reversed(self._firings))[:limit]

    def firings_of(self, version: int, rule: str) -> list[Firing]:
        """The firings of a rule in a version, if they are kept."""
        with self._guard:
            return [each for made, some in self._made if made == version for each in some if each.rule == rule]

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
