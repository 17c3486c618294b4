"""The rows of a view at a version that has passed."""

from __future__ import annotations

from collections.abc import Callable

from upshot.client.events import Change, Snapshot
from upshot.client.relations import Row
from upshot.client.stream import ViewStream


def rows_at(
    version: int, stream: ViewStream, rows_now: Callable[[], tuple[int, frozenset[Row]]]
) -> frozenset[Row] | None:
    """The rows at `version`: those of now, with every change since then taken back. None if the service does not keep
    the changes that far. `stream` begins at `version` and tells every commit."""
    passed: list[Change] = []
    now: tuple[int, frozenset[Row]] | None = None
    try:
        for step in stream.steps():
            if isinstance(step, Snapshot):
                return None
            if isinstance(step, Change):
                passed.append(step)
            # Asked after the stream has begun, so that it reaches the version that is answered.
            now = now or rows_now()
            if step.version >= now[0]:
                break
    finally:
        stream.close()
    if now is None:
        return None
    rows = set(now[1])
    for change in reversed(passed):
        if change.version <= now[0]:
            rows -= change.inserted
            rows |= change.deleted
    return frozenset(rows)
