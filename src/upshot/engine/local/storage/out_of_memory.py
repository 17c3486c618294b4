"""Out-of-memory conditions as errors of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from upshot.core.errors import EngineError
from upshot.engine.local.kernel.memory import Account


def out_of_memory(what: str) -> EngineError:
    return EngineError(
        f"out of memory at {what}", code="out-of-memory", help="use a smaller transaction or more memory"
    )


class Bounded:
    """A section with a limit on the account's memory. (A class, since a commit enters a section for every view that it
    reaches, and a generator takes twice as long.)"""

    __slots__ = ("_account", "_limit", "_what")

    def __init__(self, account: Account, limit: int | None, what: str) -> None:
        self._account, self._limit, self._what = account, limit, what

    def __enter__(self) -> None:
        self._account.limit = self._limit

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._account.limit = None
        if isinstance(error, MemoryError):
            raise out_of_memory(f"`{self._what}`") from error


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Convert a `MemoryError` to an error of the engine."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(f"`{what}`") from error
