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


Data = Rows | Changes
"""The rows of a view, or the changes of a version, which a change log stores with `_change` and `_version`."""


def row_count(data: Data) -> int:
    return len(data) if isinstance(data, Rows) else len(data.inserted) + len(data.deleted)


def table_of(data: Data, version: int = 0) -> pa.Table:
    """The rows in the types of a lake; of changes the deleted rows, then the inserted ones."""
    if isinstance(data, Rows):
        return data.to_arrow().cast(lake_schema(data.schema))
    target = log_schema(data.inserted.schema)
    return pa.concat_tables([_signed(rows, sign, version, target) for rows, sign in _parts(data)])


def _parts(changes: Changes) -> tuple[tuple[Rows, int], ...]:
    return (changes.deleted, -1), (changes.inserted, 1)


def _signed(rows: Rows, sign: int, version: int, target: pa.Schema) -> pa.Table:
    table = table_of(rows)
    marks = pa.repeat(pa.scalar(sign, pa.int32()), len(table)), pa.repeat(pa.scalar(version, pa.int64()), len(table))
    return pa.table([*table.columns, *marks], schema=target)


def _lake_type(type: Type) -> pa.DataType:
    return _UNSIGNED if type.kind is Kind.UNSIGNED else arrow_type(type)


# ---- the same on Spark --------------------------------------------------------------------------------


def stays_on_spark(data: Data) -> bool:
    """Test whether the rows are many and on Spark: then they are never collected."""
    if isinstance(data, Rows):
        return len(data) > FEW and data.is_on_spark
    return stays_on_spark(data.inserted) or stays_on_spark(data.deleted)


def frame_of(data: Data, session: Any, version: int = 0) -> Any:
    """As `table_of`, as a DataFrame of the session."""
    if not stays_on_spark(data):
        # Spark takes an empty chunk for the end of the table, and loses all rows behind it.
        return session.createDataFrame(table_of(data, version).combine_chunks())
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    from upshot.spark.types import declared_type  # noqa: PLC0415 - imports pyspark

    if isinstance(data, Rows):
        found = data.to_spark(session)
        # Decimals have more digits on Spark than their column declares.
        types = zip(data.columns, (declared_type(type) for type in data.schema.types), strict=True)
        return found.select(*(found[quoted(name)].cast(type).alias(name) for name, type in types))
    frames = []
    for rows, sign in _parts(data):
        marks = {CHANGE: F.lit(sign).cast("int"), VERSION: F.lit(version).cast("long")}
        frames.append(frame_of(rows, session).withColumns(marks))
    return frames[0].unionByName(frames[1])
