"""Spark DataFrames with the columns of a relation. pyspark is imported only for a DataFrame.

The meaning of a value never changes: incompatible types are refused here, values out of range by the engine. Only
`collected`, `counted` and `holds_null` start jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, UsageError
from upshot.core.schema import Column, Schema
from upshot.core.types import Kind, Type, is_decimal
from upshot.database.files.arrow_tables import arranged, unsupported_type, wrong_type
from upshot.spark.failures import translated
from upshot.spark.session import is_connect

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = ("ByteType", "ShortType", "IntegerType", "LongType")
_KINDS = {
    **dict.fromkeys(_WHOLE, Kind.NUMBER),
    "FloatType": Kind.FLOAT,
    "DoubleType": Kind.FLOAT,
    "StringType": Kind.SYMBOL,
    "VarcharType": Kind.SYMBOL,
    "CharType": Kind.SYMBOL,
    "NullType": Kind.SYMBOL,
    "BooleanType": Kind.BOOLEAN,
    "DateType": Kind.DATE,
    "TimestampType": Kind.TIMESTAMP,
    "TimestampNTZType": Kind.TIMESTAMP,
}


def refuse_other_session(frame: Any, session: Any) -> None:
    """Raise if engines of this session cannot read the frame's session."""
    own = frame.sparkSession
    if is_connect(own) != is_connect(session):
        kinds = ("Spark Connect", "a classic session")
        theirs, ours = kinds if is_connect(own) else kinds[::-1]
        problem = f"the DataFrame belongs to {theirs}, the database to {ours}"
    elif is_connect(session) and own.client.host != session.client.host:
        problem = "the DataFrame belongs to another Spark Connect server than the database"
    else:
        return
    hint = "read it with the session of the database, or pass `frame.toArrow()`"
    raise UsageError(problem, code="other-session", help=hint)


def aligned_frame(frame: Any, schema: Schema) -> Any:
    """The frame with the relation's columns, by name and in its order, each of a type with the same values."""
    columns = aligned_columns(frame, schema, frame.columns)
    return frame.select(*columns) if columns else frame


def aligned_columns(frame: Any, schema: Schema, names: Sequence[str]) -> list[Any]:
    """The columns of `aligned_frame`, from the frame's columns with these names."""
    types = dict(frame_columns(frame))
    return [
        _column(frame[quoted(name)], types[name], column, schema).alias(column.name)
        for name, column in zip(arranged(schema, list(names)), schema.columns, strict=True)
    ]


def _column(value: Any, spark: Any, column: Column, schema: Schema) -> Any:
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    from upshot.spark.types import spark_type  # noqa: PLC0415 - imports pyspark

    name = type(spark).__name__
    target = spark_type(column.type)
    if not _accepts(column.type.kind, name, spark):
        raise wrong_type(spark.simpleString(), column, schema, f"cast it to {target.simpleString()}")
    if name == "NullType":
        return value.cast(target)
    if name == "TimestampNTZType":
        # Without a zone it is UTC; a plain cast would take the zone of the session.
        return F.concat(value.cast("string"), F.lit("Z")).cast(target)
    return value


def _accepts(kind: Kind, name: str, spark: Any) -> bool:
    """Test whether a column of this kind can take the values of a Spark type that are in its range."""
    if name == "DecimalType":
        return kind is Kind.DECIMAL or (kind in (Kind.NUMBER, Kind.UNSIGNED) and spark.scale == 0)
    if name in _WHOLE:
        return kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.DECIMAL)
    return name == "NullType" or _KINDS.get(name) is kind


def frame_columns(frame: Any) -> list[tuple[str, Any]]:
    return [(field.name, field.dataType) for field in frame.schema.fields]


def spark_column_type(name: str, spark: Any, *, nullable: bool) -> Type:
    """The column type for a column of a frame, as `register` declares it."""
    kind = _KINDS.get(type(spark).__name__)
    if kind is not None:
        return Type(kind, nullable=nullable)
    if type(spark).__name__ == "DecimalType" and is_decimal(spark.precision, spark.scale):
        return Type(Kind.DECIMAL, nullable=nullable, precision=spark.precision, scale=spark.scale)
    raise unsupported_type(name, spark.simpleString())


def holds_null(frame: Any) -> frozenset[str]:
    """The columns with NULL in a row."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - an optional package

    possible = [field.name for field in frame.schema.fields if field.nullable]
    if not possible:
        return frozenset()
    counts = [F.count(F.when(frame[quoted(name)].isNull(), 1)) for name in possible]
    with spark_errors():
        found = frame.agg(*(count.alias(f"n{i}") for i, count in enumerate(counts))).collect()[0]
    return frozenset(name for i, name in enumerate(possible) if found[i])


def counted(frame: Any) -> int:
    with spark_errors():
        count: int = frame.count()
    return count


def collected(frame: Any, schema: Schema) -> pa.Table:
    """The rows of an aligned frame in this process."""
    import pyarrow as pa

    from upshot.core.arrow_schema import arrow_type  # imports pyarrow

    with spark_errors():
        table: pa.Table = frame.toArrow()
    for position, column in enumerate(schema.columns):
        values = table.column(position)
        if column.type.kind in (Kind.NUMBER, Kind.UNSIGNED) and pa.types.is_decimal(values.type):
            try:
                whole = values.cast(arrow_type(column.type))
            except pa.ArrowInvalid as error:
                words = f"a table for `{schema.name}`: column `{column.name}` does not fit `{column.type}`: {error}"
                raise DataError(words, code="number-out-of-range", help=f"`{schema}`") from None
            table = table.set_column(position, column.name, whole)
    return table


def has_delta(session: Any) -> bool:
    return "io.delta" in (session.conf.get("spark.sql.extensions", "") or "")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Translate exceptions of Spark inside the block."""
    try:
        yield
    except Exception as error:
        raise translated(error) from error


def quoted(name: str) -> str:
    """A column name as Spark reads it, also with dots."""
    return "`" + name.replace("`", "``") + "`"
