"""Callbacks that follow a view: each commit's exact changes, in order, once.

Events are queued while the state is locked, in commit order, and handed over outside of the lock by whichever thread
finds the queue unattended. So a callback may query, commit, watch or unsubscribe; what it causes queues up behind.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from upshot.core.errors import Error, UsageError

if TYPE_CHECKING:
    from upshot.core.rows import Row, Rows
    from upshot.core.schema import Schema
    from upshot.database.changes import Changes, ChangeSet
    from upshot.database.live.pace import Quality

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
    omitted: int = 0
    """Rows beyond the limit of the subscription, which are not among these."""


EVERYTHING = "*"
"""The topic of subscribers to every commit as a whole; no relation has this name."""


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """One commit as a whole, also one that changed no row. `afresh` are relations that have other columns from here on,
    or became nervous or strict: their rows are to be read again. `relations` are all there are after it."""

    version: int
    changes: ChangeSet
    afresh: frozenset[str]
    relations: Mapping[str, Schema]
    view: str = EVERYTHING
    live: Mapping[str, Changes] = field(default_factory=dict)
    """The changes of live queries, by the name of their answers, with the parameters in the first columns."""
    live_queries: Collection[str] = ()
    """All live queries that there are after it."""
    failed: Mapping[str, Collection[Row]] = field(default_factory=dict)
    """The live queries that failed with it, by the name of their answers: the parameters that nobody follows now."""


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """The last event of those who follow a query that cannot be computed any more."""

    view: str
    version: int
    error: Error


Told = Event | CommitEvent | QueryFailure
Topic = Hashable
"""The topic of a subscription: the name of a relation or rule, or a live query with the values of its parameters."""
Callback = Callable[[Event], object]
CommitCallback = Callable[[CommitEvent], object]


class Subscription:
    """A running watch. `errors` collects what the callback raised; `close()` or leaving a `with` block ends it."""

    def __init__(
        self,
        view: str,
        callback: Callable[[Any], object],
        feed: Feed,
        version: int | None = None,
        topic: Topic | None = None,
        pace: Quality | None = None,
    ) -> None:
        self.view = view
        self.version = version
        self.topic: Topic = view if topic is None else topic
        self.on_close: Callable[[Subscription], None] | None = None
        self.errors: list[Exception] = []
        self._stop: Callable[[], None] | None = None
        self._callback = callback
        if pace is not None:
            self._callback, self._stop = pace.applied(callback, self._attempt)
        self._feed = feed
        self._open = True

    @property
    def active(self) -> bool:
        return self._open

    def close(self) -> None:
        """No callback starts after this returns; closing twice is fine."""
        was_open, self._open = self._open, False
        if self._stop is not None:
            self._stop()
        self._feed.forget(self)
        if was_open and self.on_close is not None:
            self.on_close(self)

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
        if isinstance(event, QueryFailure):
            self.errors.append(event.error)
            log.warning("the subscription to `%s` ends at version %d: %s", self.view, event.version, event.error)
            self.close()
        else:
            self._attempt(lambda: self._callback(event))

    def _attempt(self, call: Callable[[], object]) -> None:
        if not self._open:
            return
        try:
            call()
        except Exception as error:
            self.errors.append(error)
            log.exception("a callback watching `%s` failed at version %d", self.view, self.version)

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
        self._subscriptions: dict[Topic, list[Subscription]] = {}
        self._queue: deque[tuple[Subscription, Iterator[Told]]] = deque()
        self._attended = False

    def watching(self, topic: Topic) -> list[Subscription]:
        with self._guard:
            return list(self._subscriptions.get(topic, ()))

    def is_watched(self, topic: Topic) -> bool:
        return topic in self._subscriptions

    def add(self, subscription: Subscription, first: Iterable[Told] = ()) -> None:
        """Call while nothing can be committed. What the subscription is to hear `first` is fetched as it is handed
        over, so that a long past is never in memory whole."""
        with self._guard:
            self._subscriptions.setdefault(subscription.topic, []).append(subscription)
            self._queue.append((subscription, iter(first)))

    def forget(self, subscription: Subscription) -> None:
        with self._guard:
            left = [each for each in self._subscriptions.get(subscription.topic, ()) if each is not subscription]
            if left:
                self._subscriptions[subscription.topic] = left
            else:
                self._subscriptions.pop(subscription.topic, None)

    def announce(self, event: Told, topic: Topic | None = None) -> None:
        """Queues the event for everyone who watches its topic now. Call in commit order."""
        with self._guard:
            watching = self._subscriptions.get(event.view if topic is None else topic, ())
            self._queue.extend((each, iter((event,))) for each in watching)

    def end(self, topics: Iterable[Topic], reason: str) -> None:
        """Ends the subscriptions to these; each has the reason among its errors."""
        for subscription in [each for topic in topics for each in self.watching(topic)]:
            hint = "follow the query again, as the program is now"
            subscription.errors.append(UsageError(reason, code="query-ended", help=hint))
            log.warning("the subscription to `%s` ends: %s", subscription.view, reason)
            subscription.on_close = None
            subscription.close()

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
            subscriptions, self._subscriptions = self._subscriptions, {}
            self._queue.clear()
        for subscription in [each for some in subscriptions.values() for each in some]:
            subscription.on_close = None
            subscription.close()
