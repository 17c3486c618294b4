"""The service: a database, the one thread that changes it, the threads that read it, and those who follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import HTTPConnection

from upshot.database.database import Database
from upshot.service.hub import Hub
from upshot.service.metrics import Metrics
from upshot.service.scopes import ANYTHING, Scopes
from upshot.service.settings import Settings
from upshot.service.writer import Writer

T = TypeVar("T")


class Service:
    """What the routes of the application share. `start` and `stop` are called on the event loop."""

    def __init__(self, database: Database, settings: Settings | None = None) -> None:
        self.database = database
        self.settings = settings or Settings()
        self.metrics = Metrics()
        self.hub = Hub(self)
        self.writer = Writer(self)
        self.stopping = False
        self._readers = ThreadPoolExecutor(self.settings.bounds.readers, thread_name_prefix="upshot-reader")

    async def start(self) -> None:
        self.writer.start()
        await self.hub.start()

    async def stop(self) -> None:
        """Ends in order: no new transactions, those that wait are committed, followers are told, the store closes."""
        self.stopping = True
        await self.writer.stop()
        await self.hub.stop()
        self._readers.shutdown(wait=True, cancel_futures=True)
        self.database.close()

    def scopes(self, request: HTTPConnection) -> Scopes:
        """What the sender of the request may do; an error in the one shape if nobody knows who it is."""
        return ANYTHING

    def scopes_of(self, name: str) -> Scopes | None:
        """What the holder of the token of this name may do now; nothing if there is no such token any more."""
        return ANYTHING if name == ANYTHING.name else None

    async def run_read(self, answer: Callable[[], T]) -> T:
        """The answer, worked out on a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, answer)
