"""Limits that end a computation with an error, and the switches of engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from upshot.core.errors import LimitError
from upshot.core.optimizations import Optimizations
from upshot.engine.user_functions import UserFunctions

MOST_ROUNDS = 2**63 - 1
"""The largest number of rounds that the kernel can count."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_rounds`: the maximum number of rounds of a recursive component, for a load or a change. `memory`: the
    maximum number of bytes for the tables of the local engine, with indexes and text. `functions`: the user functions
    that rules call, shared by all engines of a database."""

    max_rounds: int = 1_000_000
    memory: int | None = None
    optimizations: Optimizations = field(default_factory=Optimizations)
    functions: UserFunctions = field(default_factory=UserFunctions, compare=False)


class BudgetExceeded(LimitError):
    """The tables would exceed their memory limit; the change can be rolled back as after any other error."""

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(
            f"the tables need {in_bytes(needed)}; the limit is {in_bytes(limit)}",
            code="memory-budget",
            help="raise `memory`, or connect with a Spark session: larger data moves to Spark",
        )
        self.needed, self.limit = needed, limit


def in_bytes(count: int) -> str:
    """A number of bytes for people.

    >>> in_bytes(1_288_490_189), in_bytes(4 << 30), in_bytes(512)
    ('1.2 GiB', '4.0 GiB', '512 bytes')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} bytes"


_by_rounds: ContextVar[bool] = ContextVar("by_rounds", default=False)
_once: ContextVar[bool] = ContextVar("once", default=False)


@contextmanager
def by_rounds_alone() -> Iterator[None]:
    """Compute recursion by rounds of its rules only, so that verification does not use the algorithms that it
    checks."""
    token = _by_rounds.set(True)
    try:
        yield
    finally:
        _by_rounds.reset(token)


def is_by_rounds_alone() -> bool:
    return _by_rounds.get()


@contextmanager
def loaded_once() -> Iterator[None]:
    """Load without building indexes for changes: none will follow."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


def is_changed_later() -> bool:
    """Test whether a load should build indexes for later changes."""
    return not (_once.get() or _by_rounds.get())
