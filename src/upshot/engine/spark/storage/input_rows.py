"""Input rows as pieces. Rows of a caller are checked as the local engine checks them, and become distinct; rows of a
store are adopted without passing through the driver."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from upshot.core.errors import DataError, Error
from upshot.core.rows import Row
from upshot.core.schema import Column, Schema
from upshot.core.structures import Misshapen, canonical
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.engine.local.kernel.layout import NEW
from upshot.engine.local.storage.arrow_codec import decode_table
from upshot.engine.local.storage.codec import DAYS, MICROSECONDS, Codec
from upshot.engine.local.storage.encode_rows import encode_rows
from upshot.engine.local.storage.storage import Storage
from upshot.engine.saved import Saved
from upshot.engine.spark.frames.functor_udfs import arrow_function
from upshot.engine.spark.storage.pieces import Contents, FilePiece, LocalPiece, Piece, nothing, with_one_nan
from upshot.engine.spark.storage.requests import FrameRequest, Jobs, Steps, checked_rows, local_piece
from upshot.engine.spark.storage.table import FrameTable, spilled
from upshot.spark.failures import translated
from upshot.spark.types import arrow_for_spark, arrow_schema_for_spark, column_names, declared_type, spark_type

Key = tuple[int, ...]
Codes = NDArray[np.int64]

_AT_ONCE = 1 << 20
"""Rows that are decoded and written at a time."""


def is_frame(rows: Any) -> bool:
    """Test whether this is a Spark DataFrame, classic or of Spark Connect."""
    return isinstance(rows, DataFrame)


class InputRows:
    """Rows of callers, in the form of the tables."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def piece(self, schema: Schema, rows: Any, key: Key | None = None) -> Piece:
        """The distinct rows; with `key`, only the last of the rows that share one. Rows that do not fit raise a
        `DataError`, and nothing has happened."""
        if is_frame(rows):
            piece = self._frame(schema, rows)
            if key is not None:
                self._refuse_shared_keys(schema, piece, key)
            return piece
        codec = Codec()
        codes = encode_rows(codec, schema, rows)
        if key is not None:
            codes = _last_by(codes, key)
        if len(codes) <= self._jobs.small:
            columns = [codec.decode(codes[:, i], column.type) for i, column in enumerate(schema.columns)]
            tuples: list[Row] = list(zip(*columns, strict=True)) if columns else [()] * len(codes)
            return LocalPiece.of(dict.fromkeys(with_one_nan(tuples, schema.types)), schema.types)
        return self._filed(schema, codec, codes)

    def _filed(self, schema: Schema, codec: Codec, codes: Codes) -> Piece:
        """Many distinct rows of the driver, as a file that the driver writes without a job."""
        storage = Storage()
        table = storage.create(schema.arity)
        try:
            table.stage(codes, insert=True)
            table.settle()
            distinct = table.in_state(NEW)
        finally:
            storage.drop(table)
        parts = decoded(codec, schema, distinct)
        stored = self._jobs.workspace.put(parts, arrow_schema_for_spark(schema.types))
        return self._jobs.fetched_if_small(FilePiece((stored,), schema.types))

    # ---- DataFrames --------------------------------------------------------------------------------------------

    def _frame(self, schema: Schema, frame: DataFrame) -> Piece:
        """The rows of a DataFrame, written once, by its own session and under its settings; rows that do not fit are
        counted in the same job."""
        fits = [_Fit.of(schema, column, frame, name) for column, name in _named(schema, frame)]
        observation = Observation()
        checks = {f"{fit.name}:{slug}": bad for fit in fits for slug, (bad, _) in fit.problems.items()}
        if checks:
            counts = [F.count(F.when(bad, 1)).alias(name) for name, bad in checks.items()]
            frame = frame.observe(observation, *counts)
        chosen = [fit.value.alias(name) for fit, name in zip(fits, column_names(schema.arity), strict=False)]
        rows = frame.select(*(chosen or [F.lit(True).alias("c0")])).distinct()
        counted = Observation()
        try:
            stored = self._jobs.workspace.write(rows.observe(counted, F.count(F.lit(1)).alias("rows")), "given")
            found = observation.get if checks else {}
            checked_rows(stored, int(counted.get["rows"]))
        except Error:
            raise
        except Exception as error:
            raise translated(error) from error
        self._jobs.jobs += 1
        piece = FilePiece((stored,), schema.types)
        for fit in fits:
            for slug, (_, words) in fit.problems.items():
                if found[f"{fit.name}:{slug}"]:
                    self._jobs.workspace.drop(piece.folders())
                    raise _misfit(schema, slug, words)
        return self._jobs.fetched_if_small(piece)

    def _refuse_shared_keys(self, schema: Schema, piece: Piece, key: Key) -> None:
        """A DataFrame has no order, so that of two rows with one key none is the last."""
        names = [f"c{column}" for column in key]
        if isinstance(piece, LocalPiece):
            shared = len({tuple(row[column] for column in key) for row in piece.rows}) < piece.count
        else:
            rows = piece.frame(self._jobs.session).groupBy(*names).agg(F.count(F.lit(1)).alias("n"))
            types = tuple(schema.types[column] for column in key)
            several = FrameRequest(rows.filter("n > 1").select(*names).limit(1), types)
            shared = self._jobs.answer([several])[0].count > 0
        if shared:
            columns = ", ".join(f"`{schema.columns[column].name}`" for column in key)
            raise DataError(
                f"a DataFrame for `{schema.name}` has several rows with one key ({columns})",
                code="ambiguous-upsert", span=schema.span, help="keep one row per key",
            )  # fmt: skip


def decoded(codec: Codec, schema: Schema, codes: Codes) -> Iterator[pa.Table]:
    """The rows of codes as tables of Spark's types, some at a time."""
    for first in range(0, len(codes), _AT_ONCE):
        yield arrow_for_spark(decode_table(codec, schema, codes[first : first + _AT_ONCE]), schema)


def _last_by(codes: Codes, key: Key) -> Codes:
    """Of the rows that agree on the key, the last."""
    if len(codes) < 2:
        return codes
    reverse = codes[::-1][:, list(key)]
    _, first = np.unique(reverse, axis=0, return_index=True)
    return codes[np.sort(len(codes) - 1 - first)]


def _named(schema: Schema, frame: DataFrame) -> list[tuple[Column, str]]:
    """The relation's columns with their names in the frame: its own, or c0 … cn."""
    given = frame.columns
    names = [column.name for column in schema.columns]
    if sorted(given) != sorted(names):
        numbered = column_names(schema.arity)
        if given != numbered and (schema.columns or len(given) > 1):
            raise DataError(
                f"a DataFrame for `{schema.name}` has columns {_listed(given)}, the relation has {_listed(names)}",
                code="wrong-arity" if len(given) != schema.arity else "unknown-column",
                span=schema.span, help=f"`{schema}`",
            )  # fmt: skip
        names = numbered
    return list(zip(schema.columns, names, strict=False))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _misfit(schema: Schema, slug: str, words: str) -> DataError:
    return DataError(f"a table for `{schema.name}`: {words}", code=slug, span=schema.span, help=f"`{schema}`")


@dataclass(frozen=True, slots=True)
class _Fit:
    """A column of a DataFrame for a relation: its value, and by slug of an error the condition of the rows that do not
    fit, with the message."""

    name: str
    value: SparkColumn
    problems: dict[str, tuple[SparkColumn, str]]

    @classmethod
    def of(cls, schema: Schema, column: Column, frame: DataFrame, name: str) -> _Fit:
        given, kind = frame.schema[name].dataType, column.type.kind
        if not _ACCEPTS[kind](given):
            words = f"column `{column.name}` has Spark type `{given.simpleString()}`, expected `{column.type}`"
            raise _misfit(schema, "wrong-type", words)
        source = F.col(f"`{name}`")
        value = source.try_cast(spark_type(column.type)) if given != spark_type(column.type) else source
        problems: dict[str, tuple[SparkColumn, str]] = {}
        if kind is Kind.RECORD:
            value = arrow_function(_RecordTexts(column.type), "string")(value)
            words = f"column `{column.name}` has a value that is none of `{column.type}`"
            problems["wrong-type"] = source.isNotNull() & value.isNull(), words
        if not column.type.nullable:
            words = f"column `{column.name}`: NULL in a column of type `{column.type}`"
            problems["null-in-required-column"] = source.isNull(), words
        if outside := _outside(column, source, value, given):
            words = f"column `{column.name}` has a value that does not fit `{column.type}`"
            problems["number-out-of-range"] = functools.reduce(operator.or_, outside), words
        if kind is Kind.DECIMAL:
            words = f"column `{column.name}` has a value with more than {column.type.scale} decimal places"
            problems["decimal-scale"] = value.isNotNull() & (value != source), words
        if column.type.nullable and kind in _RESERVED:
            words = f"column `{column.name}` has the one value that a nullable `{column.type}` cannot store"
            problems["reserved-value"] = value == F.lit(str(_RESERVED[kind])).cast(spark_type(column.type)), words
        # Adding 0.0 turns -0.0 into 0.0 and leaves every other value alone.
        return cls(name, value + F.lit(0.0) if kind is Kind.FLOAT else value, problems)


@dataclass(frozen=True, slots=True)
class _RecordTexts:
    """The canonical texts of a column of records; NULL for a text that is no record. Pickled by name."""

    type: Type

    def __call__(self, texts: pa.Array) -> pa.Array:
        return pa.array([self._text(text) for text in texts.to_pylist()], pa.string())

    def _text(self, text: str | None) -> str | None:
        try:
            return None if text is None else canonical(text, self.type)
        except Misshapen:
            return None


def _outside(column: Column, source: SparkColumn, value: SparkColumn, given: spark.DataType) -> list[SparkColumn]:
    """The ways in which a value can leave the range of the column."""
    kind = column.type.kind
    outside = []
    if given != spark_type(column.type):
        outside.append(source.isNotNull() & value.isNull())
    match kind:
        case Kind.DECIMAL:
            outside.append(source.isNotNull() & source.try_cast(declared_type(column.type)).isNull())
        case Kind.UNSIGNED:
            outside += [value < 0, value > F.lit(str(UNSIGNED_RANGE[-1])).cast("decimal(20,0)")]
        case Kind.DATE:
            days = F.unix_date(value)
            outside += [(days < DAYS[0]) | (days > DAYS[1])]
        case Kind.TIMESTAMP:
            times = F.unix_micros(value)
            outside += [(times < MICROSECONDS[0]) | (times > MICROSECONDS[1])]
        case _:
            pass
    return outside


_INTEGRAL = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)


def _is_whole(given: spark.DataType) -> bool:
    return isinstance(given, _INTEGRAL) or (isinstance(given, spark.DecimalType) and given.scale == 0)


_ACCEPTS: dict[Kind, Any] = {
    Kind.NUMBER: _is_whole,
    Kind.UNSIGNED: _is_whole,
    Kind.FLOAT: lambda given: isinstance(given, (spark.FloatType, spark.DoubleType, *_INTEGRAL)),
    Kind.SYMBOL: lambda given: isinstance(given, (spark.StringType, spark.CharType, spark.VarcharType)),
    Kind.RECORD: lambda given: isinstance(given, (spark.StringType, spark.CharType, spark.VarcharType)),
    Kind.BOOLEAN: lambda given: isinstance(given, spark.BooleanType),
    Kind.DATE: lambda given: isinstance(given, spark.DateType),
    Kind.TIMESTAMP: lambda given: isinstance(given, spark.TimestampType),
    Kind.DECIMAL: lambda given: isinstance(given, (spark.DecimalType, *_INTEGRAL)),
}
_RESERVED = {Kind.NUMBER: NUMBER_RANGE[0], Kind.UNSIGNED: UNSIGNED_RANGE[-1]}


# ---- rows of a store ---------------------------------------------------------------------------------------------


def adopted(table: FrameTable, saved: Saved, jobs: Jobs) -> Steps[None]:
    """Make the saved rows the committed ones. Files that the executors reach are read where they are; others are copied
    to the location."""
    if table.counted:
        # The numbers of derivations are not saved: they are computed, and the rows are those that were saved.
        table.is_known = True
        return
    piece: Piece = nothing(table.types)
    if saved.folder is not None and saved.rows:
        piece = _folder(table, saved.folder, jobs, saved.rows)
    contents = Contents.of(piece)
    for inserted, deleted in saved.changes:
        contents = contents.changed(_change(table, deleted, jobs), _change(table, inserted, jobs))
        contents = yield from spilled(contents, table.small)
    table.committed = contents


def _folder(table: FrameTable, folder: str | Path, jobs: Jobs, rows: int | None = None) -> Piece:
    """The rows of a folder, which must be as many as the store says, if it does."""
    stored = jobs.workspace.adopted(folder)
    if rows is not None and stored.rows != rows:
        raise DataError(
            f"the saved rows of `{table.schema.name}` in `{folder}` cannot be read: {stored.rows} of {rows} are there",
            code="saved-rows-unreadable",
            help="restore the directory from a backup, or reload the base relations",
        )
    if not stored.rows:
        return nothing(table.types)
    if not table.types:
        return _truth(stored.rows)
    return FilePiece((stored,), table.types, [column.name for column in table.schema.columns])


def _change(table: FrameTable, rows: pa.Table | str | Path, jobs: Jobs) -> Piece:
    if isinstance(rows, str | Path):
        return _folder(table, rows, jobs)
    if not table.types:
        return _truth(rows.num_rows)
    return local_piece(arrow_for_spark(rows, table.schema), table.types)


def _truth(count: int) -> LocalPiece:
    rows: list[Row] = [()] if count else []
    return LocalPiece.of(rows, ())
