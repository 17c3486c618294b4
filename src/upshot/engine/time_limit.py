"""Time limits for the work of a thread. Engines check the clock where they can stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from upshot.core.errors import LimitError

_current = threading.local()


@contextmanager
def time_limit(seconds: float | None, rows: int | None = None) -> Iterator[None]:
    """Inside the block, on this thread, work that takes longer, or makes more rows in one table, ends with a
    `LimitError`. Of nested limits, the stricter one applies.

    >>> with time_limit(0):
    ...     check_time()
    Traceback (most recent call last):
    upshot.core.errors.LimitError: error[timeout]: time limit of 0 seconds exceeded
      = help: request less, or raise the limit
    >>> with time_limit(None):
    ...     is_limited()
    False
    """
    before = _bounds()
    ends = None if seconds is None else time.monotonic() + seconds
    outer, outer_rows = (None, None) if before is None else (before[0], before[2])
    if outer is not None and before is not None and (ends is None or outer < ends):
        ends, seconds = outer, before[1]
    most = rows if outer_rows is None else min(rows or outer_rows, outer_rows)
    _current.bounds = None if ends is None and most is None else (ends, seconds, most)
    try:
        yield
    finally:
        _current.bounds = before


@contextmanager
def live_time_limit(seconds: float | None) -> Iterator[None]:
    """Inside the block, on this thread, all live queries of one propagation together take at most `seconds`."""
    before = live_seconds()
    _current.live = seconds
    try:
        yield
    finally:
        _current.live = before


def live_seconds() -> float | None:
    """The limit of `live_time_limit` on this thread, if there is one."""
    found: float | None = getattr(_current, "live", None)
    return found


class Interruption(LimitError):
    """The work of this thread was interrupted in favor of another; it can be started again."""


@contextmanager
def giving_way(seconds: float, is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Inside the block, on this thread, work ends with an `Interruption` at the first check of the clock, after
    `seconds`, at which `is_wanted` returns True.

    >>> with giving_way(0, lambda: True):
    ...     check_time()
    Traceback (most recent call last):
    upshot.engine.time_limit.Interruption: error[interrupted]: something else goes first
      = help: begin again
    """
    before = getattr(_current, "way", None)
    _current.way = (time.monotonic() + seconds, is_wanted)
    try:
        yield
    finally:
        _current.way = before


def is_limited() -> bool:
    """Test whether this thread has a limit to check."""
    return _bounds() is not None or getattr(_current, "way", None) is not None


def check_time(rows: int = 0) -> None:
    """Raise `LimitError` if the time of this thread is over, or if a table with that many rows is too large; raise
    `Interruption` if other work must go first."""
    way = getattr(_current, "way", None)
    if way is not None and time.monotonic() >= way[0] and way[1]():
        raise Interruption("something else goes first", code="interrupted", help="begin again")
    bounds = _bounds()
    if bounds is None:
        return
    ends, seconds, most = bounds
    hint = "request less, or raise the limit"
    if ends is not None and time.monotonic() >= ends:
        raise LimitError(f"time limit of {seconds:g} seconds exceeded", code="timeout", help=hint)
    if most is not None and rows > most:
        raise LimitError(f"more than {most:,} intermediate rows", code="too-many-rows", help=hint)


def _bounds() -> tuple[float | None, float | None, int | None] | None:
    return getattr(_current, "bounds", None)
