"""Where the suites get their databases: local ones, unless whoever runs a test says otherwise.

A test that makes its database here runs as it stands on any engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import upshot

Make = Callable[[], Any]
"""Gives a new, empty database."""

_make: ContextVar[Make] = ContextVar("make", default=upshot.connect)


def connect() -> Any:
    """A new, empty database on the engine in use."""
    return _make.get()()


@contextmanager
def using(make: Make) -> Iterator[None]:
    """Inside, and on this thread, `connect` gives what `make` gives."""
    token = _make.set(make)
    try:
        yield
    finally:
        _make.reset(token)
