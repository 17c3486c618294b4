"""The engine's thread pool; the kernel releases Python's lock while it runs."""

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
"""The number of parallel threads, including the calling one."""


@functools.cache
def pool() -> ThreadPoolExecutor:
    """The threads of this process; a forked child starts its own."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - small changes need no thread

    return ThreadPoolExecutor(_MOST, thread_name_prefix="upshot worker")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of `work` on the items, in order. This thread and others take items in turn; if no other thread can
    be started, this one takes all.

    >>> side_by_side(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    from concurrent.futures import Future, wait  # noqa: PLC0415 - small changes need no thread

    left, results = deque(enumerate(items)), {}
    helpers = [Future[None]() for _ in range(min(len(items) - 1, _MOST))]

    def take() -> None:
        while left:
            try:
                number, item = left.popleft()
            except IndexError:
                return
            results[number] = work(item)

    def help_with(helper: Future[None]) -> None:
        if helper.set_running_or_notify_cancel():
            try:
                take()
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                helper.set_exception(error)
            else:
                helper.set_result(None)

    # These futures are not the pool's: it keeps a task for which it could not start a thread, without a future, and may
    # start it later.
    try:
        for helper in helpers:
            pool().submit(functools.partial(help_with, helper))
    except Exception as error:
        if not exhausted(error):
            raise
    try:
        take()
    finally:
        left.clear()
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
    return [results[number] for number in range(len(items))]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)
