"""The last commits, for monitoring: numbers of inserted and deleted rows per relation, and seconds."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from upshot.active.firing import Firing
from upshot.core.rows import Row, Rows
from upshot.database.database import Database
from upshot.database.watch import CommitEvent, Event
from upshot.service.access.scopes import Scopes
from upshot.service.feed.sse import HEADERS, disconnected

if TYPE_CHECKING:
    from upshot.service.service import Service

KEPT = 200
KEPT_FIRINGS = 200
KEPT_CAUSES = 20
"""The number of versions whose firings are kept with their changes, so that causes can be computed."""
_ROWS_OF_FIRING = 20


@dataclass(slots=True)
class CommitSummary:
    """A version with the numbers of inserted and deleted rows per changed relation. `seconds` is None if a rule made
    it."""

    version: int
    changes: Mapping[str, tuple[int, int]]
    time: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    seconds: float | None = None

    def as_dict(self, scopes: Scopes) -> dict[str, Any]:
        """The part of the commit that the token may read."""
        return {
            "version": self.version,
            "time": self.time.isoformat(timespec="milliseconds"),
            "seconds": self.seconds,
            "changes": {
                name: {"inserted": inserted, "deleted": deleted}
                for name, (inserted, deleted) in self.changes.items()
                if scopes.may_read(name)
            },
        }


@dataclass(frozen=True, slots=True)
class Fired:
    """A firing of a rule in a version, with the first of its rows."""

    version: int
    rule: str
    count: int
    rows: Sequence[Row]


class RecentCommits:
    """The last commits since the service started, newest last."""

    def __init__(self, database: Database, count: Callable[[], None]) -> None:
        """`count` is called once for each commit."""
        self._count = count
        self._guard = threading.Lock()
        self._commits: deque[CommitSummary] = deque(maxlen=KEPT)
        self._firings: deque[Fired] = deque(maxlen=KEPT_FIRINGS)
        self._made: deque[tuple[int, tuple[Firing, ...]]] = deque(maxlen=KEPT_CAUSES)
        self._subscriptions = [database.watch_commits(self._add)]
        for rule in database.rules:
            self._subscriptions.append(database.watch(rule, self._add_firing, since=database.version))

    def _add(self, event: CommitEvent) -> None:
        counts = {name: (len(change.inserted), len(change.deleted)) for name, change in event.changes.items()}
        with self._guard:
            self._commits.append(CommitSummary(event.version, counts))
        self._count()

    def _add_firing(self, event: Event) -> None:
        rows: Rows = event.inserted
        if len(rows):
            fired = Fired(event.version, event.view, len(rows), rows.sorted()[:_ROWS_OF_FIRING])
            with self._guard:
                self._firings.append(fired)

    def set_seconds(self, version: int, seconds: float, firings: tuple[Firing, ...] = ()) -> None:
        """Record the time that a commit took, and its firings."""
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


# ---- the stream -----------------------------------------------------------------------------------

PAUSE = 0.05
"""Seconds in which commits are collected: a page draws at most twenty times a second."""
QUIET = 15.0
"""Seconds without a commit after which a heartbeat is sent."""


class CommitStream(Response):
    """Server-sent events: a `commit` for each version after `since`; `lost` if some are not kept, after which the page
    loads everything again."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, since: int, scopes: Callable[[], Scopes | None]) -> None:
        """`scopes` returns the current scopes of the client, None if it may no longer follow."""
        super().__init__(status_code=200, headers=HEADERS)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._service, self._cursor, self._scopes = service, since, scopes
        self._ended = asyncio.Event()

    def check(self) -> None:
        if self._scopes() is None:
            self.end("forbidden")

    def end(self, reason: str) -> None:
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        hub = self._service.hub
        hub.followers.add(self)
        tasks = [asyncio.create_task(each) for each in (self._send(send), disconnected(receive), self._ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.followers.discard(self)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._ended.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send) -> None:
        data = b": hello\n\n"
        while True:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            try:
                async with asyncio.timeout(QUIET):
                    await self._service.hub.reached(self._cursor + 1)
            except TimeoutError:
                data = b": still here\n\n"
                continue
            await asyncio.sleep(PAUSE)
            data = self._new_events()

    def _new_events(self) -> bytes:
        scopes = self._scopes()
        if scopes is None:
            self._ended.set()
            return b""
        kept = self._service.recent.latest(KEPT)
        missed = not kept or kept[-1].version > self._cursor + 1
        found = [each for each in reversed(kept) if each.version > self._cursor]
        self._cursor = max(self._cursor, found[-1].version if found else self._service.hub.version)
        if missed and len(kept) == KEPT:
            return b"event: lost\ndata: {}\n\n"
        return b"".join(b"event: commit\ndata: %s\n\n" % json.dumps(each.as_dict(scopes)).encode() for each in found)
