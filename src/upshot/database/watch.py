"""Callbacks that follow a view: each commit's exact changes, in order, once.

Events are queued while the state is locked, in commit order, and handed over outside of the lock by whichever thread
finds the queue unattended. So a callback may query, commit, watch or unsubscribe; what it causes queues up behind.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import ChangeSet

log = logging.getLogger("upshot.watch")


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a watched relation. A `snapshot` holds all rows as inserted: the first event, and the one after a
    definition that changed the columns, or made the view nervous or strict. Of a nervous view, inserted rows may have
    been there before and deleted ones may still be: no copy can be kept from them."""

    view: str
    version: int
    inserted: Rows
    deleted: Rows
    snapshot: bool = False


EVERYTHING = "*"
"""What those watch who hear of every commit as a whole; no relation has this name."""


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """One commit as a whole, also one that changed no row. `afresh` are relations that have other columns from here on,
    or became nervous or strict: their rows are to be read again. `relations` are all there are after it."""

    version: int
    changes: ChangeSet
    afresh: frozenset[str]
    relations: Mapping[str, Schema]
    view: str = EVERYTHING


Told = Event | CommitEvent
Callback = Callable[[Event], object]
CommitCallback = Callable[[CommitEvent], object]


class Subscription:
    """A running watch. `errors` collects what the callback raised; `close()` or leaving a `with` block ends it."""

    def __init__(self, view: str, callback: Callable[[Any], object], feed: Feed, version: int | None = None) -> None:
        self.view = view
        self.version = version
        self.errors: list[Exception] = []
        self._callback = callback
        self._feed = feed
        self._open = True

    @property
    def active(self) -> bool:
        return self._open

    def close(self) -> None:
        """No callback starts after this returns; closing twice is fine."""
        self._open = False
        self._feed.forget(self)

    def deliver_all(self, events: Iterator[Told]) -> None:
        """Delivers one after the other. If one cannot be fetched, the subscription ends: there must be no gap."""
        while self._open:
            try:
                event = next(events)
            except StopIteration:
                return
            except Exception as error:
                self.errors.append(error)
                log.exception("what `%s` was in the past cannot be read; the subscription ends", self.view)
                self.close()
                return
            self.deliver(event)

    def deliver(self, event: Told) -> None:
        """Calls back, unless closed. An exception is kept and logged; it harms neither commit nor other watchers."""
        if not self._open:
            return
        self.version = event.version
        try:
            self._callback(event)
        except Exception as error:
            self.errors.append(error)
            log.exception("a callback watching `%s` failed at version %d", self.view, event.version)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<subscription to {self.view}, {'active' if self._open else 'closed'}>"


class Feed:
    """All subscriptions of a database and the events still to be handed over."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._queue: deque[tuple[Subscription, Iterator[Told]]] = deque()
        self._attended = False

    def watching(self, view: str) -> list[Subscription]:
        with self._guard:
            return [each for each in self._subscriptions if each.view == view]

    def watched(self) -> set[str]:
        with self._guard:
            return {each.view for each in self._subscriptions}

    def add(self, subscription: Subscription, first: Iterable[Told] = ()) -> None:
        """Call while nothing can be committed. What the subscription is to hear `first` is fetched as it is handed
        over, so that a long past is never in memory whole."""
        with self._guard:
            self._subscriptions.append(subscription)
            self._queue.append((subscription, iter(first)))

    def forget(self, subscription: Subscription) -> None:
        with self._guard:
            self._subscriptions = [each for each in self._subscriptions if each is not subscription]

    def announce(self, event: Told) -> None:
        """Queues the event for everyone who watches its view now. Call in commit order."""
        with self._guard:
            self._queue.extend((each, iter((event,))) for each in self._subscriptions if each.view == event.view)

    def hand_over(self) -> None:
        """Delivers what is queued, unless someone is at it already: they will find what was added."""
        while True:
            with self._guard:
                if self._attended or not self._queue:
                    return
                self._attended = True
                subscription, events = self._queue.popleft()
            try:
                subscription.deliver_all(events)
            finally:
                with self._guard:
                    self._attended = False

    def close(self) -> None:
        with self._guard:
            subscriptions, self._subscriptions = self._subscriptions, []
            self._queue.clear()
        for subscription in subscriptions:
            subscription.close()
