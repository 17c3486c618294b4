"""What was committed, as it is told to those who follow: every version, also those that rules made after a commit."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from upshot.core.rows import Rows
from upshot.database.changes import Changes
from upshot.database.database import Database
from upshot.database.watch import Event


@dataclass(frozen=True, slots=True)
class Committed:
    """One version: the exact changes of every relation, base relations included, and the rules that fired with the
    instances they fired for. It is durable."""

    version: int
    changes: Mapping[str, Changes]
    firings: Mapping[str, Rows] = field(default_factory=dict)
    time: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))


class CommitCollector:
    """Hears of every change of a database, from the moment it is made; `take` hands over what is new."""

    def __init__(self, database: Database) -> None:
        self._guard = threading.Lock()
        self._events: list[Event] = []
        self._rules = frozenset(database.rules)
        version = database.version
        names = (*database.schemas, *database.rules)
        self._subscriptions = [database.watch(name, self._heard, since=version) for name in names]

    def _heard(self, event: Event) -> None:
        with self._guard:
            self._events.append(event)

    def take(self) -> Sequence[Committed]:
        """The versions since the last call in which something changed, in order."""
        with self._guard:
            events, self._events = self._events, []
        found: dict[int, tuple[dict[str, Changes], dict[str, Rows]]] = {}
        for event in events:
            changes, firings = found.setdefault(event.version, ({}, {}))
            if event.view in self._rules:
                firings[event.view] = event.inserted
            else:
                changes[event.view] = Changes(event.inserted, event.deleted)
        return [Committed(version, *found[version]) for version in sorted(found)]

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
