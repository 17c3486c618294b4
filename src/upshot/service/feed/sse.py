"""A client that follows a view by server-sent events: first a snapshot or past changes, then every later change,
without gaps and repetitions.

A version separates the two parts: past changes are read from the log up to a version that the stream still has, and
only later events are taken from the stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from upshot.core.errors import Error
from upshot.core.rows import Row
from upshot.database.changes import NetChange
from upshot.service.feed.past import Forgotten, read_net, read_past
from upshot.service.feed.standing import Subject
from upshot.service.feed.streams import (
    LARGEST_CHUNK,
    ChangeStream,
    StreamEvent,
    change_event,
    end_event,
    progress_event,
    requested_rows,
)

if TYPE_CHECKING:
    from upshot.service.feed.hub import Hub

log = logging.getLogger("upshot.service")

PATIENCE = 10.0
"""Seconds that a write to a client may block."""

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


class _Ended(Exception):
    """Ends the stream with a reason, which the client gets with its cursor."""


class EventStream(Response):
    """The answer to `GET /views/{name}/changes` and `GET /changes`. `since` is the client's cursor; None begins with a
    snapshot, whose `reason` says why the cursor cannot be used. `every`: send one net change per interval of that many
    seconds. `only`: the sign of the requested rows, and the number of them in one event. `allowed` tests whether the
    client is still authorized."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: Hub,
        subject: Subject,
        *,
        since: int | None = None,
        reason: str | None = None,
        every: float | None = None,
        only: tuple[str, int | None] = ("all", None),
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(status_code=200, headers={**HEADERS, "upshot-epoch": hub.service.database.identity})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._hub, self._subject, self._every, self._only, self._allowed = hub, subject, every, only, allowed
        self._database = hub.service.database
        self._cursor, self._reason = since, reason
        self._resumed = since is not None
        self._ending: str | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._sending_since: float | None = None
        self._sent_at = 0.0

    # ---- called by the hub ------------------------------------------------------------------------

    def check(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._allowed():
            self.end("forbidden")
        elif self._sending_since is not None and now - self._sending_since > PATIENCE and self._task is not None:
            # It would not read an `end` event either.
            self._hub.service.metrics.disconnections.labels("too-slow").inc()
            self._task.cancel()

    def end(self, reason: str) -> None:
        self._ending = self._ending or reason
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # ---- called by the server -------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send_message = send
        head: Message = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(head)
        subscribers = self._hub.service.metrics.subscribers.labels("sse")
        subscribers.inc()
        self._hub.followers.add(self)
        self._task = asyncio.create_task(self._run())
        gone = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait((self._task, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.followers.discard(self)
            subscribers.dec()
            for task in (self._task, gone):
                task.cancel()
            await asyncio.gather(self._task, gone, return_exceptions=True)

    async def _run(self) -> None:
        """Send events until there is a reason to end."""
        message = ""
        try:
            await self._follow()
        except _Ended as ended:
            reason = str(ended)
        except Error as error:
            reason, message = "view-dropped" if error.code == "not-found" else error.code, error.message
        except Exception:
            log.exception("a stream of `%s` failed", self._subject.view)
            reason = "failed"
        self._hub.service.metrics.disconnections.labels(reason).inc()
        await self._send(end_event(reason, self._cursor, message))
        await self._send_message({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, data: bytes) -> None:
        """Send in pieces, so that the buffer for a client stays small, and a slow reader is not taken for a stopped
        one."""
        loop = asyncio.get_running_loop()
        for start in range(0, len(data), LARGEST_CHUNK):
            body = data if len(data) <= LARGEST_CHUNK else data[start : start + LARGEST_CHUNK]
            self._sending_since = self._sent_at = loop.time()
            await self._send_message({"type": "http.response.body", "body": body, "more_body": True})
        self._sending_since = None

    # ---- from the past to the present -------------------------------------------------------------

    async def _follow(self) -> None:
        reason, columns = self._reason, None
        while True:
            self._check()
            self._selection = await self._hub.standing.chosen(self._subject)
            with self._hub.following(self._selection) as stream:
                if columns is not None and stream.schema.columns != columns:
                    self._cursor, reason = None, "view-changed"
                columns = stream.schema.columns
                if self._cursor is None:
                    await self._snapshot(reason)
                reason = None
                if self._every is not None:
                    await self._intervals(stream, self._every)
                elif (reason := await self._past(stream)) is None:
                    await self._present(stream)
                else:
                    self._cursor = None
            self._hub.standing.refuse_failed(self._selection)

    def _check(self) -> None:
        if self._ending is not None:
            raise _Ended(self._ending)

    async def _snapshot(self, reason: str | None) -> None:
        version, data = await self._hub.snapshot_event(self._selection, reason)
        self._cursor = version
        self._hub.service.metrics.events.labels("snapshot").inc()
        await self._send(data)

    async def _past(self, stream: ChangeStream) -> str | None:
        """Send changes from the log until the stream has all later ones; return the reason if that is impossible."""
        while stream.place_after(self._at) is None and not stream.closed:
            self._check()
            until, since, chosen = max(stream.base, self._hub.version), self._at, self._selection
            try:
                past = await self._hub.read(
                    partial(read_past, self._database, chosen, since, until, self._hub.standing)
                )
            except Forgotten as forgotten:
                return forgotten.reason
            data = b"".join(self._encoded(step.version, step.inserted, step.deleted) for step in past.steps)
            # The cursor moves after sending: a client that disconnects in between resumes after its last event.
            await self._send(data + progress_event(past.through))
            self._hub.service.metrics.events.labels("change").inc(len(past.steps))
            self._cursor = past.through
        return "history-not-kept" if self._at > max(self._database.version, self._hub.version) else None

    @property
    def _at(self) -> int:
        assert self._cursor is not None, "set by a snapshot or the client"
        return self._cursor

    async def _present(self, stream: ChangeStream) -> None:
        """Send changes until the stream is closed."""
        floor = self._at
        place = stream.place_after(floor)
        events = self._hub.service.metrics.events.labels("change")
        while place is not None:
            self._check()
            if place == stream.end:
                if stream.closed:
                    return
                if self._resumed:
                    # A client that resumes learns at once, not with the next heartbeat, that it is current.
                    self._resumed = False
                    self._cursor = max(self._at, self._hub.version)
                    await self._send(progress_event(self._cursor))
                else:
                    await self._wait(stream)
                continue
            batch = stream.take(place)
            if batch is None:
                raise _Ended("too-slow")
            place = batch.place
            data, last = batch.data, batch.entries[-1].version
            if self._only != ("all", None):
                data = b"".join(map(self._data_of, batch.entries))
            if batch.entries[0].version <= floor:
                # A snapshot may be ahead of the stream.
                data = b"".join([self._data_of(e) for e in batch.entries if e.version > floor - (not e.counts)])
            if data:
                await self._send(data)
                events.inc(len(batch.entries))
                self._cursor = max(last, floor)

    def _data_of(self, entry: StreamEvent) -> bytes:
        """An event with the rows that the client requested."""
        if self._only == ("all", None) or not entry.counts:
            return entry.data
        return self._encoded(entry.version, entry.inserted, entry.deleted)

    def _encoded(self, version: int, inserted: Iterable[Row], deleted: Iterable[Row]) -> bytes:
        inserted, deleted, omitted = requested_rows(inserted, deleted, *self._only)
        rows = list(inserted), list(deleted)
        return change_event(version, *rows, omitted) if any(rows) or omitted else progress_event(version)

    async def _wait(self, stream: ChangeStream) -> None:
        self._waiting = stream.waiter()
        try:
            await self._waiting
        except asyncio.CancelledError:
            stream.forget(self._waiting)
            raise
        finally:
            self._waiting = None

    async def _intervals(self, stream: ChangeStream, every: float) -> None:
        """Send the net change of each interval until the stream is closed."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not stream.closed:
            self._check()
            try:
                until, net = await net_change(self._hub, stream, self._at)
            except Forgotten as forgotten:
                self._cursor = None
                await self._snapshot(forgotten.reason)
                continue
            if net.inserted or net.deleted:
                await self._send(self._encoded(until, net.inserted, net.deleted))
                self._hub.service.metrics.events.labels("change").inc()
            elif loop.time() - self._sent_at >= self._hub.service.settings.heartbeat:
                await self._send(progress_event(until))
            self._cursor = until
            due = max(due + every, loop.time())
            await self._pause(due - loop.time())

    async def _pause(self, seconds: float) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(self._waiting, seconds)
        except TimeoutError:
            pass
        finally:
            self._waiting = None


async def net_change(hub: Hub, stream: ChangeStream, since: int) -> tuple[int, NetChange]:
    """The net change since a version, and the version it ends at; raises `Forgotten`."""
    database = hub.service.database
    if since > database.version:
        raise Forgotten
    await hub.reached(database.version)
    entries = stream.all_after(since)
    if entries is None:
        until = max(hub.version, since)
        return until, await hub.read(lambda: read_net(database, stream.selection, since, until, hub.standing))
    net = NetChange()
    for entry in entries:
        net.add(entry.inserted, entry.deleted)
    return max(hub.version, since), net


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
