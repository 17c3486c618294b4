"""Bounds that end a computation with an error rather than never, and the switches of engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from upshot.core.errors import LimitError
from upshot.core.optimizations import Optimizations
from upshot.engine.user_functions import UserFunctions

MOST_ROUNDS = 2**63 - 1
"""Rounds that the kernel can count to."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_rounds`: the most rounds a recursive component may take, load or change. `memory`: the most bytes that the
    tables of the local engine may take, indexes and text included. `functions`: those that rules call, shared by all
    engines of a database."""

    max_rounds: int = 1_000_000
    memory: int | None = None
    optimizations: Optimizations = field(default_factory=Optimizations)
    functions: UserFunctions = field(default_factory=UserFunctions, compare=False)


class BudgetExceeded(LimitError):
    """The tables would outgrow the memory they may take; the change can be undone as after any other error."""

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
    """Compute recursion by rounds of its rules only: a recomputation must not share the ways it judges."""
    token = _by_rounds.set(True)
    try:
        yield
    finally:
        _by_rounds.reset(token)


def is_by_rounds_alone() -> bool:
    return _by_rounds.get()


@contextmanager
def loaded_once() -> Iterator[None]:
    """Load without building what changes would need: none will follow."""
    token = _once.set(True)
    try:
        yield
    finally:
        _once.reset(token)


def is_changed_later() -> bool:
    """Test whether a load should build what changes will need."""
    return not (_once.get() or _by_rounds.get())
