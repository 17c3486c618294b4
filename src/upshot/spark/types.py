"""Our types as Spark's and Arrow's, and rows between them: exact in both directions. Importing this imports pyspark.

A relation's frame has columns c0 … cn. A relation without columns has one, c0, boolean and always true. Unsigned
numbers are decimal(20,0) on Spark, which has no type of that range; there is one zero and one NaN among the floats.
Decimals have 18 digits, or 38, independently of their column, as in the other engines: a sum of decimal(4,2) may well
need six.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core.arrow_schema import arrow_cast, arrow_table, arrow_type
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.core.types import BOOLEAN, MOST_DIGITS, Kind, Type, most_digits

UNSIGNED_DIGITS = 20
DECIMAL_DIGITS = MOST_DIGITS
_EPOCH_DAY = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def column_names(arity: int) -> list[str]:
    """The names of the columns of a relation's frame.

    >>> column_names(2), column_names(0)
    (['c0', 'c1'], ['c0'])
    """
    return [f"c{i}" for i in range(max(arity, 1))]


def framed(types: Sequence[Type]) -> tuple[Type, ...]:
    """The types of the frame's columns: those of the relation, or the placeholder's if it has no columns."""
    return tuple(types) or (BOOLEAN,)


def spark_type(type: Type) -> spark.DataType:
    match type.kind:
        case Kind.NUMBER:
            return spark.LongType()
        case Kind.UNSIGNED:
            return spark.DecimalType(UNSIGNED_DIGITS, 0)
        case Kind.FLOAT:
            return spark.DoubleType()
        case Kind.SYMBOL | Kind.RECORD:
            return spark.StringType()
        case Kind.BOOLEAN:
            return spark.BooleanType()
        case Kind.DATE:
            return spark.DateType()
        case Kind.TIMESTAMP:
            return spark.TimestampType()
        case Kind.DECIMAL:
            return spark.DecimalType(most_digits(type.scale), type.scale)


def sql_type(type: Type) -> str:
    """The Spark type as SQL names it, independently of the session's default type of `timestamp`.

    >>> from upshot.core.types import NUMBER, TIMESTAMP
    >>> sql_type(NUMBER), sql_type(TIMESTAMP)
    ('bigint', 'timestamp_ltz')
    """
    return "timestamp_ltz" if type.kind is Kind.TIMESTAMP else spark_type(type).simpleString()


def declared_type(type: Type) -> spark.DataType:
    """The Spark type for input values of a column: a decimal with the digits that it declares."""
    if type.kind is Kind.DECIMAL:
        return spark.DecimalType(max(type.precision, 1), type.scale)
    return spark_type(type)


def spark_schema(types: Sequence[Type], names: Sequence[str] | None = None) -> spark.StructType:
    """The schema of a frame; columns are called c0 … cn unless `names` says otherwise."""
    kinds = framed(types)
    named = zip(names or column_names(len(types)), kinds, strict=True)
    return spark.StructType([spark.StructField(name, spark_type(type), type.nullable) for name, type in named])


def arrow_type_for_spark(type: Type) -> pa.DataType:
    """The Arrow type of a column as Spark takes and gives it."""
    match type.kind:
        case Kind.UNSIGNED:
            return pa.decimal128(UNSIGNED_DIGITS, 0)
        case Kind.DECIMAL:
            return pa.decimal128(most_digits(type.scale), type.scale)
        case _:
            return arrow_type(type)


def arrow_schema_for_spark(types: Sequence[Type]) -> pa.Schema:
    """The Arrow schema of a relation's frame."""
    named = zip(column_names(len(types)), framed(types), strict=True)
    return pa.schema([pa.field(name, arrow_type_for_spark(type), nullable=type.nullable) for name, type in named])


def arrow_for_spark(table: pa.Table, schema: Schema) -> pa.Table:
    """A table of natural types (`core.arrow_schema`), as it goes into a frame; columns are taken by position."""
    target = arrow_schema_for_spark(schema.types)
    if schema.arity == 0:
        return pa.table([pa.array([True] * table.num_rows, pa.bool_())], schema=target)
    columns = [
        _canonical(column, type).cast(field.type)
        for column, type, field in zip(table.columns, schema.types, target, strict=True)
    ]
    return pa.table(columns, schema=target)


def table_from_spark(table: pa.Table, schema: Schema) -> pa.Table:
    """The result of `DataFrame.toArrow()` in natural types and under the schema's names; columns are taken by
    position."""
    if schema.arity == 0:
        # A table without columns keeps its number of rows only if it had columns before.
        return table.select([])
    columns = zip(table.columns, schema.types, strict=True)
    return arrow_table(schema, [arrow_cast(column, type) for column, type in columns])


def rows_for_spark(rows: Iterable[Row], types: Sequence[Type]) -> pa.Table:
    """Rows of Python values that fit their types, as they go into a frame."""
    listed = list(rows)
    target = arrow_schema_for_spark(types)
    if not types:
        return pa.table([pa.array([True] * len(listed), pa.bool_())], schema=target)
    columns = zip(*listed, strict=True) if listed else [()] * len(types)
    return pa.table([arrow_values(values, t) for values, t in zip(columns, types, strict=True)], schema=target)


def rows_from_spark(table: pa.Table, types: Sequence[Type]) -> list[Row]:
    """The result of `DataFrame.toArrow()` as rows of Python values."""
    if not types:
        return [()] * table.num_rows
    columns = [python_values(column, type) for column, type in zip(table.columns, types, strict=True)]
    return list(zip(*columns, strict=True))


def python_values(values: pa.Array | pa.ChunkedArray, type: Type) -> list[Any]:
    """A column of a frame as the Python values of `core.types`."""
    items: list[Any] = values.to_pylist()
    convert = _PYTHON.get(type.kind)
    return items if convert is None else [None if v is None else convert(v) for v in items]


_PYTHON: dict[Kind, Callable[[Any], Any]] = {
    Kind.UNSIGNED: int,
    Kind.TIMESTAMP: lambda value: value.astimezone(dt.UTC),
}


def arrow_values(values: Iterable[Any], type: Type) -> pa.Array:
    """Python values of a type as a column for a frame."""
    target = arrow_type_for_spark(type)
    match type.kind:
        case Kind.UNSIGNED:
            return pa.array(list(values), pa.uint64()).cast(target)
        case Kind.FLOAT:
            return pa.array([None if v is None else canonical_float(v) for v in values], target)
        case _:
            return pa.array(list(values), target)


def canonical_float(value: float) -> float:
    """The one representative of equal floats."""
    return math.nan if value != value else value + 0.0


def _canonical(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    if type.kind is not Kind.FLOAT:
        return column
    # Adding 0.0 turns -0.0 into 0.0 and leaves every other value alone.
    return pc.if_else(pc.is_nan(column), math.nan, pc.add(column, 0.0))


def literal(value: Any, type: Type) -> Column:
    """A constant of the type as a column."""
    target = spark_type(type)
    if value is None:
        return F.lit(None).cast(target)
    match type.kind:
        case Kind.FLOAT:
            return F.lit(canonical_float(float(value)))
        case Kind.NUMBER:
            return F.lit(int(value)).cast(target)
        case Kind.UNSIGNED | Kind.DECIMAL:
            return F.lit(format(Decimal(value), "f")).cast(target)
        # Dates and times go as whole numbers: Python's own conversions pass through the local time zone.
        case Kind.DATE:
            return F.date_from_unix_date(F.lit((value - _EPOCH_DAY).days))
        case Kind.TIMESTAMP:
            return F.timestamp_micros(F.lit((value - _EPOCH) // _MICROSECOND))
        case _:
            return F.lit(value)
