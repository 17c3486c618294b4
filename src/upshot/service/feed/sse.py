"""One client that follows a view by server-sent events: a snapshot or the past first, then what happens, without a gap
and without a repetition.

Where the past ends and the present begins is a version: the stream is found first, the past is read up to a version
the stream reaches back to, and from the stream only what is after that version is taken.
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
    heard,
    progress_event,
)

if TYPE_CHECKING:
    from upshot.service.feed.hub import Hub

log = logging.getLogger("upshot.service")

PATIENCE = 10.0
"""Seconds that a client may take nothing while the ring has moved on."""

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


class _Ended(Exception):
    """The client gets the reason, and the cursor to continue from."""


class EventStream(Response):
    """The answer to `GET /views/{name}/changes` and `GET /changes`. `since` is the client's cursor, if it has one that
    can be used; if not, `reason` says why. `every` are the seconds of an interval, if changes are to come as one for
    each; `heard` is the sign of the rows that are wanted, and the most of them in one event. `allowed` says whether the
    client may go on."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: Hub,
        subject: Subject,
        *,
        since: int | None = None,
        reason: str | None = None,
        every: float | None = None,
        heard: tuple[str, int | None] = ("all", None),
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(status_code=200, headers={**HEADERS, "upshot-epoch": hub.service.database.identity})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._hub, self._subject, self._every, self._heard, self._allowed = hub, subject, every, heard, allowed
        self._database = hub.service.database
        self._cursor, self._reason = since, reason
        self._resumed = since is not None
        self._ending: str | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._sending_since: float | None = None
        self._spoke_at = 0.0

    # ---- seen from the hub ------------------------------------------------------------------------

    def look(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._allowed():
            self.end("forbidden")
        elif self._sending_since is not None and now - self._sending_since > PATIENCE and self._task is not None:
            # It does not even read the event that says so.
            self._hub.service.metrics.disconnections.labels("too-slow").inc()
            self._task.cancel()

    def end(self, reason: str) -> None:
        self._ending = self._ending or reason
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # ---- seen from the server ---------------------------------------------------------------------

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
        """Follows until there is a reason to end."""
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
        """Sends in slices: what the server holds for one client stays small, and one that takes slowly still takes."""
        loop = asyncio.get_running_loop()
        for start in range(0, len(data), LARGEST_CHUNK):
            body = data if len(data) <= LARGEST_CHUNK else data[start : start + LARGEST_CHUNK]
            self._sending_since = self._spoke_at = loop.time()
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
        """Sends changes from the log until the stream reaches back to the cursor; returns the reason if that is
        impossible."""
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
            # All of it is sent before the cursor moves: a client that goes away in between has the ids it has seen.
            await self._send(data + progress_event(past.through))
            self._hub.service.metrics.events.labels("change").inc(len(past.steps))
            self._cursor = past.through
        return "history-not-kept" if self._at > max(self._database.version, self._hub.version) else None

    @property
    def _at(self) -> int:
        assert self._cursor is not None, "after a snapshot, or given"
        return self._cursor

    async def _present(self, stream: ChangeStream) -> None:
        """Sends changes until the stream is closed."""
        floor = self._at
        place = stream.place_after(floor)
        events = self._hub.service.metrics.events.labels("change")
        while place is not None:
            self._check()
            if place == stream.end:
                if stream.closed:
                    return
                if self._resumed:
                    # A subscriber that resumes learns at once, not with the next heartbeat, that it is up to date.
                    self._resumed = False
                    self._cursor = max(self._at, self._hub.version)
                    await self._send(progress_event(self._cursor))
                else:
                    await self._wait(stream)
                continue
            taken = stream.take(place)
            if taken is None:
                raise _Ended("too-slow")
            place = taken.place
            data, last = taken.data, taken.entries[-1].version
            if self._heard != ("all", None):
                data = b"".join(map(self._heard_of, taken.entries))
            if taken.entries[0].version <= floor:
                # A snapshot may be ahead of the stream.
                data = b"".join([self._heard_of(e) for e in taken.entries if e.version > floor - (not e.counts)])
            if data:
                await self._send(data)
                events.inc(len(taken.entries))
                self._cursor = max(last, floor)

    def _heard_of(self, entry: StreamEvent) -> bytes:
        """An event as this client hears it."""
        if self._heard == ("all", None) or not entry.counts:
            return entry.data
        return self._encoded(entry.version, entry.inserted, entry.deleted)

    def _encoded(self, version: int, inserted: Iterable[Row], deleted: Iterable[Row]) -> bytes:
        came, went, omitted = heard(inserted, deleted, *self._heard)
        came, went = list(came), list(went)
        return change_event(version, came, went, omitted) if came or went or omitted else progress_event(version)

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
        """Sends the net change of each interval until the stream is closed."""
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
            elif loop.time() - self._spoke_at >= self._hub.service.settings.heartbeat:
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
