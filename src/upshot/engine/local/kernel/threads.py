"""The threads that work for the engine beside the calling one; the kernel releases Python's lock while it runs."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)
