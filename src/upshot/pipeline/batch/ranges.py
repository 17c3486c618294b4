"""The rows of one range of a source, as statements of a transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core.errors import Error
from upshot.core.schema import Schema
from upshot.core.types import Kind
from upshot.pipeline.batch.quarantine import BAD, BadRows
from upshot.pipeline.sinks.tables import FEW
from upshot.pipeline.sources.reading.fitting import SourceBatch
from upshot.spark.failures import translated
from upshot.spark.net_effect import CLASS
from upshot.spark.types import column_names, literal, spark_type, table_from_spark

if TYPE_CHECKING:
    from upshot.database.transaction import Transaction

_BAD = "bad"
REPLACE, REMOVE = "replace", "remove"
KINDS = (REPLACE, REMOVE, "delete", "insert", "upsert")
"""The kinds of statements, in order; the parts of a change do not overlap, so any order is right."""


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of a range: few in the driver, fetched by one job; many stay with Spark."""

    schema: Schema
    parts: Mapping[str, Any]
    """Arrow tables or DataFrames by kind, each with the relation's columns"""
    rows: int
    bad: BadRows
    notes: tuple[str, ...] = ()
    cached: tuple[Any, ...] = ()
    """frames that Spark keeps until `release`"""

    def stage(self, transaction: Transaction) -> None:
        """Stage the rows as statements."""
        name = self.schema.name
        statements = {"delete": transaction.delete, "insert": transaction.insert, "upsert": transaction.upsert}
        for kind in KINDS:
            rows = self.parts.get(kind)
            if rows is None:
                continue
            if kind == REPLACE:
                transaction.replace(name, rows)
            elif kind == REMOVE:
                # A stand-in replaces the row with the key, then it is deleted.
                transaction.upsert(name, rows)
                transaction.delete(name, rows)
            else:
                statements[kind](name, rows)

    def release(self) -> None:
        for frame in self.cached:
            frame.unpersist()


def read_range(batch: SourceBatch) -> Range:
    """The counted rows of a source's batch, and those that do not fit."""
    at_once = batch.net is not None and batch.few
    cached = () if at_once else tuple(frame.persist() for frame in (batch.shared, batch.net) if frame is not None)
    try:
        if at_once and (found := _read_at_once(batch)):
            return found
        parts, count = _replaced(batch) if batch.replaced is not None else _changed(batch)
        return Range(batch.schema, parts, count, BadRows.of(batch.bad), batch.notes, cached)
    except Exception as error:
        for frame in cached:
            frame.unpersist()
        raise error if isinstance(error, Error) else translated(error) from error


def _read_at_once(batch: SourceBatch) -> Range | None:
    """All rows of a small batch, also those that do not fit, in one job; None if they are many."""
    assert batch.net is not None
    types = [*map(spark_type, batch.schema.types)] or [spark.BooleanType()]
    nothing = [F.lit(None).cast("string").alias(name) for name in BAD]
    net = batch.net.select(*_filled(batch.schema, batch.net), CLASS, *nothing)
    if batch.bad is not None:
        no_row = [F.lit(None).cast(type).alias(f"c{i}") for i, type in enumerate(types)]
        net = net.unionByName(batch.bad.select(*no_row, F.lit(_BAD).alias(CLASS), *BAD))
    table = net.toArrow()
    is_bad = pc.equal(table[CLASS], _BAD)
    bad, good = table.filter(is_bad).select(BAD), table.filter(pc.invert(is_bad)).drop_columns(list(BAD))
    if max(bad.num_rows, good.num_rows) > FEW:
        return None
    parts = {kind: _part(good, kind, batch.schema) for kind in good[CLASS].unique().to_pylist()}
    return Range(batch.schema, parts, good.num_rows, BadRows(bad), batch.notes)


def _replaced(batch: SourceBatch) -> tuple[dict[str, Any], int]:
    assert batch.replaced is not None
    table = batch.replaced.limit(FEW + 1).toArrow()
    if table.num_rows > FEW:
        return {REPLACE: batch.replaced}, batch.replaced.count()
    return {REPLACE: table_from_spark(table, batch.schema)}, table.num_rows


def _changed(batch: SourceBatch) -> tuple[dict[str, Any], int]:
    if batch.net is None:
        return {}, 0
    net = batch.net.select(*_filled(batch.schema, batch.net), CLASS)
    table = net.limit(FEW + 1).toArrow()
    if table.num_rows <= FEW:
        found = table[CLASS].unique().to_pylist()
        return {kind: _part(table, kind, batch.schema) for kind in found}, table.num_rows
    own = [column.name for column in batch.schema.columns] or column_names(0)
    counts = {row[CLASS]: row["count"] for row in net.groupBy(CLASS).count().collect()}
    return {kind: net.where(F.col(CLASS) == kind).drop(CLASS).toDF(*own) for kind in counts}, sum(counts.values())


def _part(table: pa.Table, kind: str, schema: Schema) -> pa.Table:
    return table_from_spark(table.filter(pc.equal(table[CLASS], kind)).drop_columns([CLASS]), schema)


def _filled(schema: Schema, net: Any) -> list[Any]:
    """The columns of the change; if only a key is known, with any value in the other columns."""
    names = column_names(schema.arity)
    if not schema.keys:
        return [net[name] for name in names]
    key = schema.keys[0]
    return [
        net[name]
        if position in key or type.nullable
        else F.when(net[CLASS] == REMOVE, literal(_SOME[type.kind], type)).otherwise(net[name]).alias(name)
        for position, (name, type) in enumerate(zip(names, schema.types, strict=True))
    ]


_SOME: dict[Kind, Any] = {
    Kind.NUMBER: 0,
    Kind.UNSIGNED: 0,
    Kind.FLOAT: 0.0,
    Kind.SYMBOL: "",
    Kind.RECORD: "nil",
    Kind.BOOLEAN: False,
    Kind.DECIMAL: 0,
    Kind.DATE: dt.date(1970, 1, 1),
    Kind.TIMESTAMP: dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
}
