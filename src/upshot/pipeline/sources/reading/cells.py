"""Values of a source as values of a column, or the reason that they do not fit.

All functions return Spark expressions. Values come as text (a field of a CSV file, the name of a partition) or with a
type of their own (a column of a table). A value that would lose digits does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core import schema as core
from upshot.core.field_text import Unreadable, reader_of
from upshot.core.json_values import finer_than_stored
from upshot.core.types import TEXTUAL, TIMESTAMP, Kind, Type
from upshot.engine.spark.frames.functor_udfs import arrow_function
from upshot.spark.types import arrow_values, declared_type, spark_type

_LONGEST_SHOWN = 60
_INTEGER = r"^[+-]?[0-9]{1,80}$"
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"(?i)^[+-]?(inf|infinity|nan)$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


@dataclass(frozen=True, slots=True)
class Cell:
    """`value` has the Spark type of the column; `problem` is NULL where it can be stored."""

    value: Column
    problem: Column


def checked(cell: Cell, column: core.Column) -> Cell:
    """The cell with the tests for values of any origin."""
    tests = [cell.problem]
    if not column.type.nullable:
        tests.append(F.when(cell.value.isNull(), F.lit(f"NULL in column `{column.name}`, which is not nullable")))
    elif column.type.kind in _RESERVED:
        reserved = F.lit(_RESERVED[column.type.kind]).cast(spark_type(column.type))
        words = f"column `{column.name}`: this is the one value that a nullable {column.type.kind.value} cannot store"
        tests.append(F.when(cell.value == reserved, F.lit(words)))
    if column.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        outside = (F.year(cell.value) < 1) | (F.year(cell.value) > 9999)
        tests.append(F.when(outside, F.lit(f"column `{column.name}`: the year is not within 1 to 9999")))
    value = cell.value
    if column.type.kind is Kind.FLOAT:
        # Adding 0.0 turns -0.0 into 0.0 and leaves every other value alone.
        value = value + F.lit(0.0)
    return Cell(value, F.coalesce(*tests))


_RESERVED = {Kind.NUMBER: str(-(2**63)), Kind.UNSIGNED: str(2**64 - 1)}


# ---- text ---------------------------------------------------------------------------------------


def text_cell(text: Column, column: core.Column) -> Cell:
    """A field of a text file. NULL is a field that is empty and not quoted; in a text column that is not nullable, it
    is the empty text."""
    type = column.type
    if type.kind in TEXTUAL:
        return Cell(text if type.nullable else F.coalesce(text, F.lit("")), F.lit(None).cast("string"))
    read = _read_text(text, type)
    return Cell(read, F.when(text.isNotNull() & read.isNull(), _is_not(text, column)))


def _read_text(text: Column, type: Type) -> Column:
    """The value written as in fact files; NULL for a text that is none."""
    text = F.trim(text)
    target = spark_type(type)
    match type.kind:
        case Kind.NUMBER:
            return F.when(text.rlike(_INTEGER), text.try_cast(target))
        case Kind.UNSIGNED:
            return _unsigned(F.when(text.rlike(_INTEGER), text.try_cast(target)))
        case Kind.FLOAT:
            return F.when(text.rlike(_FLOAT), _finite(text.try_cast(target))).when(
                text.rlike(_NOT_FINITE), text.try_cast(target)
            )
        case Kind.BOOLEAN:
            return F.when(text.isin("true", "1"), F.lit(True)).when(text.isin("false", "0"), F.lit(False))
        case Kind.DATE:
            return F.when(text.rlike(_DATE), text.try_cast(target))
        case Kind.TIMESTAMP:
            return arrow_function(_moments, target)(text)
        case Kind.DECIMAL:
            fraction = F.rtrim(F.substring_index(text, ".", -1), F.lit("0"))
            kept = ~text.contains(".") | (F.length(fraction) <= type.scale)
            return F.when(text.rlike(_DECIMAL) & kept, text.try_cast(declared_type(type)).cast(target))
        case Kind.SYMBOL | Kind.RECORD:
            return text


def _moments(texts: pa.Array) -> pa.Array:
    """Timestamps in all spellings of fact files, of which Spark reads only some."""
    return arrow_values([None if text is None else _moment(text) for text in texts.to_pylist()], TIMESTAMP)


def _moment(text: str) -> Any:
    try:
        return None if finer_than_stored(text) else reader_of(TIMESTAMP)(text)
    except Unreadable:
        return None


def _finite(value: Column) -> Column:
    return F.when(~value.isin(float("inf"), float("-inf")), value)


def _unsigned(value: Column) -> Column:
    return F.when((value >= 0) & (value <= F.lit(str(2**64 - 1)).cast("decimal(20,0)")), value)


# ---- columns with types of their own --------------------------------------------------------------


def typed_cell(value: Column, given: spark.DataType, column: core.Column) -> Cell | None:
    """A column of a table, or None if no value of its type fits the relation's column."""
    read = _read_typed(value, given, column.type)
    if read is None:
        return None
    return Cell(read, F.when(value.isNotNull() & read.isNull(), _is_not(value.cast("string"), column)))


def _read_typed(value: Column, given: spark.DataType, type: Type) -> Column | None:
    target = spark_type(type)
    whole = isinstance(given, spark.ByteType | spark.ShortType | spark.IntegerType | spark.LongType)
    floating = isinstance(given, spark.FloatType | spark.DoubleType)
    decimal = isinstance(given, spark.DecimalType)
    if isinstance(given, spark.NullType):
        return value.cast(target)
    match type.kind:
        case Kind.NUMBER | Kind.UNSIGNED if whole or floating or decimal:
            # By way of a decimal: a cast to a whole number would turn too large values into the largest one.
            exact = value if whole else value.try_cast("decimal(38,0)")
            fitted = exact.try_cast(target)
            if not whole:
                fitted = F.when(exact.cast(given) == value, fitted)
            return _unsigned(fitted) if type.kind is Kind.UNSIGNED else fitted
        case Kind.FLOAT if floating:
            return value.cast(target)
        case Kind.FLOAT if whole:
            return F.when(value.cast(target).try_cast("decimal(38,0)") == value, value.cast(target))
        case Kind.SYMBOL | Kind.RECORD if isinstance(given, spark.StringType | spark.CharType | spark.VarcharType):
            return value.cast(target)
        case Kind.BOOLEAN if isinstance(given, spark.BooleanType):
            return value
        case Kind.DATE if isinstance(given, spark.DateType):
            return value
        case Kind.DATE if isinstance(given, spark.TimestampType | spark.TimestampNTZType):
            return F.when(value.cast(target).cast(given) == value, value.cast(target))
        case Kind.TIMESTAMP if isinstance(given, spark.TimestampType | spark.TimestampNTZType):
            return value.cast(target)
        case Kind.DECIMAL if decimal or whole:
            fitted = value.try_cast(declared_type(type))
            return F.when(fitted == value, fitted.cast(target))
        case _:
            return None


# ---- words --------------------------------------------------------------------------------------


def _is_not(shown: Column, column: core.Column) -> Column:
    """`column `x`: "abc" is not a number`."""
    name = str(column.type.required())
    article = "an" if name[0] in "aeio" else "a"
    short = F.when(F.length(shown) > _LONGEST_SHOWN, F.concat(F.substring(shown, 1, _LONGEST_SHOWN - 1), F.lit("…")))
    return F.concat(
        F.lit(f"column `{column.name}`: "),
        F.coalesce(short, shown),
        F.lit(f" is not {article} {name}"),
        F.lit(_RANGES.get(column.type.kind, "")),
    )


_RANGES = {
    Kind.NUMBER: ", a 64-bit integer",
    Kind.UNSIGNED: ", an integer from 0 to 2^64-1",
    Kind.FLOAT: " within its range",
    Kind.DATE: " such as 2026-01-31",
    Kind.TIMESTAMP: " such as 2026-01-31T10:00:00Z, to the microsecond",
    Kind.DECIMAL: " that keeps every digit",
}
