"""The recent changes of a selection of a view, encoded once for all its followers.

A stream keeps events in a ring. A follower has a place in it and takes all new events at once. A follower that is
behind the ring reads from the log.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from upshot.core.json_values import rows_to_json
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.service.feed.selections import Selection
from upshot.service.wire.answers import columns_of

LARGEST_CHUNK = 256 << 10
"""Bytes of one write to a client, unless a single event has more."""


@dataclass(frozen=True, slots=True)
class RingBounds:
    """The bounds of the memory of a stream: kept events, and rows that wait for encoding."""

    events: int = 4_096
    bytes: int = 32 << 20
    waiting_commits: int = 20_000
    waiting_rows: int = 2_000_000
    linger: float = 30.0
    """seconds that a stream is kept without followers"""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream: the rows that a version inserted and deleted, and the bytes that are sent."""

    version: int
    inserted: Sequence[Row]
    deleted: Sequence[Row]
    data: bytes

    @property
    def counts(self) -> bool:
        """Test whether a row was inserted or deleted."""
        return bool(self.inserted or self.deleted)


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Consecutive events, their bytes together, and the place after them."""

    entries: list[StreamEvent]
    data: bytes
    place: int


def change_event(version: int, inserted: Iterable[Row], deleted: Iterable[Row], omitted: int = 0) -> bytes:
    """Encode a change as a server-sent event.

    >>> change_event(7, [(1, "a")], [])
    b'event: change\\nid: 7\\ndata: {"version":7,"insert":[[1,"a"]],"delete":[]}\\n\\n'
    """
    more = f',"omitted":{omitted}' if omitted else ""
    data = f'{{"version":{version},"insert":{rows_to_json(inserted)},"delete":{rows_to_json(deleted)}{more}}}'
    return f"event: change\nid: {version}\ndata: {data}\n\n".encode()


def snapshot_event(version: int, schema: Schema, rows: Iterable[Row], epoch: str, reason: str | None = None) -> bytes:
    """All rows; a `reason` is set if they were not requested."""
    head: dict[str, Any] = {"version": version, "epoch": epoch, "columns": columns_of(schema)}
    if reason is not None:
        head["reason"] = reason
    opened = json.dumps(head, ensure_ascii=False, separators=(",", ":"))[:-1]
    return f'event: snapshot\nid: {version}\ndata: {opened},"rows":{rows_to_json(rows)}}}\n\n'.encode()


def progress_event(version: int) -> bytes:
    return f'event: progress\nid: {version}\ndata: {{"version":{version}}}\n\n'.encode()


def end_event(reason: str, cursor: int | None, message: str = "") -> bytes:
    """The last event, with the cursor to continue from, and the message of the error that ended the stream.

    >>> end_event("view-dropped", 7)
    b'event: end\\ndata: {"reason":"view-dropped","cursor":7}\\n\\n'
    """
    data = {"reason": reason, "cursor": cursor, **({"message": message} if message else {})}
    return f"event: end\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def requested_rows(
    inserted: Iterable[Row], deleted: Iterable[Row], events: str, limit: int | None, *, whole: bool = False
) -> tuple[Iterable[Row], Iterable[Row], int]:
    """The rows of a change that a subscriber requests: of one sign if `events` is `insert` or `delete`, except of a
    `whole` snapshot; at most `limit` of a sign. The last result is the number of rows beyond that limit."""
    inserted = inserted if events != "delete" or whole else ()
    deleted = deleted if events != "insert" else ()
    if limit is None:
        return inserted, deleted, 0
    kept = list(inserted), list(deleted)
    return kept[0][:limit], kept[1][:limit], sum(max(0, len(each) - limit) for each in kept)


class ChangeStream:
    """Every change of a selection after version `base`, up to the version of the hub. Used on the event loop, except
    `selection` and `schema`, which do not change: a view with other columns gets a new stream."""

    def __init__(self, selection: Selection, schema: Schema, base: int, bounds: RingBounds) -> None:
        self.selection, self.schema = selection, schema
        self.base = base
        self.closed = False
        """True if there are no further events: the view was changed or dropped, or the hub's queue was too long."""
        self.followers = 0
        self.left_at = 0.0
        """The time at which the last follower left."""
        self.sent_at = 0.0
        self._bounds = bounds
        self._entries: deque[StreamEvent] = deque()
        self._batches: dict[int, EventBatch] = {}
        self._first, self._bytes = 0, 0
        self._waiting: list[asyncio.Future[None]] = []
        self._woken_at = 0.0
        self._woken = 0
        """The number of followers that were woken last and do not wait yet again."""
        self._wake_seconds = 0.0
        """Seconds until all of them waited again."""
        self._wake_planned = False

    def append(self, entry: StreamEvent) -> None:
        """Add an event; drop the oldest ones beyond the bounds."""
        self._entries.append(entry)
        self._batches.clear()
        self._bytes += len(entry.data)
        while len(self._entries) > 1 and (len(self._entries) > self._bounds.events or self._bytes > self._bounds.bytes):
            gone = self._entries.popleft()
            self._bytes -= len(gone.data)
            self._first += 1
            self.base = gone.version

    def place_after(self, version: int) -> int | None:
        """The place of the first event after a version; None if the ring has no longer all of them."""
        if version < self.base or self.closed:
            return None
        return self._first + bisect_right(self._entries, version, key=lambda entry: entry.version)

    def take(self, place: int) -> EventBatch | None:
        """The events from a place on, bounded in bytes; None if they were dropped. Followers at one place share
        them."""
        if place < self._first:
            return None
        found = self._batches.get(place)
        if found is None:
            found = self._batches[place] = self._take(place)
        return found

    def _take(self, place: int) -> EventBatch:
        taken: list[StreamEvent] = []
        size = 0
        for at in range(place - self._first, len(self._entries)):
            entry = self._entries[at]
            if taken and size + len(entry.data) > LARGEST_CHUNK:
                break
            taken.append(entry)
            size += len(entry.data)
        return EventBatch(taken, b"".join([entry.data for entry in taken]), place + len(taken))

    @property
    def end(self) -> int:
        """The place after the last event."""
        return self._first + len(self._entries)

    def all_after(self, version: int) -> list[StreamEvent] | None:
        """Every event after a version; None if the ring has no longer all of them."""
        place = self.place_after(version)
        return None if place is None else [self._entries[at] for at in range(place - self._first, len(self._entries))]

    # ---- waking followers -----------------------------------------------------------------------

    def waiter(self) -> asyncio.Future[None]:
        """A future that is done when there is a new event."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        if self._woken and len(self._waiting) >= self._woken:
            self._wake_seconds, self._woken = loop.time() - self._woken_at, 0
        return future

    def forget(self, future: asyncio.Future[None]) -> None:
        if future in self._waiting:
            self._waiting.remove(future)

    def wake(self) -> None:
        """Wake all followers. Many followers are woken less often, and take more events at a time."""
        if self._wake_planned or not self._waiting:
            return
        loop = asyncio.get_running_loop()
        due = self._woken_at + min(MOST_PAUSE, max(len(self._waiting) * PAUSE_EACH, self._wake_seconds * SHARE))
        if due <= loop.time() or self.closed:
            self._wake_now()
        else:
            self._wake_planned = True
            loop.call_at(due, self._wake_now)

    def _wake_now(self) -> None:
        self._wake_planned = False
        self._woken_at = asyncio.get_running_loop().time()
        waiting, self._waiting = self._waiting, []
        self._woken = len(waiting)
        self._wake_some(waiting)

    def _wake_some(self, waiting: list[asyncio.Future[None]]) -> None:
        """Wake the first followers; the others after the event loop has handled new requests."""
        for future in waiting[:AT_A_TIME]:
            if not future.done():
                future.set_result(None)
        if len(waiting) > AT_A_TIME:
            asyncio.get_running_loop().call_soon(self._wake_some, waiting[AT_A_TIME:])

    def close(self) -> None:
        self.closed = True
        self.wake()


AT_A_TIME = 64
"""The number of followers woken before the event loop polls its sockets again."""
PAUSE_EACH = 60e-6
SHARE = 1.5
MOST_PAUSE = 0.15
"""Seconds between two wake-ups: `PAUSE_EACH` per follower, or `SHARE` times the duration of the last wake-up, so that a
third of the time is left for commits and queries; at most `MOST_PAUSE`."""
