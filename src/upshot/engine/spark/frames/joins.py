"""Set operations between frames, and joins of a few rows in one task.

Every broadcast frame is a separate job, and every shuffle a stage. While all rows are few and in the driver, these
dominate the cost of a job: then a job is one task, without broadcast and shuffle. The choice is made when a frame is
created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.core.types import Type
from upshot.spark.types import framed

if TYPE_CHECKING:
    from upshot.engine.spark.storage.table import FrameTable

Range = tuple[int, int] | tuple[str, str]
"""The smallest and the largest value of a column."""

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
    """Inside, frames are made for one task, if the tables and `others` have few rows, all of them in the driver; until
    a frame of rows in files is made."""
    tables = list(tables)
    here = all(table.committed.is_local for table in tables)
    few = here and sum(table.size for table in tables) + others <= FEW
    before = _task.set(_SingleTask() if few else None)
    try:
        yield
    finally:
        _task.reset(before)


def reads_files() -> None:
    """Note that a frame of rows in files is made: it is joined by many tasks."""
    _task.set(None)


def next_job() -> None:
    """Note that the frames made from now on are for another job."""
    task = _task.get()
    if task is not None:
        task.hashed = 0


def is_alone() -> bool:
    """Test whether frames are made for one task."""
    return _task.get() is not None


def in_one_part(frame: DataFrame) -> DataFrame:
    """The frame in one partition, if frames are made for one task: so neither a join nor a grouping shuffles it."""
    return frame.coalesce(1) if is_alone() else frame


def beside(frame: DataFrame) -> DataFrame:
    """One side of a join whose other side is in one part: hashed in the same task, if frames are made for one."""
    task = _task.get()
    if task is None:
        return frame
    task.hashed += 1
    return frame.coalesce(1).hint("shuffle_hash") if task.hashed <= MOST_HASHED else F.broadcast(frame)


def sent(frame: DataFrame) -> DataFrame:
    """One side of a join whose other side is in one part: whole in every task."""
    return beside(frame) if is_alone() else F.broadcast(frame)


def between(frame: DataFrame, ranges: Mapping[int, Range]) -> DataFrame:
    """The rows whose columns are in the ranges. Spark skips the row groups of files whose statistics exclude them."""
    for column, (least, most) in ranges.items():
        frame = frame.filter(F.col(f"c{column}").between(least, most))
    return frame


# ---- set operations: NULL is NULL and NaN is NaN, as in sets -------------------------------------------------


def within(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None = None, *, small: bool
) -> DataFrame:
    """The rows whose columns (by default all) occur as a row of `keys`; `small`: the keys fit on every worker. `types`
    are those of the columns compared."""
    return _joined(frame, keys, types, columns, "left_semi", small)


def without(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None = None, *, small: bool
) -> DataFrame:
    """The rows whose columns do not occur in `keys`."""
    return _joined(frame, keys, types, columns, "left_anti", small)


def _joined(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None, how: str, small: bool
) -> DataFrame:
    kinds = framed(types)
    places = columns if columns else range(len(kinds))
    names = [f"k{number}" for number in range(len(kinds))]
    renamed = keys.toDF(*names)
    condition = all_equal(
        (f"c{place}", name, type.nullable) for place, name, type in zip(places, names, kinds, strict=True)
    )
    return in_one_part(frame).join(sent(renamed) if small else beside(renamed), condition, how)


def all_equal(pairs: Iterable[tuple[str, str, bool]]) -> Column:
    """Columns by name, each equal to another; NULL equals NULL only where the third item is true. As text: an equation
    made in Python is some calls to Java."""
    return F.expr(" AND ".join(f"{left} {'<=>' if null_safe else '='} {right}" for left, right, null_safe in pairs))
