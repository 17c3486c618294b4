"""Rows for sinks: as Arrow tables in the driver while they are few, else as DataFrames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from upshot.core.arrow_schema import arrow_type
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.database.changes import Changes
from upshot.database.files.spark_frames import quoted
from upshot.pipeline.sinks.sink import CHANGE, VERSION

FEW = 100_000
"""Rows that pass through the driver; more leave as a DataFrame, without being collected."""

_UNSIGNED = pa.decimal128(20, 0)


def lake_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a view in a lake: no table format has unsigned 64-bit numbers, and all columns take NULL, so
    that a column may become nullable without another table."""
    return pa.schema([pa.field(column.name, _lake_type(column.type)) for column in schema.columns])


def log_schema(schema: Schema) -> pa.Schema:
    return pa.schema([*lake_schema(schema), pa.field(CHANGE, pa.int32()), pa.field(VERSION, pa.int64())])


def table_of(rows: Rows) -> pa.Table:
    """The rows in the types of a lake."""
    return rows.to_arrow().cast(lake_schema(rows.schema))


def log_table(changes: Changes, version: int) -> pa.Table:
    """The deleted rows, then the inserted rows, with `_change` and `_version`."""
    parts = [(changes.deleted, -1), (changes.inserted, 1)]
    target = log_schema(changes.inserted.schema)
    return pa.concat_tables([_signed(rows, sign, version, target) for rows, sign in parts])


def _signed(rows: Rows, sign: int, version: int, target: pa.Schema) -> pa.Table:
    table = table_of(rows)
    marks = pa.repeat(pa.scalar(sign, pa.int32()), len(table)), pa.repeat(pa.scalar(version, pa.int64()), len(table))
    return pa.table([*table.columns, *marks], schema=target)


def _lake_type(type: Type) -> pa.DataType:
    return _UNSIGNED if type.kind is Kind.UNSIGNED else arrow_type(type)


# ---- the same on Spark --------------------------------------------------------------------------------


def stays_on_spark(rows: Rows) -> bool:
    """Test whether the rows are many and on Spark: then they are never collected."""
    return len(rows) > FEW and rows.is_on_spark


def frame_of(rows: Rows, session: Any) -> Any:
    """The rows as a DataFrame of the session, in the types of a lake."""
    if not stays_on_spark(rows):
        return _small_frame(table_of(rows), session)
    from upshot.spark.types import declared_type  # noqa: PLC0415 - imports pyspark

    found = rows.to_spark(session)
    # Decimals have more digits on Spark than their column declares.
    types = zip(rows.columns, (declared_type(type) for type in rows.schema.types), strict=True)
    return found.select(*(found[quoted(name)].cast(type).alias(name) for name, type in types))


def log_frame(changes: Changes, session: Any, version: int) -> Any:
    """As `log_table`."""
    if not (stays_on_spark(changes.inserted) or stays_on_spark(changes.deleted)):
        return _small_frame(log_table(changes, version), session)
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    frames = []
    for rows, sign in ((changes.deleted, -1), (changes.inserted, 1)):
        marks = {CHANGE: F.lit(sign).cast("int"), VERSION: F.lit(version).cast("long")}
        frames.append(frame_of(rows, session).withColumns(marks))
    return frames[0].unionByName(frames[1])


def _small_frame(table: pa.Table, session: Any) -> Any:
    # Spark takes an empty chunk for the end of the table, and loses what comes after it.
    return session.createDataFrame(table.combine_chunks())
