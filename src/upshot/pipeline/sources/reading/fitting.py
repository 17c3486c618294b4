"""Rows of a source as rows of a relation; rows that do not fit keep their text and get a reason.

Read `SourceBatch` (what a source returns for a range), then `fitted` and `table_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.sources.reading.cells import Cell, checked, text_cell, typed_cell
from upshot.spark.net_effect import net_effect
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Either `replaced` holds the whole relation, or `net` holds its change; a frame that is None has no rows.

    Frames have the relation's columns by name (a relation without columns has one, `c0`), of the types of
    `upshot.spark.types`, with values that fit; in `replaced` and among the inserted rows of `net` a row may occur more
    than once. The change is net: no row is in two classes of it, no key is both upserted and removed.
    """

    schema: Schema
    net: DataFrame | None = None
    """The whole change in one frame: columns c0 … cn, and `_class`: insert, delete, upsert (in place of the row with
    the same first key) or remove (the row with this key goes; the other columns are NULL)."""
    replaced: DataFrame | None = None
    bad: DataFrame | None = None
    """Rows that do not fit: `row` (the text as it was read), `reason`, `place` (`file:line`, a file, or a table)."""
    shared: DataFrame | None = None
    """The frame that the others are computed from: `persist` it first to use several of them."""
    few: bool = False
    """True if reading everything is work for one task: reading it twice is faster than keeping it."""
    notes: tuple[str, ...] = ()
    """Notes for the operator: late files, a table without change data feed. The same on every replay."""


# ---- rows ------------------------------------------------------------------------------------------------

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
    """`row`, `reason`, `place` of the rows that do not fit; the frame has `_row` and `_place` beside its values."""
    return fitting.where(F.col(REASON).isNotNull()).select(
        F.col(ROW).alias("row"), F.col(REASON).alias("reason"), F.col(PLACE).alias("place")
    )


def net_batch(
    statements: DataFrame,
    schema: Schema,
    order: Sequence[str],
    bad: DataFrame,
    *,
    few: bool,
    notes: tuple[str, ...] = (),
) -> SourceBatch:
    """The net effect of ordered statements; `bad` are those that do not fit."""
    net = net_effect(statements.where(F.col(REASON).isNull()), schema, order, few=few)
    return SourceBatch(schema, net=net, bad=bad, shared=statements, few=few, notes=tuple(notes))


# ---- rows of tables, whose columns have types of their own ---------------------------------------------------


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
    """Raise unless these are the relation's columns, in any order."""
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
