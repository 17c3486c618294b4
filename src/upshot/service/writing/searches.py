"""Searches for realizations on the writer thread, in time slices. Waiting transactions are committed between slices.

search ─► slice ─► waiting commits ─► slice ─► …        after a commit: restart, within the remaining time
          └─ third restart ─► a copy of the current version, searched on its own thread, to the end

A long slice is interrupted when a transaction waits; the search then restarts. A database that is too large to copy, or
that is on Spark, is searched in slices only.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.core.errors import LimitError, UsageError, counted
from upshot.database.database import Database
from upshot.database.realization import Realization
from upshot.database.realize import BOUNDED, OPEN, Realizations
from upshot.engine.time_limit import Interruption, giving_way, time_limit
from upshot.service.wire.errors import RequestError, too_busy
from upshot.service.writing.writer import LARGEST_TABLE, shutting_down

if TYPE_CHECKING:
    from upshot.service.service import Service

SLICE = 0.05
LONGEST_SLICE = 0.1
"""Seconds of a slice. After a restart slices get longer, so that a search ends on a busy database, too."""
PATIENCE = 0.5
"""The longest time, in seconds, that commits wait for a slice; a longer step of the search is interrupted. The search
checks the time every few milliseconds, on Spark after each job."""

MOST_RESTARTS = 3
"""Restarts because of commits before the search gets its own copy."""
MOST_COPIED = 1_000_000
"""The number of rows that are copied. Commits wait some milliseconds while the copy starts."""

MODELS_BEYOND = 20
"""Models of the solver that are examined for one more realization than requested. It is a number and not a time, so
that the same request gets the same status."""

Begin = Callable[[Database], Realizations]
"""Starts a search in a database, without a time limit. Called while nothing can be committed."""


@dataclass(slots=True)
class SlicedSearch:
    """A search with its restarts. `most` is the number of requested realizations, `rows` the number of rows that they
    may change in total, as counted by `counted`."""

    database: Database
    begin: Begin
    seconds: float
    most: int | None
    rows: int
    counted: Callable[[Realization], int]
    found: list[Realization] = field(default_factory=list)
    version: int = 0
    """The version of the last restart, for which all results are valid."""
    status: str = OPEN
    reason: str = ""
    is_alone: bool = False
    """True if the search runs in its own copy. It then blocks no other request."""
    unbounded: tuple[str, ...] = ()
    """The views whose rows can need any number of fresh values."""
    _copy: Callable[[], Database] | None = None
    _search: Realizations | None = None
    _slice: float = SLICE
    _interruptions: int = 0
    _restarts: int = 0
    _ends: float = 0.0
    _changed: int = 0
    _last: float = math.inf
    """The number of the last model that is examined, once all requested realizations are found."""
    _seen: int | None = None
    """The version of the last slice."""

    def __post_init__(self) -> None:
        self._ends, self.version = time.monotonic() + self.seconds, self.database.version

    def run_slice(self, is_interrupted: Callable[[], bool]) -> bool:
        """Search for one slice in the current version; return whether the search has ended. A long slice stops when
        `is_interrupted` is true. Called on the writer's thread, unless the search is alone."""
        remaining = self._ends - time.monotonic()
        try:
            with time_limit(max(remaining, 0.0)), giving_way(PATIENCE, is_interrupted):
                if self._copy is not None:
                    self.database, self._copy = self._copy(), None
                self._search_version(self.database.version)
        except Interruption:
            self._search, self.status = None, OPEN
            self._restarts += 1
        except LimitError as error:
            self._cut_off(counted(self.seconds, "second") if error.code == "timeout" else error.message)
        except UsageError as error:
            if error.code != "state-changed":
                raise
            self._search = None
        if self._restarts >= MOST_RESTARTS and not self.is_alone and self._search is None:
            self._continue_in_copy()
        return self._has_ended()

    def _continue_in_copy(self) -> None:
        """Continue in a copy of the database, if it can be copied."""
        version, self._copy = self.database.version, self.database.hold_version(MOST_COPIED)
        self._restarts = 0
        if self._copy is not None:
            self.is_alone, self._seen, self._slice = True, version, LONGEST_SLICE

    def _search_version(self, version: int) -> None:
        if self._seen not in (None, version):
            self._slice = min(2 * self._slice, LONGEST_SLICE)
            self._interruptions += 1
            self._restarts += 1
            self._search = None
        self._seen = version
        if self._search is None:
            self.found.clear()
            self._changed, self._last = 0, math.inf
            if self._restarts >= MOST_RESTARTS:
                return
            self._search = self.begin(self.database)
            self.unbounded = self._search.unbounded
            self.version = version
        search, until = self._search, time.monotonic() + self._slice
        while search.status == OPEN and not self._is_enough(search) and (remaining := until - time.monotonic()) > 0:
            if (found := search.advance(remaining, self._last)) is not None:
                self.found.append(found)
                self._changed += self.counted(found)
                if len(self.found) == self.most:
                    self._last = search.work["models"] + MODELS_BEYOND
        self.status, self.reason = search.status, search.reason

    def _take_waiting(self) -> bool:
        """Return realizations that the search held back for others with fewer side effects; whether there are any."""
        waiting = self._search.take_waiting() if self._search is not None else []
        for each in waiting:
            self._changed += self.counted(each)
            if self._changed > self.rows or len(self.found) == self.most:
                break
            self.found.append(each)
        return bool(waiting)

    def _is_enough(self, search: Realizations) -> bool:
        """Test whether the answer is complete, or has as many rows as allowed."""
        if self._changed > self.rows:
            return True
        return self.most is not None and (len(self.found) > self.most or search.work["models"] >= self._last)

    def _has_ended(self) -> bool:
        if self._changed > self.rows:
            if len(self.found) == 1:
                hint = "request a smaller change, or raise `--max-rows`"
                raise RequestError(
                    422, "too-many-rows", f"a realization changes more than {self.rows:,} rows", help=hint
                )
            self.found.pop()
            self._cut_off(f"{self.rows:,} rows of an answer")
        elif self.most is not None and len(self.found) > self.most:
            # One more was searched to know whether there are more.
            del self.found[self.most :]
            self.status = OPEN
            return self._leave_open()
        elif self.status == OPEN and time.monotonic() >= self._ends:
            self._cut_off(counted(self.seconds, "second"))
        elif self.status == OPEN and self._search is not None and self._search.work["models"] >= self._last:
            return self._leave_open()
        return self.status != OPEN

    def _leave_open(self) -> bool:
        self.reason = f"there may be more than {'this one' if self.most == 1 else f'these {self.most}'}"
        return True

    def _cut_off(self, bound: str) -> None:
        fewer = "; others may have fewer side effects" if self._take_waiting() else ""
        often = self._interruptions
        again = f", in which the database changed {often} time{'s' * (often > 1)}" if often else ""
        self.status, self.reason = BOUNDED, f"{len(self.found) or 'none'} found within {bound}{again}{fewer}"


class Searches:
    """The running searches, a bounded number at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turns = asyncio.Semaphore(service.settings.bounds.searches)
        self._waiting = 0
        self._threads = ThreadPoolExecutor(service.settings.bounds.searches, thread_name_prefix="upshot-search")

    def close(self) -> None:
        """End the searches that run in copies: they are interrupted when the service stops."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def run(
        self, start: Callable[[], SlicedSearch], is_disconnected: Callable[[], Awaitable[bool]]
    ) -> SlicedSearch:
        """Start a search when there is room for it, and run it to its end or until the client disconnects."""
        async with self._turn():
            search = start()
            while not await self._slice(search):
                if self._service.stopping:
                    raise shutting_down()
                if await is_disconnected():
                    break
        return search

    async def _slice(self, search: SlicedSearch) -> bool:
        service = self._service
        if not search.is_alone:
            return await service.writer.between_commits(lambda: search.run_slice(lambda: service.writer.is_urgent))

        def alone() -> bool:
            with time_limit(None, LARGEST_TABLE):
                return search.run_slice(lambda: service.stopping)

        return await asyncio.get_running_loop().run_in_executor(self._threads, alone)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        bounds = self._service.settings.bounds
        if self._waiting >= bounds.waiting:
            raise too_busy("too many searches are queued", retry_after=True)
        self._waiting += 1
        try:
            async with asyncio.timeout(bounds.seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise too_busy("too many searches are queued", retry_after=True) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()
