"""The pipeline's record in the store: the batch and the positions that each of its commits carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from upshot.core.errors import UsageError
from upshot.database.changes import ChangeSet
from upshot.database.database import Database
from upshot.pipeline.batch.positions import Positions, offset_of, positions_of
from upshot.pipeline.metrics import SourceMetrics


@dataclass(frozen=True, slots=True)
class Recorded:
    """The last committed batch, the position of every source after it, and the counts of rows of the sources that
    moved."""

    batch: int
    positions: Positions
    read: Mapping[str, SourceMetrics] = field(default_factory=dict)

    def as_meta(self, pipeline: str) -> dict[str, Any]:
        """The metadata of the commit, in the same record as its changes."""
        read = {name: asdict(counts) for name, counts in self.read.items()}
        return {"pipeline": pipeline, "batch": self.batch, "positions": offset_of(self.positions), "read": read}


def recorded(database: Database) -> Recorded | None:
    """The newest batch in the store; None before the first."""
    return recorded_in(database.last_meta())


def recorded_in(meta: Mapping[str, Any] | None) -> Recorded | None:
    """The batch of a commit, from its metadata."""
    if meta is None or "batch" not in meta:
        return None
    # Batches of older versions of Upshot have no counts.
    read = {name: SourceMetrics(**counts) for name, counts in meta.get("read", {}).items()}
    return Recorded(int(meta["batch"]), positions_of(meta["positions"]), read)


def changes_of_batch(database: Database, batch: int) -> ChangeSet | None:
    """The changes of the views by this batch, one of the last; None if its commit is no longer kept."""
    for since in range(database.version - 1, -1, -1):
        try:
            commit = next(database.history(since))
        except UsageError as error:
            if error.code != "history-not-kept":
                raise
            return None
        # Later commits are those of rules and of new programs.
        if commit.meta.get("batch") == batch:
            return commit.changes
    return None
