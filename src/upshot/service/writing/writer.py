"""The one thread that changes the database, and its queue. Transactions that wait are made durable together.

requests ─► bounded queue ─► group: each its own version ─► one write to the disk ─► answers ─► one task ─► …
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from upshot.core.errors import EngineError, Error
from upshot.database.group import Group
from upshot.database.transaction import Transaction
from upshot.engine.time_limit import time_limit
from upshot.service import logs
from upshot.service.wire.bodies import RESERVED
from upshot.service.wire.errors import RequestError
from upshot.service.writing.idempotency import Repetitions, Sent

if TYPE_CHECKING:
    from upshot.service.service import Service


T = TypeVar("T")
Statements = Callable[[Transaction], None]

ROWS_ON_THE_WAY = 5_000_000
"""Rows that a table may have which a question needs on the way to its answer."""


@dataclass(frozen=True, slots=True)
class Done:
    """A transaction that is durable; `repeated` if it was sent before, and was then. Its result is in the
    `transaction`, or else in the log."""

    version: int
    transaction: Transaction | None
    seconds: float = 0.0
    repeated: bool = False


@dataclass(slots=True)
class Job:
    """A transaction that waits: its statements, its notes, and where its outcome goes."""

    statements: Statements
    meta: Mapping[str, Any] | None
    sent: Sent | None
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Done]
    result: Done | None = None
    error: Exception | None = None

    def notes(self) -> dict[str, Any] | None:
        """The metadata of the commit."""
        if self.sent is None:
            return None if self.meta is None else dict(self.meta)
        return {**(self.meta or {}), RESERVED: self.sent.notes()}


@dataclass(slots=True)
class BackgroundTask:
    """Something else to be done where nothing is committed meanwhile."""

    deed: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Any]

    def run(self) -> None:
        try:
            found = self.deed()
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._tell(None, error)
        else:
            self._tell(found, None)

    def _tell(self, found: Any, error: Exception | None) -> None:
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(_settled, self.outcome, found, error)


class Writer:
    """Takes transactions from a bounded line, one group at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._queue: WriteQueue = WriteQueue(service.settings.bounds.queue)
        self._thread = threading.Thread(target=self._work, name="upshot-writer", daemon=True)
        self._repetitions: Repetitions | None = None
        self._closed = False

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_wanted(self) -> bool:
        """Test whether a transaction or the end waits: tasks that can be started again give way."""
        return self._queue.is_urgent

    def start(self) -> None:
        self._repetitions = Repetitions(self._service.database)
        self._thread.start()

    async def stop(self, patience: float) -> bool:
        """Stop, and return whether every accepted transaction had its outcome within `patience` seconds. It had not if
        a function that a rule calls does not return, or if there was more to do than fits into that time."""
        self._closed = True
        self._queue.close()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, patience)
        return not self._thread.is_alive()

    async def commit(
        self, statements: Statements, meta: Mapping[str, Any] | None = None, sent: Sent | None = None
    ) -> Done:
        """The transaction once it is durable, or its error. `statements` is called on the writer's thread."""
        loop = asyncio.get_running_loop()
        job = Job(statements, meta, sent, loop, loop.create_future())
        job.outcome.add_done_callback(_looked_at)
        self._enqueue(job)
        # A client that disconnects does not stop the transaction.
        return await asyncio.shield(job.outcome)

    async def between_commits(self, deed: Callable[[], T]) -> T:
        """The result of the function, run on the writer's thread in the time that an answer may take."""

        def limited() -> T:
            with time_limit(self._service.settings.bounds.seconds, ROWS_ON_THE_WAY):
                return deed()

        loop = asyncio.get_running_loop()
        task = BackgroundTask(limited, loop, loop.create_future())
        task.outcome.add_done_callback(_looked_at)
        self._enqueue(task)
        found: T = await asyncio.shield(task.outcome)
        return found

    def _enqueue(self, item: Job | BackgroundTask) -> None:
        if self._closed:
            raise shutting_down()
        try:
            if isinstance(item, Job):
                self._queue.put_job(item)
            else:
                self._queue.put_task(item)
        except FullError:
            raise RequestError(
                503,
                "too-busy",
                "the write queue is full",
                help="try again later",
                retryable=True,
                headers={"Retry-After": "1"},
            ) from None
        self._service.metrics.queue.set(len(self._queue))

    # ---- on the writer's thread -------------------------------------------------------------------

    def _work(self) -> None:
        while (taken := self._queue.take(self._service.settings.bounds.group)) is not None:
            jobs, task = taken
            if jobs:
                self._group(jobs)
            if task is not None:
                task.run()

    def _group(self, jobs: list[Job]) -> None:
        """Commits the jobs and answers them."""
        service = self._service
        assert self._repetitions is not None, "started"
        service.metrics.queue.set(len(self._queue))
        try:
            with service.database.group() as group:
                for job in jobs:
                    self._one(group, job)
                    if job.sent is not None and job.result is not None and not job.result.repeated:
                        # Known at once: the same request may come again in this very group.
                        self._repetitions.remember(job.sent, job.result.version, job.result.transaction)
        except Exception as error:  # noqa: BLE001 - the write failed: no transaction of the group happened
            logs.service.exception("a group of transactions could not be made durable")
            failed = error if isinstance(error, Error) else _not_durable()
            for job in jobs:
                if job.sent is not None and job.result is not None and not job.result.repeated:
                    self._repetitions.forget(job.sent)
                job.result, job.error = None, job.error or failed
        else:
            service.metrics.group_size.observe(len(jobs))
        self._settle(jobs)

    def _one(self, group: Group, job: Job) -> None:
        """One transaction of the group: its result, or the error that it fails with alone."""
        began = time.perf_counter()
        try:
            job.result = self._before(job)
            if job.result is not None:
                return
            with time_limit(self._service.settings.bounds.seconds), group.transaction(meta=job.notes()) as transaction:
                job.statements(transaction)
            job.result = Done(transaction.version, transaction, time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - it is the answer
            job.error = error

    def _before(self, job: Job) -> Done | None:
        """The outcome of the same request when it was sent before, if it was."""
        if job.sent is None or self._repetitions is None:
            return None
        version = self._repetitions.version_of(job.sent)
        if version is None:
            return None
        return Done(version, self._repetitions.outcome_of(job.sent), repeated=True)

    def _settle(self, jobs: list[Job]) -> None:
        """Notifies all waiting requests at once: waking the event loop costs more than a commit."""
        service = self._service
        for job in jobs:
            if job.error is None and job.result is not None and not job.result.repeated:
                made = job.result.transaction
                firings = () if made is None else made.firings
                service.recent.took(job.result.version, job.result.seconds, firings)
            elif isinstance(job.error, Error):
                service.metrics.rejections.labels(job.error.code).inc()
        service.metrics.version.set(service.database.version)
        for loop in {id(job.loop): job.loop for job in jobs}.values():
            # A loop that was closed has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_answer, [job for job in jobs if job.loop is loop])


def shutting_down() -> RequestError:
    hint = "send it again after the restart"
    return RequestError(503, "shutting-down", "the service is stopping", help=hint, retryable=True)


def _looked_at(outcome: asyncio.Future[Any]) -> None:
    """An error that nobody waits for any more is no reason to complain."""
    if not outcome.cancelled():
        outcome.exception()


def _settled(outcome: asyncio.Future[Any], found: Any, error: Exception | None) -> None:
    if not outcome.done():
        outcome.set_result(found) if error is None else outcome.set_exception(error)


def _answer(jobs: list[Job]) -> None:
    for job in jobs:
        if job.outcome.done():
            continue
        if job.error is not None:
            job.outcome.set_exception(job.error)
        elif job.result is not None:
            job.outcome.set_result(job.result)


def _not_durable() -> EngineError:
    error = EngineError("the transaction could not be written", code="write-failed", help="nothing was committed")
    error.retryable = True
    return error


Item = TypeVar("Item")


class FullError(Exception):
    """The queue holds as many items as it may."""


class WriteQueue:
    """The bounded queue of the one thread that changes the database; any thread may put.

    Transactions go first, all that wait as a group; then one background task. So a transaction waits for one task at
    most, and a task for one group.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[Job] = deque()
        self._tasks: deque[BackgroundTask] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._jobs) + len(self._tasks)

    @property
    def is_urgent(self) -> bool:
        """Test whether a transaction or the end waits."""
        return bool(self._jobs) or self._closed

    def put_job(self, job: Job) -> None:
        self._put(self._jobs, job)

    def put_task(self, task: BackgroundTask) -> None:
        self._put(self._tasks, task)

    def _put(self, place: deque[Item], item: Item) -> None:
        with self._changed:
            if len(self) >= self._most:
                raise FullError
            place.append(item)
            self._changed.notify()

    def close(self) -> None:
        """End the queue; items in it are still taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self, most: int) -> tuple[list[Job], BackgroundTask | None] | None:
        """Wait for at most `most` transactions and one task to run after them; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: len(self) or self._closed)
            jobs = [self._jobs.popleft() for _ in range(min(most, len(self._jobs)))]
            task = self._tasks.popleft() if self._tasks else None
            return (jobs, task) if jobs or task is not None else None
