"""The threads that work for the engine beside the calling one; the kernel releases Python's lock while it runs."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from upshot.core.resources import exhausted

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 4


def _available() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


WORKERS = min(_available(), _MOST)
"""The number of threads that work in parallel, the calling thread included."""


@functools.cache
def pool() -> ThreadPoolExecutor:
    """The threads of this process; a forked child has none of its parent's and starts its own."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - small changes need no thread

    return ThreadPoolExecutor(_MOST, thread_name_prefix="upshot worker")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of `work` on the items, in order. This thread and others each take the next item, so that this one
    takes them all where no other can be started.

    >>> side_by_side(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    left, results = deque(enumerate(items)), {}

    def take() -> None:
        # A task that is left in the pool by a thread that could not be started finds no item any more.
        while left:
            try:
                number, item = left.popleft()
            except IndexError:
                return
            results[number] = work(item)

    others = []
    try:
        for _ in range(min(len(items) - 1, _MOST)):
            others.append(pool().submit(take))
    except Exception as error:
        if not exhausted(error):
            raise
    try:
        take()
    finally:
        left.clear()
        for other in others:
            other.result()
    return [results[number] for number in range(len(items))]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)
