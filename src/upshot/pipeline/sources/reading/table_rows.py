"""Rows of tables, whose columns have types of their own, as rows of a relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.sources.reading.cells import checked, text_cell, typed_cell
from upshot.pipeline.sources.reading.fitting import PLACE, ROW, fitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def table_rows(
    table: DataFrame,
    schema: Schema,
    *,
    where: str,
    place: Column,
    kept: Sequence[str] = (),
    problem: Column | None = None,
    ignore_extra: bool = False,
    text: Sequence[str] = (),
    row: Column | None = None,
) -> DataFrame:
    """c0 … cn, `_reason`, `_row` (as JSON, unless it is given), `_place` and the columns of `kept`, which are not the
    relation's.

    A table that lacks a column, has another one, or a column of a type whose values never fit, is refused as a whole;
    `where` names it. Columns of `text` hold text that is read, as fields of a file are.
    """
    refuse_columns([name for name in table.columns if name not in kept], schema, where, ignore_extra=ignore_extra)
    types = {field.name: field.dataType for field in table.schema.fields}
    cells = []
    for column in schema.columns:
        # Quoted: a name may have a point in it.
        value = F.col(f"`{column.name}`")
        cell = text_cell(value, column) if column.name in text else typed_cell(value, types[column.name], column)
        if cell is None:
            raise _wrong_type(schema, column.name, types[column.name], where)
        cells.append(checked(cell, column))
    shown = [F.col(f"`{column.name}`") for column in schema.columns]
    if row is None:
        row = F.to_json(F.struct(*shown), {"ignoreNullFields": "false"}) if shown else F.lit("{}")
    table = table.withColumns({ROW: row, PLACE: place.cast("string")})
    whole = F.lit(None).cast("string") if problem is None else problem
    return fitted(table, schema, cells, [*kept, ROW, PLACE], whole)


def refuse_columns(given: Sequence[str], schema: Schema, where: str, *, ignore_extra: bool) -> None:
    """Raises unless these are the relation's columns, in any order."""
    names = [column.name for column in schema.columns]
    lacking = [name for name in names if name not in given]
    extra = [] if ignore_extra else [name for name in given if name not in names]
    if lacking:
        raise _other_columns(
            f"{where} has no column {_listed(lacking)} of `{schema}`",
            f"it has {_listed(given)}: rename the column there, or the one of `{schema.name}` in the program",
        )
    if extra:
        raise _other_columns(
            f"{where} has {_listed(extra)}, which `{schema}` does not have",
            'declare every column, or set `extra_columns = "ignore"`',
        )


def _wrong_type(schema: Schema, name: str, given: spark.DataType, where: str) -> DataError:
    (wanted,) = [column.type for column in schema.columns if column.name == name]
    return _other_columns(
        f"column `{name}` of {where} is {given.simpleString()}, in `{schema.name}` it is {wanted}",
        "declare a type that fits its values, or convert the column at its source",
    )


def _other_columns(message: str, help: str) -> DataError:
    return DataError(message, code="source-columns", help=help)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no columns"
