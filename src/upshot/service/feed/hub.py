"""The followers of views, and the thread that prepares their events.

commit ─► queue ─► hub's thread: selects, encodes once ─► event loop: rings, wakes waiting streams ─► clients, webhooks

A commit only adds itself to the queue. If the queue exceeds its bounds, all streams are closed and their followers
continue from the log.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from upshot.core.rows import Row
from upshot.database.changes import Changes
from upshot.database.watch import CommitEvent, Subscription
from upshot.service.feed.past import read_snapshot
from upshot.service.feed.selections import Selection, SelectionIndex
from upshot.service.feed.standing import LiveSelections, Subject
from upshot.service.feed.streams import (
    ChangeStream,
    RingBounds,
    StreamEvent,
    change_event,
    progress_event,
    snapshot_event,
)
from upshot.service.webhooks.webhooks import Webhooks
from upshot.service.wire.errors import RequestError, nervous_view, not_found, too_busy

if TYPE_CHECKING:
    from upshot.service.service import Service

T = TypeVar("T")

log = logging.getLogger("upshot.service")

TICK = 1.0
"""Seconds between two checks for idle, slow and no longer authorized followers."""

STANDING = 2.0
"""Seconds that a live query is kept without followers: one that reconnects continues with it."""

_LARGEST_BATCH = 1 << 20
"""Bytes that are passed to the event loop at a time."""


class Follower(Protocol):
    """A client that follows changes."""

    def check(self) -> None:
        """End it if it is no longer authorized, or reads too slowly. Called every second."""

    def end(self, reason: str) -> None:
        """Send the reason, and the cursor to continue from."""


class Hub:
    """All streams of a service. Methods run on the event loop unless stated otherwise."""

    def __init__(self, service: Service, bounds: RingBounds | None = None) -> None:
        self.service = service
        self.bounds = bounds or RingBounds()
        self.version = 0
        """Everything up to this version is in the streams."""
        self.followers: set[Follower] = set()
        self._guard = threading.Lock()
        """Guards the streams and `_taken`, the version that the hub's thread has reached."""
        self._streams: dict[Selection, ChangeStream] = {}
        self._by_view: dict[str, SelectionIndex[ChangeStream]] = {}
        self._taken = self._last_popped = 0
        self._queue: deque[CommitEvent] = deque()
        self._queued_rows = 0
        self._counting = threading.Lock()
        """Guards the queue and its number of rows."""
        self._filled = threading.Event()
        self._stopped = False
        self._subscription: Subscription | None = None
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []
        self._reading = asyncio.Semaphore(2 * service.settings.bounds.readers)
        self.standing = LiveSelections(service.database, service.settings.bounds.live_seconds)
        self.webhooks = Webhooks(self, self._may_read)
        self._snapshots: dict[tuple[Selection, str | None], asyncio.Future[tuple[int, bytes]]] = {}

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._subscription = await asyncio.to_thread(self.service.database.watch_commits, self._enqueue)
        assert self._subscription.version is not None, "a subscription to all commits has a version"
        self.version = self._taken = self._last_popped = self._subscription.version
        self._thread = threading.Thread(target=self._work, name="upshot-hub", daemon=True)
        self._thread.start()
        self._ticking = asyncio.create_task(self._tick())
        await self.webhooks.start()

    async def stop(self) -> None:
        """Send every follower its cursor, and stop."""
        if self._subscription is None:
            return
        await self.webhooks.stop()
        self.end_all("shutting-down")
        until = self._loop.time() + 2.0
        while self.followers and self._loop.time() < until:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(self._subscription.close)
        self._stopped = True
        self._filled.set()
        await asyncio.to_thread(self._thread.join)
        self._ticking.cancel()

    def require_room(self) -> None:
        """`too-busy` if there are too many followers, `shutting-down` if the service stops."""
        if self.service.stopping:
            hint = "reconnect when it has restarted"
            raise RequestError(503, "shutting-down", "the service is stopping", help=hint, retryable=True)
        if len(self.followers) >= self.service.settings.bounds.subscribers:
            raise too_busy("too many subscribers")

    def end_all(self, reason: str) -> None:
        """Send every follower the reason and its cursor."""
        for follower in list(self.followers):
            follower.end(reason)

    def _may_read(self, owner: str, subject: Subject) -> bool:
        """Test whether the token of this name may follow the view, or read all relations of the query."""
        scopes = self.service.scopes_of(owner)
        if scopes is None or not scopes.subscribe:
            return False
        if not subject.is_query:
            return scopes.may_read(subject.view)
        return scopes.reads_everything or scopes.may_read_all(self.standing.reads(subject))

    # ---- streams ----------------------------------------------------------------------------------

    @contextmanager
    def following(self, selection: Selection) -> Iterator[ChangeStream]:
        """The stream of the selection, kept during the block; `not-found` if there is no such view, `nervous-view` if
        it reports more than net changes."""
        stream = self._attached(selection)
        stream.followers += 1
        try:
            yield stream
        finally:
            stream.followers -= 1
            stream.left_at = self._loop.time()

    def _attached(self, selection: Selection) -> ChangeStream:
        with self._guard:
            stream = self._streams.get(selection)
            if stream is None:
                schema = self.standing.schema(selection) or self.service.database.schemas.get(selection.view)
                if schema is None:
                    self.standing.refuse_failed(selection)
                    raise not_found()
                # The program may have changed since the last check. A later change closes the stream.
                if not self.service.database.reports_net_changes(selection.view):
                    raise nervous_view(selection.view)
                stream = ChangeStream(selection, schema, self._taken, self.bounds)
                stream.sent_at = self._loop.time()
                self._streams[selection] = stream
                self._by_view.setdefault(selection.view, SelectionIndex()).add(selection, stream)
            return stream

    async def snapshot_event(self, selection: Selection, reason: str | None) -> tuple[int, bytes]:
        """All rows of a selection as an event, and their version. Concurrent requests share one reading."""
        key = selection, reason
        reading = self._snapshots.get(key)
        if reading is None:
            reading = self._snapshots[key] = asyncio.ensure_future(self._read_event(selection, reason))
            reading.add_done_callback(
                lambda done: (self._snapshots.pop(key, None), done.cancelled() or done.exception())
            )
        return await asyncio.shield(reading)

    async def _read_event(self, selection: Selection, reason: str | None) -> tuple[int, bytes]:
        database, most = self.service.database, self.service.settings.bounds.snapshot

        def read() -> tuple[int, bytes]:
            found = read_snapshot(database, selection, most, self.standing)
            return found.version, snapshot_event(found.version, found.schema, found.rows, database.identity, reason)

        return await self.read(read)

    async def read(self, answer: Callable[[], T]) -> T:
        """Compute an answer on a reader thread. The number of concurrent reads by followers is bounded, so that threads
        are left for queries."""
        async with self._reading:
            return await self.service.run_read(answer)

    async def reached(self, version: int) -> None:
        """Wait until everything up to this version is in the streams."""
        if version > self.version:
            awaited = version, self._loop.create_future()
            self._awaited.append(awaited)
            try:
                await awaited[1]
            finally:
                if awaited in self._awaited:
                    self._awaited.remove(awaited)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(min(TICK, self.service.settings.heartbeat / 2))
            try:
                self._check_streams()
                for follower in list(self.followers):
                    follower.check()
                await self.standing.drop_unused(set(self._streams), STANDING)
            except Exception:
                log.exception("the check of followers failed")

    def _check_streams(self) -> None:
        """Drop streams without followers, and send heartbeats on idle ones."""
        now = self._loop.time()
        for stream in list(self._streams.values()):
            # A live query costs time in every commit; a view is maintained anyway.
            linger = min(self.bounds.linger, STANDING) if self.standing.holds(stream.selection) else self.bounds.linger
            if not stream.followers and now - stream.left_at > linger:
                with self._guard:
                    if self._streams.pop(stream.selection, None) is not None:
                        self._forget(stream)
            elif now - stream.sent_at >= self.service.settings.heartbeat:
                stream.append(StreamEvent(self.version, (), (), progress_event(self.version)))
                stream.sent_at = now
                stream.wake()

    def _forget(self, stream: ChangeStream) -> None:
        index = self._by_view[stream.selection.view]
        index.remove(stream.selection, stream)
        if not index:
            del self._by_view[stream.selection.view]
        stream.close()

    # ---- from commits to events -------------------------------------------------------------------

    def _enqueue(self, event: CommitEvent) -> None:
        """Called on the committing thread, in order."""
        with self._counting:
            self._queue.append(event)
            self._queued_rows += _size(event)
        self._filled.set()

    def _work(self) -> None:
        """The hub's thread."""
        while not self._stopped:
            self._filled.wait()
            self._filled.clear()
            while self._queue:
                try:
                    made, closed = self._next_batch()
                except Exception:
                    # Subscribers continue from the log, and get an error if that fails too.
                    log.exception("a commit could not be reported")
                    made, closed = [], self._overrun()
                try:
                    self._loop.call_soon_threadsafe(self._deliver, made, closed, self._taken)
                except RuntimeError:  # the loop is closed
                    return

    def _next_batch(self) -> tuple[list[tuple[ChangeStream, StreamEvent]], list[ChangeStream]]:
        """The effects of queued commits on the open streams: events, and streams that end."""
        made: list[tuple[ChangeStream, StreamEvent]] = []
        closed: list[ChangeStream] = []
        if len(self._queue) > self.bounds.waiting_commits or self._queued_rows > self.bounds.waiting_rows:
            closed += self._overrun()
        size = 0
        while self._queue and size < _LARGEST_BATCH:
            event = self._popped()
            for stream, entry in self._prepared(event, closed):
                made.append((stream, entry))
                size += len(entry.data)
        return made, closed

    def _popped(self) -> CommitEvent:
        """Take the next commit from the queue."""
        with self._counting:
            event = self._queue.popleft()
            self._queued_rows -= _size(event)
        self._last_popped = event.version
        return event

    def _overrun(self) -> list[ChangeStream]:
        """Close all streams: followers continue from the log."""
        log.warning("%d waiting commits are read from the log instead", len(self._queue))
        with self._guard:
            while self._queue:
                self._popped()
            self._taken = self._last_popped
            return [stream for view in list(self._by_view) for stream in self._taken_out(view)]

    def _prepared(self, event: CommitEvent, closed: list[ChangeStream]) -> list[tuple[ChangeStream, StreamEvent]]:
        """The events of one commit. A stream that is created concurrently begins before or after it."""
        changes = [(name, each) for name, each in (*event.changes.items(), *event.live.items())]
        decoded = {name: _decoded(change) for name, change in changes if name in self._by_view}
        with self._guard:
            self._taken = event.version
            known = event.relations.keys() | set(event.live_queries)
            for view in [view for view in self._by_view if view in event.afresh or view not in known]:
                closed += self._taken_out(view)
            for view in event.failed.keys() & self._by_view.keys():
                closed += self._ended(view, event.failed[view])
            affected = [
                found
                for name, change in changes
                if name in self._by_view
                for found in self._by_view[name].affected(*(decoded.get(name) or _decoded(change)))
            ]
        return [
            (stream, StreamEvent(event.version, inserted, deleted, change_event(event.version, inserted, deleted)))
            for stream, inserted, deleted in affected
        ]

    def _ended(self, view: str, parameters: Collection[Row]) -> list[ChangeStream]:
        """Remove and return the streams of a live query for parameters with which it fails. The caller has the
        guard."""
        index = self._by_view[view]
        found = [each for each in index.listeners() if each.selection.values in parameters]
        for stream in found:
            self._streams.pop(stream.selection, None)
            index.remove(stream.selection, stream)
        if not index:
            del self._by_view[view]
        return found

    def _taken_out(self, view: str) -> list[ChangeStream]:
        """Remove and return the streams of a view. The caller has the guard."""
        found = list(self._by_view.pop(view).listeners())
        for stream in found:
            self._streams.pop(stream.selection, None)
        return found

    def _deliver(self, made: list[tuple[ChangeStream, StreamEvent]], closed: list[ChangeStream], version: int) -> None:
        now = self._loop.time()
        touched = {}
        for stream, entry in made:
            stream.append(entry)
            stream.sent_at = now
            touched[id(stream)] = stream
        self.version = version
        for stream in closed:
            stream.close()
        for stream in touched.values():
            stream.wake()
        awaited, self._awaited = self._awaited, []
        for until, future in awaited:
            if until > version:
                self._awaited.append((until, future))
            elif not future.done():
                future.set_result(None)


def _size(event: CommitEvent) -> int:
    changes = (*event.changes.items(), *event.live.items())
    return sum(len(change.inserted) + len(change.deleted) for _, change in changes)


def _decoded(change: Changes) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    return list(change.inserted), list(change.deleted)
