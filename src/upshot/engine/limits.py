"""Bounds that end a computation with an error rather than never, and the switches of engines."""

from __future__ import annotations

from dataclasses import dataclass, field

from upshot.core.errors import LimitError
from upshot.engine.optimizations import Optimizations

MOST_ROUNDS = 2**63 - 1
"""Rounds that the kernel can count to."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_rounds`: the most rounds a recursive component may take, load or change. `memory`: the most bytes that the
    tables of the local engine may take, indexes and text included."""

    max_rounds: int = 1_000_000
    memory: int | None = None
    optimizations: Optimizations = field(default_factory=Optimizations)


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
