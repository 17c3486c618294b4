"""What the store knows of the pipeline: the batch and the positions that each of its commits carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upshot.database.changes import ChangeSet
from upshot.database.database import Database
from upshot.pipeline.positions import Positions, offset_of, positions_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """The last batch that was committed, and how far every source was read with it."""

    batch: int
    positions: Positions

    def as_meta(self, pipeline: str) -> dict[str, Any]:
        """What goes into the commit, in the same record as its changes."""
        return {"pipeline": pipeline, "batch": self.batch, "positions": offset_of(self.positions)}


def recorded(database: Database) -> Recorded | None:
    """The newest batch in the store; None before the first."""
    return recorded_in(database.last_meta())


def recorded_in(meta: Mapping[str, Any] | None) -> Recorded | None:
    """The batch of a commit, by what the commit carries."""
    if meta is None or "batch" not in meta:
        return None
    return Recorded(int(meta["batch"]), positions_of(meta["positions"]))


def history(database: Database, since: int) -> Iterator[tuple[int, ChangeSet]]:
    """Every commit after version `since`, oldest first, with its changes."""
    for commit in database.history(since):
        yield commit.version, commit.changes
