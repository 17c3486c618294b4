"""Searches for realizations, on the writer thread, in time slices: waiting commits go first.

search ─► moment ─► commits that wait ─► moment ─► …        a commit in between: from the beginning, in what is left
          └─ in vain for the third time ─► the version there is, held in a copy ─► on a thread of its own, to the end

A moment that gets long gives way as soon as somebody waits: the search looks at the clock wherever it can stop, and
begins again. A database that is too large to be copied, or that is on Spark, is searched in moments to the end.
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
from upshot.service.wire.errors import RequestError
from upshot.service.writing.writer import ROWS_ON_THE_WAY, shutting_down

if TYPE_CHECKING:
    from upshot.service.service import Service

MOMENT = 0.05
LONGEST_MOMENT = 0.1
"""Seconds after which others have their turn. A search that commits have sent back to its beginning gets longer
moments, so that it ends on a busy database too."""
PATIENCE = 0.5
"""Seconds that commits wait for a moment at most: a step of the search that takes longer is given up. Between two looks
at the clock there are some milliseconds, on Spark one job."""

VAIN = 3
"""Restarts because of commits before the search gets its own copy."""
MOST_COPIED = 1_000_000
"""Rows that are copied; while they are taken note of, which is a matter of milliseconds, commits wait."""

BEYOND = 20
"""Models of the solver among which a realization beyond the wanted ones is looked for: a number and no time, so that
the same request gets the same status."""

Begin = Callable[[Database], Realizations]
"""The search in a database, without its own time limit. Called where nothing is committed meanwhile."""


@dataclass(slots=True)
class Hunt:
    """One search, through as many beginnings as it takes. `most` is how many realizations are wanted, `rows` how many
    rows they may change together, of those that `counted` counts."""

    database: Database
    begin: Begin
    seconds: float
    most: int | None
    rows: int
    counted: Callable[[Realization], int]
    found: list[Realization] = field(default_factory=list)
    version: int = 0
    """The one that it began in last: what was found, and what `begin` took note of, is so there."""
    status: str = OPEN
    reason: str = ""
    is_alone: bool = False
    """True if it has a copy of a version to itself: then it blocks no other request."""
    unbounded: tuple[str, ...] = ()
    """The views whose rows can need any number of fresh values."""
    _copy: Callable[[], Database] | None = None
    _search: Realizations | None = None
    _moment: float = MOMENT
    _interruptions: int = 0
    _vain: int = 0
    _ends: float = 0.0
    _changed: int = 0
    _last: float = math.inf
    """The number of the last model that is looked at, once all wanted realizations are found."""
    _seen: int | None = None
    """The version of its last slice, which may differ from that of its first."""

    def __post_init__(self) -> None:
        self._ends, self.version = time.monotonic() + self.seconds, self.database.version

    def go_on(self, is_wanted: Callable[[], bool]) -> bool:
        """Looks further for a moment, in the version that there is now; whether that is the end. `is_wanted` says
        whether others wait for their turn. On the thread that commits, unless it is alone."""
        left = self._ends - time.monotonic()
        try:
            with time_limit(max(left, 0.0)), giving_way(PATIENCE, is_wanted):
                if self._copy is not None:
                    self.database, self._copy = self._copy(), None
                self._look(self.database.version)
        except Interruption:
            self._search, self.status = None, OPEN
            self._vain += 1
        except LimitError as error:
            self._cut_off(counted(self.seconds, "second") if error.code == "timeout" else error.message)
        except UsageError as error:
            if error.code != "state-changed":
                raise
            self._search = None
        if self._vain >= VAIN and not self.is_alone and self._search is None:
            self._keep_to_itself()
        return self._has_ended()

    def _keep_to_itself(self) -> None:
        """Goes on in a copy from here on, if there can be one."""
        version, self._copy = self.database.version, self.database.hold_version(MOST_COPIED)
        self._vain = 0
        if self._copy is not None:
            self.is_alone, self._seen, self._moment = True, version, LONGEST_MOMENT

    def _look(self, version: int) -> None:
        if self._seen not in (None, version):
            self._moment = min(2 * self._moment, LONGEST_MOMENT)
            self._interruptions += 1
            self._vain += 1
            self._search = None
        self._seen = version
        if self._search is None:
            self.found.clear()
            self._changed, self._last = 0, math.inf
            if self._vain >= VAIN:
                return
            self._search = self.begin(self.database)
            self.unbounded = self._search.unbounded
            self.version = version
        search, until = self._search, time.monotonic() + self._moment
        while search.status == OPEN and not self._is_enough(search) and (left := until - time.monotonic()) > 0:
            if (found := search.advance(left, self._last)) is not None:
                self.found.append(found)
                self._changed += self.counted(found)
                if len(self.found) == self.most:
                    self._last = search.work["models"] + BEYOND
        self.status, self.reason = search.status, search.reason

    def _take_waiting(self) -> bool:
        """Give those that were found and waited for others with fewer side effects; whether there are any."""
        waiting = self._search.take_waiting() if self._search is not None else []
        for each in waiting:
            self._changed += self.counted(each)
            if self._changed > self.rows or len(self.found) == self.most:
                break
            self.found.append(each)
        return bool(waiting)

    def _is_enough(self, search: Realizations) -> bool:
        """Test whether the answer is complete, or as large as it may be."""
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
            # The one beyond was looked for to know whether there is one.
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
        """End the searches that run alone: they see that the service stops."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def run(self, hunt: Callable[[], Hunt], is_given_up: Callable[[], Awaitable[bool]]) -> Hunt:
        """The hunt at its end. It begins when it is its turn; nobody goes on with one that is given up."""
        async with self._turn():
            hunting = hunt()
            while not await self._moment(hunting):
                if self._service.stopping:
                    raise shutting_down()
                if await is_given_up():
                    break
        return hunting

    async def _moment(self, hunt: Hunt) -> bool:
        service = self._service
        if not hunt.is_alone:
            return await service.writer.between_commits(lambda: hunt.go_on(lambda: service.writer.is_wanted))

        def alone() -> bool:
            with time_limit(None, ROWS_ON_THE_WAY):
                return hunt.go_on(lambda: service.stopping)

        return await asyncio.get_running_loop().run_in_executor(self._threads, alone)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        bounds = self._service.settings.bounds
        if self._waiting >= bounds.waiting:
            raise _too_busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(bounds.seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise _too_busy() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()


def _too_busy() -> RequestError:
    hint = "try again later"
    return RequestError(
        503, "too-busy", "too many searches are queued", help=hint, retryable=True, headers={"Retry-After": "1"}
    )
