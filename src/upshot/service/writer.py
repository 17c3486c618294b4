"""The one thread that changes the database. What waits for it is made durable together."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upshot.database.transaction import Transaction
from upshot.service.commits import CommitCollector
from upshot.service.errors import Refused

if TYPE_CHECKING:
    from upshot.service.service import Service

Statements = Callable[[Transaction], None]


@dataclass(slots=True)
class Job:
    """A transaction that waits: its statements, its notes, and where its outcome goes."""

    statements: Statements
    meta: dict[str, Any] | None
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Transaction]

    def settle(self, result: Transaction | None, error: BaseException | None) -> None:
        self.loop.call_soon_threadsafe(_set, self.outcome, result, error)


def _set(future: asyncio.Future[Transaction], result: Transaction | None, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif result is not None:
        future.set_result(result)


class Writer:
    """Takes transactions from a bounded queue, one group at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._queue: queue.Queue[Job | None] = queue.Queue(service.settings.bounds.queue)
        self._thread = threading.Thread(target=self._work, name="upshot-writer", daemon=True)
        self._collector: CommitCollector | None = None

    def start(self) -> None:
        self._collector = CommitCollector(self._service.database)
        self._thread.start()

    async def stop(self) -> None:
        """Returns when everything that was accepted has its outcome."""
        await asyncio.to_thread(self._queue.put, None)
        await asyncio.to_thread(self._thread.join)

    async def commit(self, statements: Statements, meta: dict[str, Any] | None = None) -> Transaction:
        """The transaction once it is durable, or its error. `statements` is called on the writer's thread."""
        if self._service.stopping:
            raise Refused(503, "shutting-down", "the service is stopping", retryable=True)
        loop = asyncio.get_running_loop()
        job = Job(statements, meta, loop, loop.create_future())
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            hint = "try again in a moment"
            raise Refused(503, "too-busy", "too many transactions wait", help=hint, retryable=True) from None
        return await job.outcome

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            self._one(job)

    def _one(self, job: Job) -> None:
        try:
            with self._service.database.transaction(meta=job.meta) as transaction:
                job.statements(transaction)
        except Exception as error:  # noqa: BLE001 - it is the answer
            job.settle(None, error)
            return
        assert self._collector is not None, "started"
        self._service.hub.committed(self._collector.take())
        job.settle(transaction, None)
