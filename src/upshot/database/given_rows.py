"""Rows as users give them, brought to the one form the engine takes: tuples in column order, or an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from upshot.core.errors import DataError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.arrow_tables import aligned, as_arrow, column_mismatch, is_table

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]


def given_rows(schema: Schema, rows: Any) -> list[Row] | pa.Table:
    """Tuples, lists, dicts, any table, any iterator of rows: as tuples of the relation's arity, or an aligned table.

    Values are not looked at here; the engine checks them against the column types.
    """
    if isinstance(rows, Rows):
        return list(rows)
    if is_table(rows):
        return aligned(as_arrow(rows, schema), schema)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise DataError(
            f"`{schema.name}` takes rows, not one {type(rows).__name__}",
            code="not-rows",
            help=f"give a list of rows: {_example(schema)}",
        )
    if hasattr(rows, "tolist"):
        rows = rows.tolist()
    return list(_tuples(schema, rows))


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
                f"row {number} for `{schema.name}` is one {type(row).__name__}, not a row of {_columns(arity)}",
                code="not-rows",
                help=f"a row is a tuple, also when it has one column: {_example(schema)}",
            )


def _by_position(schema: Schema, row: Any, number: int) -> Row:
    values = tuple(row.tolist() if hasattr(row, "tolist") else row)
    if len(values) != schema.arity:
        raise DataError(
            f"row {number} for `{schema.name}` has {len(values)} values, the relation has {_columns(schema.arity)}",
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


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _example(schema: Schema) -> str:
    if not schema.columns:
        return "[()]"
    names = ", ".join(column.name for column in schema.columns)
    return f"[({names},)]" if schema.arity == 1 else f"[({names})]"
