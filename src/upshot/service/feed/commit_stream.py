"""Every commit as it happens, in numbers: what the page draws its wave from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from upshot.service.access.scopes import Scopes
from upshot.service.feed.commits import KEPT, CommitSummary
from upshot.service.feed.sse import HEADERS, disconnected

if TYPE_CHECKING:
    from upshot.service.service import Service

PAUSE = 0.05
"""Seconds in which commits that follow each other are gathered: nobody sees more than twenty pictures a second."""

QUIET = 15.0
"""Seconds without a commit after which a sign of life is sent."""


def told(commit: CommitSummary, scopes: Scopes) -> dict[str, Any]:
    """The commit as far as it may be seen."""
    return {
        "version": commit.version,
        "time": commit.time.isoformat(timespec="milliseconds"),
        "seconds": commit.seconds,
        "changes": {
            name: {"inserted": came, "deleted": went}
            for name, (came, went) in commit.changes.items()
            if scopes.may_read(name)
        },
    }


class CommitStream(Response):
    """Server-sent events: a `commit` for each after the version `since`, and `lost` where more have passed than are
    kept, after which the page reads everything anew."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, since: int, scopes: Callable[[], Scopes | None]) -> None:
        """`scopes` says what may be seen now; nothing when nobody may go on."""
        super().__init__(status_code=200, headers=HEADERS)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._service, self._cursor, self._scopes = service, since, scopes
        self._ended = asyncio.Event()

    def look(self) -> None:
        if self._scopes() is None:
            self.end("forbidden")

    def end(self, reason: str) -> None:
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        hub = self._service.hub
        hub.followers.add(self)
        tasks = [asyncio.create_task(each) for each in (self._run(send), disconnected(receive), self._ended.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.followers.discard(self)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._ended.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _run(self, send: Send) -> None:
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
            data = self._news()

    def _news(self) -> bytes:
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
        return b"".join(b"event: commit\ndata: %s\n\n" % json.dumps(told(each, scopes)).encode() for each in found)
