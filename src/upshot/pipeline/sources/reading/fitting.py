"""Rows of a source as rows of a relation; those that do not fit keep their text and get a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from upshot.core.schema import Schema
from upshot.pipeline.sources.reading.cells import Cell
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REASON = "_reason"
ROW = "_row"
PLACE = "_place"


def fitted(rows: DataFrame, schema: Schema, cells: Sequence[Cell], kept: Sequence[str], problem: Column) -> DataFrame:
    """The rows with columns c0 … cn, `_reason` (NULL where the row fits) and those of `kept`. The cells are `checked`;
    where `problem`, which is about the row as a whole, is not NULL, it alone is the reason."""
    found = F.array_join(F.array(*[cell.problem for cell in cells]), "; ") if cells else F.lit("")
    values = [cell.value.alias(name) for cell, name in zip(cells, column_names(schema.arity), strict=False)]
    values = values or [F.lit(True).alias("c0")]
    return rows.select(*kept, *values, F.coalesce(problem, F.nullif(found, F.lit(""))).alias(REASON))


def named(rows: DataFrame, schema: Schema) -> DataFrame:
    """The relation's columns under their own names; a relation without columns keeps `c0`."""
    names = column_names(schema.arity)
    own = [column.name for column in schema.columns] or names
    return rows.select(*[F.col(name).alias(as_) for name, as_ in zip(names, own, strict=True)])


def good_rows(fitting: DataFrame, schema: Schema) -> DataFrame:
    return named(fitting.where(F.col(REASON).isNull()), schema)


def bad_rows(fitting: DataFrame) -> DataFrame:
    """`row`, `reason`, `place` of what does not fit; the frame has `_row` and `_place` beside its values."""
    return fitting.where(F.col(REASON).isNotNull()).select(
        F.col(ROW).alias("row"), F.col(REASON).alias("reason"), F.col(PLACE).alias("place")
    )
