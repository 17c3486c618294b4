"""Work counters of what ran on workers, on their way to the driver among the files that a task lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields

from upshot.core.rows import Row
from upshot.engine.work import ViewWork

COUNTER = -2
"""In place of a set of rows: the name and the value of a work counter."""

RECEIVED = -3
"""In place of a set of rows: how many rows the part was given."""


def counters(work: ViewWork, without: Collection[str] = ()) -> list[tuple[int, str, int]]:
    """The counters as rows of the list, but for those that the driver counts itself."""
    values = [(each.name, getattr(work, each.name)) for each in fields(ViewWork)]
    return [
        (COUNTER, name, value) for name, value in values if isinstance(value, int) and value and name not in without
    ]


def add_counters(listed: Iterable[Row], work: ViewWork) -> None:
    """Add what workers counted."""
    for member, name, value in listed:
        if member == COUNTER:
            setattr(work, name, getattr(work, name) + value)


def received_by(listed: Iterable[Row]) -> int:
    """How many rows all parts were given."""
    return sum(count for member, _, count in listed if member == RECEIVED)
