"""Convert tables of other libraries to Arrow tables with exactly the columns of a relation.

pandas, Polars and every library with Arrow's stream protocol are accepted; a cast that could lose values is refused
with an error that names the column and the remedy.
"""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import DataError
from upshot.core.types import Kind, Type, is_decimal

if TYPE_CHECKING:
    import pyarrow as pa

    from upshot.core.schema import Column, Schema


def is_table(value: object) -> bool:
    """Test whether a value is a table with named columns rather than a sequence of rows."""
    return _is_pandas(value) or hasattr(value, "__arrow_c_stream__") or _is_lazy_polars(value)


def is_spark_frame(value: object) -> bool:
    """Test for a DataFrame of a Spark session, classic or Connect."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def is_path(value: object) -> bool:
    """Test whether the value names files instead of rows: a path, the URI of a lake, or the text of a path that exists
    or has a known ending."""
    if isinstance(value, os.PathLike):
        return True
    if not isinstance(value, str) or "\0" in value or "\n" in value:
        return False
    return "://" in value or value.endswith((".parquet", ".pq", ".csv")) or os.path.exists(value)


def as_arrow(value: Any, schema: Schema | None = None) -> pa.Table:
    """Any table as an Arrow table; `schema` distinguishes NULL and NaN in pandas columns."""
    import pyarrow as pa

    if _is_lazy_polars(value):
        value = value.collect()
    if isinstance(value, pa.RecordBatchReader):
        return value.read_all()
    if _is_pandas(value):
        return _from_pandas(value, schema)
    return value if isinstance(value, pa.Table) else pa.table(value)


def tuples_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def aligned(table: pa.Table, schema: Schema) -> pa.Table:
    """The table with the relation's columns, in its order and of its types.

    Columns are matched by name; numbered columns (0, 1, …) by position.
    """
    import pyarrow as pa

    from upshot.core.arrow_schema import arrow_schema  # imports pyarrow

    names = arranged(schema, list(table.column_names))
    if not names:
        return table
    arrays = [_cast(table.column(name), column, schema) for name, column in zip(names, schema.columns, strict=True)]
    return pa.table(arrays, schema=arrow_schema(schema))


def arranged(schema: Schema, columns: list[str]) -> list[str]:
    """The columns in the order of the relation's; numbered ones, as in pandas (0, 1, …) and Spark (_1, _2, …), keep
    their order."""
    names = [column.name for column in schema.columns]
    if columns in ([str(i) for i in range(len(names))], [f"_{i + 1}" for i in range(len(names))]):
        return columns
    if sorted(columns) != sorted(names):
        if len(columns) == len(names) == len(set(columns)):
            raise _other_names(schema, columns)
        raise column_mismatch(schema, columns, where="the table")
    return names


def column_type(field: pa.Field, *, nullable: bool) -> Type:
    """The column type for an Arrow field, as `register` declares it."""
    import pyarrow.types as at

    arrow = field.type.value_type if at.is_dictionary(field.type) else field.type
    kind: Kind | None = None
    if at.is_unsigned_integer(arrow) and arrow.bit_width == 64:
        kind = Kind.UNSIGNED
    elif at.is_integer(arrow):
        kind = Kind.NUMBER
    elif at.is_floating(arrow):
        kind = Kind.FLOAT
    elif _is_text(arrow) or at.is_null(arrow):
        kind = Kind.SYMBOL
    elif at.is_boolean(arrow):
        kind = Kind.BOOLEAN
    elif at.is_date(arrow):
        kind = Kind.DATE
    elif at.is_timestamp(arrow):
        kind = Kind.TIMESTAMP
    elif at.is_decimal(arrow) and is_decimal(arrow.precision, arrow.scale):
        return Type(Kind.DECIMAL, nullable=nullable, precision=arrow.precision, scale=arrow.scale)
    if kind is None:
        raise unsupported_type(field.name, str(arrow))
    return Type(kind, nullable=nullable)


def unsupported_type(column: str, found: str) -> DataError:
    """The error for a column type without an equivalent."""
    return DataError(
        f"column `{column}` has type {found}, which no column type can store",
        code="unsupported-type",
        help="cast it to an integer, float, string, boolean, date, timestamp or decimal of at most 18 digits",
    )


def column_mismatch(schema: Schema, columns: list[str], *, where: str) -> DataError:
    """The error for wrong columns: unknown and missing ones, and a suggestion."""
    names = [column.name for column in schema.columns]
    unknown = [name for name in columns if name not in names]
    missing = [name for name in names if name not in columns]
    if unknown:
        rest = [name for name in names if name not in columns]
        hint = did_you_mean(unknown[0], rest) or f"the columns are {_listed(names)}"
        if not missing:
            hint = f"omit {_listed(unknown)}; the columns are {_listed(names)}"
        message = f"`{schema.name}` has no column {_listed(unknown)}, given in {where}"
        return DataError(message, code="unknown-column", help=hint)
    if not missing:
        message = f"{where} gives a column of `{schema.name}` more than once"
        return DataError(message, code="unknown-column", help=f"the columns are {_listed(names)}")
    message = f"column {_listed(missing)} of `{schema.name}` is missing in {where}"
    return DataError(message, code="missing-column", help=f"give every column: {_listed(names)}")


def _other_names(schema: Schema, columns: list[str]) -> DataError:
    """The error for a table with as many columns as the relation, under other names."""
    names = [column.name for column in schema.columns]
    missing = [name for name in names if name not in columns]
    renamed = {name: _closest(name, missing) for name in columns if name not in names}
    differ = ", ".join(f"`{name}`" for name in renamed)
    wanted = ", ".join(f"`{name}`" for name in names if name not in columns)
    message = f"the table for `{schema.name}` has {differ} where the relation has {wanted}"
    return DataError(message, code="unknown-column", help=how_to_rename([renamed.get(name, name) for name in columns]))


def _closest(name: str, candidates: list[str]) -> str:
    """Remove and return the candidate most like this name, or the first."""
    near = difflib.get_close_matches(name.lower(), candidates, n=1)
    return candidates.pop(candidates.index(near[0]) if near else 0)


def how_to_rename(names: list[str]) -> str:
    """Help with the calls that rename the columns of a table."""
    listed = "[" + ", ".join(f'"{name}"' for name in names) + "]"
    spark = listed[1:-1]
    return (
        f"rename the columns: `table.rename_columns({listed})` for Arrow, `frame.columns = {listed}` for pandas and "
        f"Polars, `frame.toDF({spark})` for Spark"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# ---- casts ------------------------------------------------------------------------------------


def _cast(array: pa.ChunkedArray, column: Column, schema: Schema) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.types as at

    from upshot.core.arrow_schema import arrow_type  # imports pyarrow

    if at.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    target = arrow_type(column.type)
    if array.type == target:
        return array
    if not (at.is_null(array.type) or _castable(array.type, column.type.kind)):
        raise wrong_type(array.type, column, schema, f"give a column of type {target}")
    try:
        if at.is_timestamp(array.type) and array.type.tz is None:
            array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise wrong_type(array.type, column, schema, str(error).splitlines()[0][:200]) from None


def _castable(arrow: pa.DataType, kind: Kind) -> bool:
    """Test whether the cast changes the width only, never the meaning of a value; the cast itself refuses values out of
    range."""
    import pyarrow.types as at

    match kind:
        case Kind.NUMBER | Kind.UNSIGNED:
            return bool(at.is_integer(arrow) or at.is_floating(arrow))
        case Kind.FLOAT:
            return bool(at.is_integer(arrow) or at.is_floating(arrow))
        case Kind.SYMBOL | Kind.RECORD:
            return _is_text(arrow)
        case Kind.BOOLEAN:
            return bool(at.is_boolean(arrow))
        case Kind.DATE:
            return bool(at.is_date(arrow) or at.is_timestamp(arrow))
        case Kind.TIMESTAMP:
            return bool(at.is_timestamp(arrow))
        case Kind.DECIMAL:
            return bool(at.is_decimal(arrow) or at.is_integer(arrow))


def wrong_type(found: object, column: Column, schema: Schema, hint: str) -> DataError:
    """The error for a column whose type, or a value in it, does not fit the relation."""
    message = (
        f"column `{column.name}` of `{schema.name}` is {column.type}; the table's column of type {found} does not fit"
    )
    return DataError(message, code="wrong-type", help=hint)


def _is_text(arrow: pa.DataType) -> bool:
    import pyarrow.types as at

    return bool(at.is_string(arrow) or at.is_large_string(arrow) or at.is_string_view(arrow))


# ---- pandas and Polars, without importing them ----------------------------------------------------


def _is_pandas(value: object) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def _is_lazy_polars(value: object) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "LazyFrame"


def _from_pandas(frame: Any, schema: Schema | None) -> pa.Table:
    """In pandas NaN also means "missing": it becomes NULL except in a float column that is not nullable."""
    import pyarrow as pa

    required_floats = {
        column.name
        for column in (schema.columns if schema else ())
        if column.type.kind is Kind.FLOAT and not column.type.nullable
    }
    arrays, names = [], [str(name) for name in frame.columns]
    for position, name in enumerate(names):
        try:
            series = frame.iloc[:, position]
            array = pa.array(series, from_pandas=name not in required_floats)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"column `{name}` of the pandas table mixes types: {str(error).splitlines()[0]}",
                code="wrong-type",
                help="give every value of a column the same type",
            ) from None
        arrays.append(array)
    return pa.table(arrays, names=names)
