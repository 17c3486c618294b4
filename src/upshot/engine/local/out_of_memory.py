"""Memory that cannot be had, as an error of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from upshot.core.errors import EngineError


def out_of_memory(what: str) -> EngineError:
    return EngineError(
        f"out of memory at {what}", code="out-of-memory", help="use a smaller transaction or more memory"
    )


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Tell of memory that cannot be had as an error of the engine."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(f"`{what}`") from error
