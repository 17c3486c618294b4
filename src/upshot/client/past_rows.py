"""The rows of a view at a version that has passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upshot.client.events import Change, Snapshot
from upshot.client.relations import Row
from upshot.client.stream import ViewStream
from upshot.core.schema import Schema


@dataclass(frozen=True, slots=True)
class RowsAt:
    """All rows of a view at a version of an epoch."""

    version: int
    epoch: str
    schema: Schema
    rows: frozenset[Row]


def rows_at(version: int, stream: ViewStream, rows_now: Callable[[], RowsAt]) -> RowsAt | None:
    """The rows at `version`: the current rows, with every later change undone. None if the service does not keep the
    changes that far. `stream` begins at `version` and reports every commit."""
    passed: list[Change] = []
    now: RowsAt | None = None
    try:
        for step in stream.steps():
            if isinstance(step, Snapshot):
                return None
            if isinstance(step, Change):
                passed.append(step)
            # Fetched after the stream has begun, so that the stream reaches its version.
            now = now or rows_now()
            if step.version >= now.version:
                break
    finally:
        stream.close()
    if now is None:
        return None
    rows = set(now.rows)
    for change in reversed(passed):
        if change.version <= now.version:
            rows -= change.inserted
            rows |= change.deleted
    return replace(now, version=version, rows=frozenset(rows))
