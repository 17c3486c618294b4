"""Searches for realisations, on the thread that commits, a moment at a time: whoever waits to commit goes first.

search ─► moment ─► commits that wait ─► moment ─► …        a commit in between: from the beginning, in what is left

A moment that gets long gives way as soon as somebody waits: the search looks at the clock wherever it can stop, and
begins again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.core.counted import counted
from upshot.core.errors import LimitError, UsageError
from upshot.database.realization import Realization
from upshot.database.realize import BOUNDED, OPEN, Realizations
from upshot.engine.time_limit import Interruption, giving_way, time_limit
from upshot.service.errors import Refused
from upshot.service.writer import shutting_down

if TYPE_CHECKING:
    from upshot.service.service import Service

MOMENT = 0.05
LONGEST_MOMENT = 0.1
"""Seconds after which others have their turn. A search that commits have sent back to its beginning gets longer
moments, so that it ends on a busy database too."""
PATIENCE = 0.5
"""Seconds that commits wait for a moment at most: a step of the search that takes longer is given up. Between two looks
at the clock there are some milliseconds, on Spark one job."""

Begin = Callable[[], Realizations]
"""The search, which is not to look at the time itself. Called where nothing is committed meanwhile."""


@dataclass(slots=True)
class Hunt:
    """One search, through as many beginnings as it takes. `most` is how many realisations are wanted, `rows` how many
    rows they may change together, of those that `counted` counts."""

    begin: Begin
    seconds: float
    most: int | None
    rows: int
    counted: Callable[[Realization], int]
    found: list[Realization] = field(default_factory=list)
    version: int = 0
    status: str = OPEN
    reason: str = ""
    _search: Realizations | None = None
    _moment: float = MOMENT
    _interruptions: int = 0
    _ends: float = 0.0
    _changed: int = 0
    _has_begun: bool = False

    def __post_init__(self) -> None:
        self._ends = time.monotonic() + self.seconds

    def go_on(self, version: int, is_wanted: Callable[[], bool]) -> bool:
        """Looks further for a moment, in the version that there is now; whether that is the end. `is_wanted` says
        whether others wait for their turn."""
        left = self._ends - time.monotonic()
        try:
            with time_limit(max(left, 0.0)), giving_way(PATIENCE, is_wanted):
                self._look(version)
        except Interruption:
            self._search, self.status = None, OPEN
        except LimitError as error:
            self._cut_off(counted(self.seconds, "second") if error.code == "timeout" else error.message)
        except UsageError as error:
            if error.code != "state-changed":
                raise
            self._search = None
        return self._has_ended()

    def _look(self, version: int) -> None:
        if self._has_begun and self.version != version:
            self._moment = min(2 * self._moment, LONGEST_MOMENT)
            self._interruptions += 1
            self._search = None
        if self._search is None:
            self.found.clear()
            self._changed, self._has_begun, self.version = 0, True, version
            self._search = self.begin()
        search, until = self._search, time.monotonic() + self._moment
        while search.status == OPEN and (left := until - time.monotonic()) > 0:
            if (found := search.advance(left)) is not None:
                self.found.append(found)
                self._changed += self.counted(found)
                if self._changed > self.rows or (self.most is not None and len(self.found) > self.most):
                    break
        self.status, self.reason = search.status, search.reason

    def _has_ended(self) -> bool:
        if self._changed > self.rows:
            if len(self.found) == 1:
                hint = "ask for a change that does less, or raise `--max-rows`"
                raise Refused(422, "too-many-rows", f"a realisation changes more than {self.rows:,} rows", help=hint)
            self.found.pop()
            self._cut_off(f"{self.rows:,} rows of an answer")
        elif self.most is not None and len(self.found) > self.most:
            # The one beyond was looked for to know whether there is one.
            del self.found[self.most :]
            self.status = OPEN
        elif self.status == OPEN and time.monotonic() >= self._ends:
            self._cut_off(counted(self.seconds, "second"))
        if self.status == OPEN and self.most is not None and len(self.found) == self.most:
            self.reason = f"there may be more than {'this one' if self.most == 1 else f'these {self.most}'}"
            return True
        return self.status != OPEN

    def _cut_off(self, bound: str) -> None:
        often = self._interruptions
        again = f", in which the database changed {often} time{'s' * (often > 1)}" if often else ""
        self.status, self.reason = BOUNDED, f"{len(self.found) or 'none'} found within {bound}{again}"


class Searches:
    """Those under way, so many at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turns = asyncio.Semaphore(service.settings.bounds.searches)
        self._waiting = 0

    async def run(self, hunt: Callable[[], Hunt], is_given_up: Callable[[], Awaitable[bool]]) -> Hunt:
        """The hunt at its end. It begins when it is its turn; nobody goes on with one that is given up."""
        writer, database = self._service.writer, self._service.database
        async with self._turn():
            hunting = hunt()
            while not await writer.between_commits(lambda: hunting.go_on(database.version, lambda: writer.is_wanted)):
                if self._service.stopping:
                    raise shutting_down()
                if await is_given_up():
                    break
        return hunting

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


def _too_busy() -> Refused:
    hint = "try again in a moment"
    return Refused(503, "too-busy", "too many searches wait", help=hint, retryable=True, headers={"Retry-After": "1"})
