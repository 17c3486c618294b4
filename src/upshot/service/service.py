"""The service: a database, the thread that changes it, the threads that read it, and its followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import HTTPConnection

from upshot.active.caller import PatientCaller
from upshot.database.database import Database
from upshot.engine.time_limit import time_limit
from upshot.service import logs
from upshot.service.access.scopes import Scopes
from upshot.service.access.sessions import Authenticator
from upshot.service.access.tokens import Tokens
from upshot.service.feed.commits import RecentCommits
from upshot.service.feed.hub import Hub
from upshot.service.metrics import Metrics
from upshot.service.settings import Settings
from upshot.service.wire.errors import too_busy
from upshot.service.wire.pages import Pages
from upshot.service.writing.searches import Searches
from upshot.service.writing.writer import LARGEST_TABLE, Writer

T = TypeVar("T")

_LAST_SECONDS = 3.0
"""Seconds for the transactions that had to wait for a function, after the function has been abandoned."""


class Service:
    """The state that the routes of the application share. `start` and `stop` are called on the event loop. Without
    `tokens` every client that can reach the server may do everything."""

    def __init__(self, database: Database, settings: Settings | None = None, tokens: Tokens | None = None) -> None:
        self.database = database
        self.settings = settings or Settings()
        self.metrics = Metrics()
        self.authenticator = Authenticator(self.settings, tokens)
        self.hub = Hub(self)
        self.writer = Writer(self)
        self.caller = PatientCaller(self.settings.bounds.seconds, self.metrics.late_calls.inc)
        self.recent = RecentCommits(database, self.metrics.commits.inc)
        self.searches = Searches(self)
        self.pages = Pages()
        self.ready = False
        self.stopping = False
        self.is_stuck = False
        """True if the writer did not stop: the process must exit without waiting for its threads."""
        self._readers = ThreadPoolExecutor(self.settings.bounds.readers, thread_name_prefix="upshot-reader")
        self._reading = self._whole = 0

    async def start(self) -> None:
        self.database.call_with(self.caller)
        self.database.limit_live_queries(self.settings.bounds.live_seconds)
        self.metrics.outbox.set_function(lambda: self.database.tasks_left)
        self.metrics.kept_parameters.set_function(lambda: self.database.kept_answers.parameters)
        self.metrics.kept_rows.set_function(lambda: self.database.kept_answers.rows)
        self.metrics.kept_hits.set_function(lambda: self.database.kept_answers.hits)
        self.writer.start()
        await self.hub.start()
        self.metrics.version.set(self.database.version)
        self.ready = True

    async def stop(self) -> None:
        """Stop in order: reject new transactions, commit the queued ones, notify subscribers, close the store."""
        self.ready, self.stopping = False, True
        has_ended = await self.writer.stop(self.settings.grace)
        # Do not wait for functions that rules call after a commit: their calls are in the outbox.
        self.caller.close()
        if not has_ended and not await self.writer.stop(_LAST_SECONDS):
            # It may hold locks that the steps below need. As after a crash, every answered transaction is in the store.
            message = "a running task, perhaps a function that a rule calls, does not end in %g seconds"
            logs.service.error(message + "; the service ends without it", self.settings.grace)
            self.is_stuck = True
            return
        await asyncio.to_thread(self.searches.close)
        await self.hub.stop()
        await asyncio.to_thread(self._readers.shutdown, wait=True, cancel_futures=True)
        self.recent.close()
        await asyncio.to_thread(self.database.close)

    def scopes(self, request: HTTPConnection) -> Scopes:
        """The scopes of the sender of the request; `unauthorized` if it is unknown."""
        scopes = self.authenticator.scopes(request)
        request.scope.setdefault("state", {}).update(token=scopes.name, scopes=scopes)
        return scopes

    def scopes_of(self, name: str) -> Scopes | None:
        """The current scopes of the token of this name; None if it no longer exists."""
        return self.authenticator.named(name)

    @contextmanager
    def sending_whole(self) -> Iterator[None]:
        """A block that sends all rows of a large relation; `too-busy` if there are too many such blocks."""
        if self._whole >= self.settings.bounds.readers:
            raise too_busy("too many large responses at once", "try again later, or read pages with `limit`")
        self._whole += 1
        try:
            yield
        finally:
            self._whole -= 1

    async def run_piece(self, piece: Callable[[], T]) -> T:
        """Compute the next piece of an answer on a reader thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, piece)

    async def run_read(self, answer: Callable[[], T]) -> T:
        """Compute an answer on a reader thread, within the time limit of a request."""
        bounds = self.settings.bounds

        def limited() -> T:
            with time_limit(bounds.seconds, LARGEST_TABLE):
                return answer()

        if self._reading >= bounds.waiting:
            raise too_busy("too many queries are queued")
        self._reading += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, limited)
        finally:
            self._reading -= 1


def service_of(request: HTTPConnection) -> tuple[Service, Scopes]:
    """The service of a request, and the scopes of its sender."""
    service: Service = request.app.state.service
    return service, service.scopes(request)
