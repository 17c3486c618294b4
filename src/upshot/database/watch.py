"""Subscriptions: callbacks that get the exact changes of a view by each commit, in order, once.

Events are queued in commit order while the state is locked. One thread at a time delivers them, without the lock. So a
callback may query, commit, watch or unsubscribe; the events that it causes are queued behind.
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
    from upshot.database.live.event_filter import EventFilter

log = logging.getLogger("upshot.watch")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watched relation. A `snapshot` has all rows as inserted: the first event, and the one after a
    definition that changed the columns, or made the view nervous or strict. Of a nervous view, inserted rows may have
    been present before and deleted ones may still be: no copy can be kept from its events."""

    view: str
    version: int
    inserted: Rows
    deleted: Rows
    snapshot: bool = False
    omitted: int = 0
    """The number of rows beyond the limit of the subscription, which are left out."""


EVERYTHING = "*"
"""The topic of subscribers to every commit as a whole; no relation has this name."""


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """One commit as a whole, also one that changed no row. The rows of `afresh` relations must be read again: their
    columns changed, or they became nervous or strict. `relations` are all relations after it."""

    version: int
    changes: ChangeSet
    afresh: frozenset[str]
    relations: Mapping[str, Schema]
    view: str = EVERYTHING
    live: Mapping[str, Changes] = field(default_factory=dict)
    """The changes of live queries, by the name of their answers, with the parameters in the first columns."""
    live_queries: Collection[str] = ()
    """The answers of all live queries after it."""
    failed: Mapping[str, Collection[Row]] = field(default_factory=dict)
    """The live queries that failed with it, by the name of their answers: the parameters that lost their followers."""


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """The last event of the followers of a query that cannot be computed any more."""

    view: str
    version: int
    error: Error


AnyEvent = Event | CommitEvent | QueryFailure
Topic = Hashable
"""The topic of a subscription: the name of a relation or rule, or a live query with the values of its parameters."""
Callback = Callable[[Event], object]
CommitCallback = Callable[[CommitEvent], object]


class Subscription:
    """A subscription. `errors` collects the exceptions of the callback; `close()` or leaving a `with` block ends it."""

    def __init__(
        self,
        view: str,
        callback: Callable[[Any], object],
        feed: Feed,
        version: int | None = None,
        topic: Topic | None = None,
        event_filter: EventFilter | None = None,
    ) -> None:
        self.view = view
        self.version = version
        self.topic: Topic = view if topic is None else topic
        self.on_close: Callable[[Subscription], None] | None = None
        self.errors: list[Exception] = []
        self._stop: Callable[[], None] | None = None
        self._callback = callback
        if event_filter is not None:
            self._callback, self._stop = event_filter.applied(callback, self._attempt)
        self._feed = feed
        self._open = True

    @property
    def active(self) -> bool:
        return self._open

    def close(self) -> None:
        """No callback starts after this returns; closing twice is allowed."""
        was_open, self._open = self._open, False
        if self._stop is not None:
            self._stop()
        self._feed.forget(self)
        if was_open and self.on_close is not None:
            self.on_close(self)

    def deliver_all(self, events: Iterator[AnyEvent]) -> None:
        """Deliver the events in order. If one cannot be read, the subscription ends: there must be no gap."""
        while self._open:
            try:
                event = next(events)
            except StopIteration:
                return
            except Exception as error:
                self.errors.append(error)
                log.exception("a past event of `%s` cannot be read; the subscription ends", self.view)
                self.close()
                return
            self.deliver(event)

    def deliver(self, event: AnyEvent) -> None:
        """Call the callback, unless closed. Its exception is kept and logged; it affects neither the commit nor other
        subscribers."""
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
    """All subscriptions of a database, and the queue of events to deliver."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._subscriptions: dict[Topic, list[Subscription]] = {}
        self._queue: deque[tuple[Subscription, Iterator[AnyEvent]]] = deque()
        self._delivering = False

    def watching(self, topic: Topic) -> list[Subscription]:
        with self._guard:
            return list(self._subscriptions.get(topic, ()))

    def is_watched(self, topic: Topic) -> bool:
        return topic in self._subscriptions

    def add(self, subscription: Subscription, first: Iterable[AnyEvent] = ()) -> None:
        """Call while nothing can be committed. The `first` events are read as they are delivered, so that a long
        history is never in memory as a whole."""
        with self._guard:
            self._subscriptions.setdefault(subscription.topic, []).append(subscription)
            self._queue.append((subscription, iter(first)))

    def forget(self, subscription: Subscription) -> None:
        with self._guard:
            rest = [each for each in self._subscriptions.get(subscription.topic, ()) if each is not subscription]
            if rest:
                self._subscriptions[subscription.topic] = rest
            else:
                self._subscriptions.pop(subscription.topic, None)

    def announce(self, event: AnyEvent, topic: Topic | None = None) -> None:
        """Queue the event for the current subscribers of its topic. Call in commit order."""
        with self._guard:
            watching = self._subscriptions.get(event.view if topic is None else topic, ())
            self._queue.extend((each, iter((event,))) for each in watching)

    def end(self, topics: Iterable[Topic], reason: str) -> None:
        """End the subscriptions to these topics; each has the reason among its errors."""
        for subscription in [each for topic in topics for each in self.watching(topic)]:
            hint = "follow the query again, as the program is now"
            subscription.errors.append(UsageError(reason, code="query-ended", help=hint))
            log.warning("the subscription to `%s` ends: %s", subscription.view, reason)
            subscription.on_close = None
            subscription.close()

    def deliver(self) -> None:
        """Deliver the queued events, unless another thread is doing so: it will find new ones too."""
        while True:
            with self._guard:
                if self._delivering or not self._queue:
                    return
                self._delivering = True
                subscription, events = self._queue.popleft()
            try:
                subscription.deliver_all(events)
            finally:
                with self._guard:
                    self._delivering = False

    def close(self) -> None:
        with self._guard:
            subscriptions, self._subscriptions = self._subscriptions, {}
            self._queue.clear()
        for subscription in [each for some in subscriptions.values() for each in some]:
            subscription.on_close = None
            subscription.close()
