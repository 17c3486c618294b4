"""Jobs over a few rows that are all in the driver: one task, no broadcast, no shuffle.

Every broadcast frame is a separate job, and every shuffle a stage: for a few rows these dominate the cost of a job. The
choice is made when a frame is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from upshot.engine.spark.storage.table import FrameTable

FEW = 10_000
"""The most rows of all relations together for one task."""

MOST_HASHED = 12
"""The most joins of one job that build a table in its task. Each takes a page of Spark's memory, of which a task on
one core has about 25, and keeps it until the task ends; rows of further joins are broadcast instead."""


@dataclass(slots=True)
class _SingleTask:
    """The one task of a job that is being made."""

    hashed: int = 0


_task: ContextVar[_SingleTask | None] = ContextVar("task", default=None)


@contextmanager
def one_task(tables: Iterable[FrameTable], others: int = 0) -> Iterator[None]:
    """Inside, frames that are made are those of one task, if the tables and `others` have few rows, all of them in the
    driver; until a frame of rows in files is made."""
    tables = list(tables)
    here = all(table.committed.is_local for table in tables)
    few = here and sum(table.size for table in tables) + others <= FEW
    before = _task.set(_SingleTask() if few else None)
    try:
        yield
    finally:
        _task.reset(before)


def reads_files() -> None:
    """A frame of rows in files is made: what it is joined with is for many tasks."""
    _task.set(None)


def next_job() -> None:
    """The frames that are made from now on are for another job."""
    task = _task.get()
    if task is not None:
        task.hashed = 0


def is_alone() -> bool:
    """Test whether the frames made now are those of one task."""
    return _task.get() is not None


def in_one_part(frame: DataFrame) -> DataFrame:
    """The frame in one partition, where all is one task: so it is neither shuffled to be joined nor to be grouped."""
    return frame.coalesce(1) if is_alone() else frame


def beside(frame: DataFrame) -> DataFrame:
    """One side of a join, the other being in one part: looked up in the same task, where all is one task."""
    task = _task.get()
    if task is None:
        return frame
    task.hashed += 1
    return frame.coalesce(1).hint("shuffle_hash") if task.hashed <= MOST_HASHED else F.broadcast(frame)


def sent(frame: DataFrame) -> DataFrame:
    """One side of a join, the other being in one part: whole in every task."""
    return beside(frame) if is_alone() else F.broadcast(frame)
