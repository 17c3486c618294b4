"""What the planner knows of the data when it orders a join."""

from __future__ import annotations

from typing import Protocol


class Statistics(Protocol):
    """Sizes as they are now; estimates where nothing was measured."""

    def size(self, relation: str) -> int:
        """The number of rows."""

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        """The number of distinct values in these columns, if known."""


def fan_out(statistics: Statistics, relation: str, arity: int, columns: tuple[int, ...]) -> float:
    """The rows expected to match one key on these columns.

    Without a measured key count each bound column is taken to be equally selective.
    """
    size = statistics.size(relation)
    if not columns:
        return float(size)
    if len(columns) >= arity:
        return min(1.0, float(size))
    known = statistics.keys(relation, columns)
    if known is not None:
        return size / max(known, 1)
    return float(max(size, 1) ** (1 - len(columns) / arity))
