"""The threads that work for the engine beside the calling one; the kernel releases Python's lock while it runs."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

_MOST = 4


def _available() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


WORKERS = min(_available(), _MOST)
"""How many work side by side, the calling thread included."""

POOL = ThreadPoolExecutor(_MOST, thread_name_prefix="upshot worker")
