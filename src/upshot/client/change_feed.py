"""The changes of a copy for somebody who iterates over them at their own pace."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from upshot.client.events import Change

MOST_WAITING = 10_000
"""Changes that wait in one feed. Beyond that the copy waits too, the service lets go of it, and it comes back later
with its cursor: nothing is lost and no memory fills up."""


class ChangeFeed(Iterator[Change]):
    """Gives each change once, in order. `close` it, or leave its `with` block, when no more is wanted."""

    def __init__(self, guard: threading.Condition, first: Iterable[Change], at_end: Callable[[], None]) -> None:
        self._guard = guard
        self._waiting = deque(first)
        self._at_end = at_end
        self._finished = False
        self._open = True

    @property
    def is_open(self) -> bool:
        return self._open

    def __iter__(self) -> ChangeFeed:
        return self

    def __next__(self) -> Change:
        change = self.next()
        assert change is not None, "without a timeout"
        return change

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change, None when `timeout` seconds have passed without one."""
        with self._guard:
            if not self._guard.wait_for(lambda: self._waiting or self._finished or not self._open, timeout):
                return None
            if self._waiting:
                self._guard.notify_all()
                return self._waiting.popleft()
        self._at_end()
        raise StopIteration

    def offer(self, change: Change) -> bool:
        """For the copy, which holds the guard: whether there was room, or nobody wants it any more."""
        if self._open and len(self._waiting) >= MOST_WAITING:
            return False
        if self._open:
            self._waiting.append(change)
            self._guard.notify_all()
        return True

    def finish(self) -> None:
        """For the copy, which holds the guard: nothing comes any more."""
        self._finished = True

    def close(self) -> None:
        with self._guard:
            self._open = False
            self._waiting.clear()
            self._guard.notify_all()

    def __enter__(self) -> ChangeFeed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
