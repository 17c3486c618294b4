"""The events of a subscription: rows of one sign only, net changes of an interval, a bound on the rows of an event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from upshot.core.errors import UsageError
from upshot.core.rows import Rows, row_set
from upshot.database.changes import NetChange
from upshot.database.watch import Callback, Event

_SIGNS = ("all", "insert", "delete")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """`every`: at most one event in this many seconds, with the net change since the last one. `events`: `insert` or
    `delete` for rows of one sign only. `limit`: the most rows of each sign in an event; `omitted` counts the others."""

    every: float | None = None
    events: str = "all"
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.events not in _SIGNS:
            raise _wrong(f"`events` cannot be `{self.events}`", "use `all`, `insert` or `delete`")
        if self.every is not None and not (isinstance(self.every, int | float) and self.every > 0):
            raise _wrong("`every` must be a positive number of seconds", "as in every=0.5")
        if self.limit is not None and (isinstance(self.limit, bool) or self.limit < 0):
            raise _wrong("`limit` must be a non-negative integer", "as in limit=100")

    def applied(
        self, callback: Callback, attempt: Callable[[Callable[[], object]], None]
    ) -> tuple[Callback, Callable[[], None]]:
        """The callback for the filtered and joined events, and a function that stops it. `attempt` runs calls on other
        threads and keeps their errors."""
        passed = callback if self.events == "all" and self.limit is None else self._filtered(callback)
        if self.every is None:
            return passed, lambda: None
        interval = _IntervalJoin(passed, self.every, attempt)
        return interval.on_event, interval.stop

    def shown(self, event: Event) -> Event:
        """The event with the rows that the subscriber gets; a snapshot has all rows, whatever the sign."""
        none = Rows.of(event.inserted.schema, [])
        inserted = event.inserted if self.events != "delete" or event.snapshot else none
        deleted = event.deleted if self.events != "insert" else none
        omitted = 0
        if self.limit is not None:
            omitted = max(0, len(inserted) - self.limit) + max(0, len(deleted) - self.limit)
            inserted, deleted = (_first(rows, self.limit) for rows in (inserted, deleted))
        return replace(event, inserted=inserted, deleted=deleted, omitted=omitted)

    def _filtered(self, callback: Callback) -> Callback:
        def on_event(event: Event) -> None:
            shown = self.shown(event)
            if shown.snapshot or shown.omitted or len(shown.inserted) or len(shown.deleted):
                callback(shown)

        return on_event


def _first(rows: Rows, limit: int) -> Rows:
    return rows if len(rows) <= limit else Rows.of(rows.schema, rows.sorted()[:limit])


class _IntervalJoin:
    """Joins events into one net change for each interval. The first is passed on at once, the last by a timer."""

    def __init__(self, callback: Callback, every: float, attempt: Callable[[Callable[[], object]], None]) -> None:
        self._callback, self._every, self._attempt = callback, every, attempt
        self._guard = threading.RLock()
        self._due = 0.0
        self._waiting: Event | None = None
        self._timer: threading.Timer | None = None
        self._stopped = False

    def stop(self) -> None:
        """Pass on no more events. Does not wait for a running callback, which may be the caller."""
        self._stopped = True
        if (timer := self._timer) is not None:
            timer.cancel()

    def on_event(self, event: Event) -> None:
        with self._guard:
            self._waiting = event if self._waiting is None or event.snapshot else _joined(self._waiting, event)
            if time.monotonic() >= self._due:
                self._pass_on()
            elif self._timer is None:
                self._timer = threading.Timer(self._due - time.monotonic(), self._attempt, (self._pass_on,))
                self._timer.daemon = True
                self._timer.start()

    def _pass_on(self) -> None:
        with self._guard:
            self._timer = None
            event, self._waiting = self._waiting, None
            if self._stopped:
                return
            if event is not None and (event.snapshot or len(event.inserted) or len(event.deleted)):
                self._due = time.monotonic() + self._every
                self._callback(event)


def _joined(first: Event, second: Event) -> Event:
    """Two events as one; a row that was inserted and deleted is in neither."""
    net = NetChange(set(row_set(first.inserted)), set(row_set(first.deleted)))
    net.add(second.inserted, second.deleted)
    inserted, deleted = net.rows(second.inserted.schema)
    return replace(second, inserted=inserted, deleted=deleted)


def _wrong(message: str, help: str) -> UsageError:
    return UsageError(message, code="wrong-argument", help=help)
