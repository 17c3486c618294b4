"""The one thread that changes the database, and its queue. Queued transactions are written as a group.

requests ─► bounded queue ─► group: a version for each ─► one write to the disk ─► answers ─► one task ─► …
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
from upshot.service.wire.errors import RequestError, too_busy
from upshot.service.writing.idempotency import IdempotencyKey, Repetitions

if TYPE_CHECKING:
    from upshot.service.service import Service


T = TypeVar("T")
Statements = Callable[[Transaction], None]

LARGEST_TABLE = 5_000_000
"""The largest intermediate table of a query, in rows."""


@dataclass(frozen=True, slots=True)
class DurableTransaction:
    """A durable transaction; `repeated` if an earlier request made it. Its changes are in `transaction`, or else in the
    log."""

    version: int
    transaction: Transaction | None
    seconds: float = 0.0
    repeated: bool = False


@dataclass(slots=True)
class Job:
    """A queued transaction: its statements, its metadata, and the future of its outcome."""

    statements: Statements
    meta: Mapping[str, Any] | None
    key: IdempotencyKey | None
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[DurableTransaction]
    result: DurableTransaction | None = None
    error: Exception | None = None

    def metadata(self) -> dict[str, Any] | None:
        """The metadata of the commit."""
        if self.key is None:
            return None if self.meta is None else dict(self.meta)
        return {**(self.meta or {}), RESERVED: self.key.metadata()}

    @property
    def is_first(self) -> bool:
        """Test whether this request made the commit, and has an idempotency key."""
        return self.key is not None and self.result is not None and not self.result.repeated


@dataclass(slots=True)
class BackgroundTask:
    """A function to call while nothing can be committed."""

    function: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Any]

    def run(self) -> None:
        try:
            found = self.function()
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._settle(None, error)
        else:
            self._settle(found, None)

    def _settle(self, found: Any, error: Exception | None) -> None:
        # A closed event loop raises RuntimeError: no request waits any more.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(_settle, self.outcome, found, error)


class Writer:
    """Commits transactions of a bounded queue, one group at a time."""

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
    def is_urgent(self) -> bool:
        """Test whether a transaction or the end waits. Tasks that can restart should stop then."""
        return self._queue.is_urgent

    def start(self) -> None:
        self._repetitions = Repetitions(self._service.database)
        self._thread.start()

    async def stop(self, patience: float) -> bool:
        """Stop, and return whether every accepted transaction had its outcome within `patience` seconds. The reasons
        against it are a function of a rule that does not return, and too many transactions."""
        self._closed = True
        self._queue.close()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, patience)
        return not self._thread.is_alive()

    async def commit(
        self, statements: Statements, meta: Mapping[str, Any] | None = None, key: IdempotencyKey | None = None
    ) -> DurableTransaction:
        """Commit a transaction; return when it is durable. `statements` is called on the writer's thread."""
        loop = asyncio.get_running_loop()
        job = Job(statements, meta, key, loop, loop.create_future())
        job.outcome.add_done_callback(_retrieve_error)
        self._enqueue(job)
        # A disconnected client does not stop its transaction.
        return await asyncio.shield(job.outcome)

    async def between_commits(self, function: Callable[[], T]) -> T:
        """Call the function on the writer's thread, within the time limit of a request."""

        def limited() -> T:
            with time_limit(self._service.settings.bounds.seconds, LARGEST_TABLE):
                return function()

        loop = asyncio.get_running_loop()
        task = BackgroundTask(limited, loop, loop.create_future())
        task.outcome.add_done_callback(_retrieve_error)
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
            raise too_busy("the write queue is full", retry_after=True) from None
        self._service.metrics.queue.set(len(self._queue))

    # ---- on the writer's thread -------------------------------------------------------------------

    def _work(self) -> None:
        while (batch := self._queue.take(self._service.settings.bounds.group)) is not None:
            jobs, task = batch
            if jobs:
                self._commit_group(jobs)
            if task is not None:
                task.run()

    def _commit_group(self, jobs: list[Job]) -> None:
        """Commit the jobs and answer them."""
        service = self._service
        assert self._repetitions is not None, "started"
        service.metrics.queue.set(len(self._queue))
        try:
            with service.database.group() as group:
                for job in jobs:
                    self._commit_one(group, job)
                    if job.is_first and job.key is not None and job.result is not None:
                        # Remembered at once: the same group may contain a repetition.
                        self._repetitions.remember(job.key, job.result.version, job.result.transaction)
        except Exception as error:  # noqa: BLE001 - the write failed: no transaction of the group was committed
            logs.service.exception("a group of transactions could not be made durable")
            failed = error if isinstance(error, Error) else _not_durable()
            for job in jobs:
                if job.is_first and job.key is not None:
                    self._repetitions.forget(job.key)
                job.result, job.error = None, job.error or failed
        else:
            service.metrics.group_size.observe(len(jobs))
        self._settle(jobs)

    def _commit_one(self, group: Group, job: Job) -> None:
        """Commit a transaction of the group. Its error does not affect the others."""
        began = time.perf_counter()
        seconds = self._service.settings.bounds.seconds
        try:
            job.result = self._earlier(job)
            if job.result is not None:
                return
            with time_limit(seconds), group.transaction(meta=job.metadata()) as transaction:
                job.statements(transaction)
            job.result = DurableTransaction(transaction.version, transaction, time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - it is the answer
            job.error = error

    def _earlier(self, job: Job) -> DurableTransaction | None:
        """The outcome of an earlier request with the same key."""
        if job.key is None or self._repetitions is None:
            return None
        version = self._repetitions.version_of(job.key)
        if version is None:
            return None
        return DurableTransaction(version, self._repetitions.outcome_of(job.key), repeated=True)

    def _settle(self, jobs: list[Job]) -> None:
        """Notify all waiting requests at once: waking the event loop costs more than a commit."""
        service = self._service
        for job in jobs:
            if job.error is None and job.result is not None and not job.result.repeated:
                made = job.result.transaction
                firings = () if made is None else made.firings
                service.recent.set_seconds(job.result.version, job.result.seconds, firings)
            elif isinstance(job.error, Error):
                service.metrics.rejections.labels(job.error.code).inc()
        service.metrics.version.set(service.database.version)
        for loop in {id(job.loop): job.loop for job in jobs}.values():
            # A closed event loop raises RuntimeError: no request waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_answer, [job for job in jobs if job.loop is loop])


def shutting_down() -> RequestError:
    hint = "send it again after the restart"
    return RequestError(503, "shutting-down", "the service is stopping", help=hint, retryable=True)


def _retrieve_error(outcome: asyncio.Future[Any]) -> None:
    """Mark the error as retrieved: asyncio would log an error that no request waits for any more."""
    if not outcome.cancelled():
        outcome.exception()


def _settle(outcome: asyncio.Future[Any], found: Any, error: Exception | None) -> None:
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
    """The queue is full."""


class WriteQueue:
    """The bounded queue of the writer's thread; any thread may add items.

    Queued transactions are taken as a group, then one background task. So a transaction waits for at most one task, and
    a task for at most one group.
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

    def _put(self, queue: deque[Item], item: Item) -> None:
        with self._changed:
            if len(self) >= self._most:
                raise FullError
            queue.append(item)
            self._changed.notify()

    def close(self) -> None:
        """Close the queue; its items are still taken."""
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
