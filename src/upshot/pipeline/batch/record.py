"""The last batch: in the store, whose commits carry the batch and its positions, and in Spark's checkpoint."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from upshot.core.errors import DataError, UsageError
from upshot.database.changes import ChangeSet
from upshot.database.database import Database
from upshot.pipeline.batch.positions import Positions, offset_of, positions_of
from upshot.pipeline.metrics import SourceMetrics
from upshot.spark.lake_path import AnyPath


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


# ---- Spark's own log: the last planned batch, its positions, and the last finished batch -------------------------


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`planned` is the newest batch with a position, `finished` the newest that Spark called done; -1 for none."""

    planned: int
    finished: int
    positions: Positions

    @property
    def pending(self) -> bool:
        return self.planned > self.finished


def read_checkpoint(folder: Path) -> Checkpoint:
    """The state of Spark's log. If the folder is empty or missing, the pipeline never ran."""
    planned, finished = _newest(folder / "offsets"), _newest(folder / "commits")
    if planned < 0:
        return Checkpoint(-1, finished, {})
    # Version, metadata, then one line for each stream; we have one.
    lines = (folder / "offsets" / str(planned)).read_text(encoding="utf-8").splitlines()
    try:
        return Checkpoint(planned, finished, positions_of(json.loads(lines[-1])))
    except (IndexError, ValueError, AttributeError):
        raise DataError(
            f"`{folder / 'offsets' / str(planned)}` cannot be read",
            code="state-mismatch",
            help="restore the state from a backup, or start with an empty `state`",
        ) from None


def take_back(folder: Path, batch: int) -> None:
    """Forget a batch that was planned and not recorded: the next one may then have corrected rows."""
    for name in (str(batch), f".{batch}.crc"):
        with contextlib.suppress(FileNotFoundError):
            (folder / "offsets" / name).unlink()


def refuse_mismatch(checkpoint: Checkpoint, recorded: Recorded | None, state: AnyPath) -> None:
    """Raise unless the store is at the newest batch that Spark planned, or at the one before."""
    batch = -1 if recorded is None else recorded.batch
    if recorded is not None and checkpoint.planned < 0 and checkpoint.finished < 0:
        raise mismatch(f"the store has recorded batch {batch}, but Spark's checkpoint is missing", state)
    if recorded is None and (checkpoint.planned > 0 or checkpoint.finished >= 0):
        raise mismatch(f"Spark's checkpoint is at batch {checkpoint.planned}, but the store is empty", state)
    if batch not in (checkpoint.planned, checkpoint.planned - 1) or batch < checkpoint.finished:
        raise mismatch(f"the store has recorded batch {batch}, Spark's checkpoint is at {checkpoint.planned}", state)
    if recorded is not None and batch == checkpoint.planned and recorded.positions != checkpoint.positions:
        raise mismatch(f"store and checkpoint have different offsets for batch {batch}", state)


def mismatch(what: str, state: AnyPath) -> DataError:
    return DataError(
        f"the state `{state}` is inconsistent: {what}",
        code="state-mismatch",
        help="restore the whole directory from a backup, or remove it and the sinks to start over",
    )


def _newest(folder: Path) -> int:
    numbers = [int(entry.name) for entry in folder.glob("*") if entry.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1)
