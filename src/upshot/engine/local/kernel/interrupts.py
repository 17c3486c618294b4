"""Sections that an interrupt must not cut in two."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

# The functions that Python's own module wraps: it looks for a name of each signal and handler, which takes longer than
# the section of a small transaction.
_plain: Any = sys.modules.get("_signal", signal)
_handler, _set_handler = _plain.getsignal, _plain.signal
_INTERRUPT = int(signal.SIGINT)


class uninterrupted:
    """Ctrl-C waits until the section is done: what it does to tables in memory must happen whole or not at all.

    Only the main thread receives interrupts; elsewhere, and where Python's handler is not in place, nothing is changed.
    A section inside another one adds nothing.
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
