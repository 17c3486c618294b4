"""What waits for the one thread that changes the database.

Transactions go first, all that wait as a group; then one errand, whoever comes in the meantime. So a transaction waits
for one errand at most, and an errand for one group.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

Job = TypeVar("Job")
Errand = TypeVar("Errand")
Item = TypeVar("Item")


class FullError(Exception):
    """As many wait as may."""


class Line(Generic[Job, Errand]):
    """Bounded: `most` wait at a time. One thread takes, any may put."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[Job] = deque()
        self._errands: deque[Errand] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._jobs) + len(self._errands)

    @property
    def is_urgent(self) -> bool:
        """Whether a transaction waits, or the end."""
        return bool(self._jobs) or self._closed

    def put_job(self, job: Job) -> None:
        self._put(self._jobs, job)

    def put_errand(self, errand: Errand) -> None:
        self._put(self._errands, errand)

    def _put(self, place: deque[Item], item: Item) -> None:
        with self._changed:
            if len(self) >= self._most:
                raise FullError
            place.append(item)
            self._changed.notify()

    def close(self) -> None:
        """Nothing is put any more; what waits is still taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self, most: int) -> tuple[list[Job], Errand | None] | None:
        """At most so many transactions that wait, and an errand to be run after them; waits until there is one of the
        two. None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: len(self) or self._closed)
            jobs = [self._jobs.popleft() for _ in range(min(most, len(self._jobs)))]
            errand = self._errands.popleft() if self._errands else None
            return (jobs, errand) if jobs or errand is not None else None
