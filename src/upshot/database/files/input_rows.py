"""Convert users' rows to the forms that an engine takes: tuples in column order, an Arrow table or, with a Spark
session, a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError, counted
from upshot.core.rows import Rows
from upshot.database import files
from upshot.database.files.arrow_tables import (
    aligned,
    as_arrow,
    column_mismatch,
    is_path,
    is_spark_frame,
    is_table,
)

if TYPE_CHECKING:
    from upshot.core.schema import Schema
    from upshot.database.engines import Engine

Row = tuple[Any, ...]


def input_rows(schema: Schema, rows: Any, engine: Engine | None = None) -> Any:
    """Tuples, lists, dicts, any table or files of one, any iterator of rows: as tuples of the relation's arity, or an
    aligned table. `engine` is the destination: a DataFrame is not collected for one with a Spark session.

    Values are not checked here; the engine compares them with the column types.
    """
    if isinstance(rows, list):
        return list(_tuples(schema, rows))
    if isinstance(rows, Rows):
        return list(rows)
    if is_path(rows):
        rows = files.table_files.read_files(rows, engine)
    if is_table(rows) or is_spark_frame(rows):
        return input_table(schema, rows, engine)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise DataError(
            f"`{schema.name}` needs rows, not one {type(rows).__name__}",
            code="not-rows",
            help=f"give a list of rows: {_example(schema)}",
        )
    if hasattr(rows, "tolist"):
        rows = rows.tolist()
    return list(_tuples(schema, rows))


def input_table(schema: Schema, table: Any, engine: Engine | None = None) -> Any:
    """A table with the relation's columns, in its order and of its types."""
    if not is_spark_frame(table):
        return aligned(as_arrow(table, schema), schema)
    from upshot.database.placement import PlacedEngine  # noqa: PLC0415 - for Spark

    frame = files.spark_frames.aligned_frame(table, schema)
    return frame if isinstance(engine, PlacedEngine) else files.spark_frames.collected(frame, schema)


def _tuples(schema: Schema, rows: Iterable[Any]) -> Iterator[Row]:
    arity = schema.arity
    for number, row in enumerate(rows, 1):
        if type(row) is tuple and len(row) == arity:
            yield row
        elif isinstance(row, Mapping):
            yield _by_name(schema, row, number)
        elif isinstance(row, (tuple, list)) or hasattr(row, "tolist"):
            yield _by_position(schema, row, number)
        else:
            raise DataError(
                f"row {number} for `{schema.name}` is one {type(row).__name__}, "
                f"not a row of {counted(arity, 'column')}",
                code="not-rows",
                help=f"a row is a tuple, even with one column: {_example(schema)}",
            )


def _by_position(schema: Schema, row: Any, number: int) -> Row:
    values = tuple(row.tolist() if hasattr(row, "tolist") else row)
    if len(values) != schema.arity:
        raise DataError(
            f"row {number} for `{schema.name}` has {counted(len(values), 'value')}, "
            f"the relation has {counted(schema.arity, 'column')}",
            code="wrong-arity",
            help=f"the relation is `{schema}`",
        )
    return values


def _by_name(schema: Schema, row: Mapping[str, Any], number: int) -> Row:
    try:
        values = tuple(row[column.name] for column in schema.columns)
    except KeyError:
        raise column_mismatch(schema, [str(name) for name in row], where=f"row {number}") from None
    if len(row) != schema.arity:
        raise column_mismatch(schema, [str(name) for name in row], where=f"row {number}")
    return values


def _example(schema: Schema) -> str:
    if not schema.columns:
        return "[()]"
    names = ", ".join(column.name for column in schema.columns)
    return f"[({names},)]" if schema.arity == 1 else f"[({names})]"
