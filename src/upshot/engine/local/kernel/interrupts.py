"""Sections that an interrupt must not break."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

# The functions that the `signal` module wraps: the wrappers convert signals and handlers to enum members, which takes
# longer than a small transaction.
_plain: Any = sys.modules.get("_signal", signal)
_handler, _set_handler = _plain.getsignal, _plain.signal
_INTERRUPT = int(signal.SIGINT)


class uninterrupted:
    """Delay Ctrl-C until the end of the section: its changes of tables in memory must be atomic.

    Only the main thread receives interrupts; on other threads, and without a Python handler, nothing is changed. A
    nested section has no effect.
    """

    __slots__ = ("_before", "_waiting")

    def __enter__(self) -> None:
        self._waiting: list[tuple[int, FrameType | None]] = []
        self._before = _handler(_INTERRUPT)
        if not callable(self._before) or getattr(self._before, "__self__", None).__class__ is uninterrupted:
            self._before = None
            return
        try:
            _set_handler(_INTERRUPT, self._wait)
        except ValueError:
            # Not the main thread.
            self._before = None

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append((number, frame))

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _set_handler(_INTERRUPT, self._before)
            if self._waiting:
                self._before(*self._waiting[0])
