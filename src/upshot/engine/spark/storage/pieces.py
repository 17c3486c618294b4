"""Sets of rows of known size: small ones in the driver, large ones as Parquet files. Importing this imports pyspark."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from upshot.core.rows import Row
from upshot.core.types import NUMBER, Kind, Type
from upshot.engine.spark.frames.one_task import reads_files
from upshot.spark.failures import translated
from upshot.spark.location import exact_path
from upshot.spark.types import (
    arrow_schema_for_spark,
    column_names,
    framed,
    rows_for_spark,
    rows_from_spark,
    spark_schema,
)
from upshot.spark.workspace import StoredRows

SMALL = 50_000
"""The most rows that the driver holds of one set."""

Types = tuple[Type, ...]


class LocalPiece:
    """Rows in the driver, as a table of Spark's types and as tuples, each made from the other when needed. The rows are
    distinct; one NaN and one zero represent all, so that tuples compare as sets of rows do."""

    __slots__ = ("_frame", "_places", "_rows", "_table", "types")

    def __init__(self, table: pa.Table | None, types: Sequence[Type], rows: list[Row] | None = None) -> None:
        self.types: Types = tuple(types)
        self._table, self._rows = table, rows
        self._places: dict[Row, int] | None = None
        self._frame: tuple[Any, DataFrame] | None = None

    @classmethod
    def of(cls, rows: Iterable[Row], types: Sequence[Type]) -> LocalPiece:
        return cls(None, types, with_one_nan(list(rows), types))

    @property
    def count(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        assert self._table is not None
        return int(self._table.num_rows)

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            assert self._rows is not None
            self._table = rows_for_spark(self._rows, self.types)
        return self._table

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = with_one_nan(rows_from_spark(self._table, self.types), self.types)
        return self._rows

    @property
    def places(self) -> dict[Row, int]:
        """The rows with their numbers: what is looked up here is in the set."""
        if self._places is None:
            self._places = {row: number for number, row in enumerate(self.rows)}
        return self._places

    def frame(self, session: SparkSession, types: Sequence[Type] | None = None) -> DataFrame:
        if self._frame is None or self._frame[0] is not session:
            # Spark takes an empty chunk for the end of the table, and loses what comes after it.
            whole = self.table.combine_chunks()
            self._frame = session, session.createDataFrame(whole, spark_schema(self.types))
        return _narrowed(self._frame[1], self.types, types)

    def without(self, others: Container[Row]) -> LocalPiece:
        return self._selected([number for number, row in enumerate(self.rows) if row not in others])

    def within(self, others: Container[Row]) -> LocalPiece:
        return self._selected([number for number, row in enumerate(self.rows) if row in others])

    def _selected(self, numbers: list[int]) -> LocalPiece:
        if len(numbers) == self.count:
            return self
        rows = [self.rows[number] for number in numbers]
        table = self._table.take(pa.array(numbers, pa.int64())) if self._table is not None else None
        return LocalPiece(table, self.types, rows)

    def plus(self, other: LocalPiece) -> LocalPiece:
        """Both together; they have no row in common."""
        if not other.count or not self.count:
            return self if not other.count else other
        rows = self._rows + other._rows if self._rows is not None and other._rows is not None else None
        # What is there already as a table is not converted again, row by row.
        if rows is not None and (self._table is None or other._table is None) and self.count < 4 * other.count:
            return LocalPiece(None, self.types, rows)
        return LocalPiece(pa.concat_tables([self.table, other.table]).combine_chunks(), self.types, rows)

    def narrowed(self, types: Sequence[Type]) -> LocalPiece:
        """Only the first columns, by which alone the rows are distinct."""
        if len(types) == len(self.types):
            return self
        return LocalPiece.of([row[: len(types)] for row in self.rows], types)

    def folders(self) -> Iterator[str]:
        return iter(())


class FilePiece:
    """Rows in named Parquet files. `names` are the columns' names in the files, by default c0 … cn; `types` may be
    fewer than the files have columns."""

    __slots__ = ("_folders", "_frame", "count", "files", "names", "types")

    def __init__(self, stored: Iterable[StoredRows], types: Sequence[Type], names: Sequence[str] | None = None) -> None:
        stored = tuple(stored)
        self.files = tuple(file for each in stored for file in each.files)
        self.count = sum(each.rows for each in stored)
        self.types = tuple(types)
        self.names = tuple(names) if names is not None else None
        self._folders = tuple(each.folder for each in stored)
        self._frame: tuple[Any, DataFrame] | None = None

    @property
    def columns(self) -> list[str]:
        """The columns' names in the files."""
        return list(self.names) if self.names is not None else column_names(len(self.types))

    def frame(self, session: SparkSession, types: Sequence[Type] | None = None) -> DataFrame:
        reads_files()
        if self._frame is None or self._frame[0] is not session:
            self._frame = session, self._read(session)
        return _narrowed(self._frame[1], self.types, types)

    def _read(self, session: SparkSession) -> DataFrame:
        # Also in the session of a user, who may have Spark pass over files that are not there.
        reader = session.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
        paths = [exact_path(uri) for uri in self.files]
        try:
            frame = reader.schema(spark_schema(self.types, self.names)).parquet(*paths)
        except Exception as error:
            # Spark looks for the files at once.
            raise translated(error) from error
        return frame if self.names is None else frame.toDF(*column_names(len(self.types)))

    def plus(self, other: FilePiece) -> FilePiece | None:
        """Both as one, if their files are alike; they have no row in common."""
        if (self.names, self.types) != (other.names, other.types):
            return None
        return self._with((*self.files, *other.files), self.count + other.count, (*self._folders, *other._folders))

    def _with(self, files: tuple[str, ...], count: int, folders: tuple[str, ...]) -> FilePiece:
        made = FilePiece((), self.types, self.names)
        made.files, made.count, made._folders = files, count, folders
        return made

    def narrowed(self, types: Sequence[Type]) -> FilePiece:
        """Only the first columns, by which alone the rows are distinct."""
        made = self._with(self.files, self.count, self._folders)
        made.types = tuple(types)
        made.names = self.names[: len(types)] if self.names is not None and types else self.names
        return made

    def folders(self) -> Iterator[str]:
        return iter(self._folders)


class MixedPiece:
    """Parts that have no row in common, in the driver and in files."""

    __slots__ = ("_frame", "count", "parts", "types")

    def __init__(self, parts: Iterable[LocalPiece | FilePiece], types: Sequence[Type]) -> None:
        self.parts, self.types = tuple(parts), tuple(types)
        self.count = sum(part.count for part in self.parts)
        self._frame: tuple[Any, DataFrame] | None = None

    def frame(self, session: SparkSession, types: Sequence[Type] | None = None) -> DataFrame:
        reads_files()
        if self._frame is None or self._frame[0] is not session:
            self._frame = session, united([part.frame(session) for part in self.parts])
        return _narrowed(self._frame[1], self.types, types)

    def narrowed(self, types: Sequence[Type]) -> MixedPiece:
        return MixedPiece([part.narrowed(types) for part in self.parts], types)

    def folders(self) -> Iterator[str]:
        return (folder for part in self.parts for folder in part.folders())


Piece = LocalPiece | FilePiece | MixedPiece


def in_driver(piece: Piece) -> LocalPiece:
    """A piece that is known to be in the driver."""
    assert isinstance(piece, LocalPiece), "a set of rows in the driver was expected"
    return piece


def nothing(types: Sequence[Type]) -> LocalPiece:
    """The empty set."""
    return LocalPiece.of((), types)


def joined(pieces: Iterable[Piece], types: Sequence[Type]) -> Piece:
    """All rows of the pieces, which have none in common."""
    parts = [part for piece in pieces for part in (piece.parts if isinstance(piece, MixedPiece) else (piece,))]
    here = reduce(LocalPiece.plus, (part for part in parts if isinstance(part, LocalPiece)), nothing(types))
    files = [part for part in parts if isinstance(part, FilePiece) and part.count]
    if not files:
        return here
    return MixedPiece((*files, here) if here.count else files, types)


def signed(pieces: Sequence[tuple[LocalPiece, int]]) -> LocalPiece:
    """All rows of the pieces, each with its number in a last column."""
    types = (*framed(pieces[0][0].types), NUMBER)
    schema = arrow_schema_for_spark(types)
    tables = [
        pa.table([*piece.table.columns, pa.array(np.full(piece.count, number, np.int64))], schema=schema)
        for piece, number in pieces
    ]
    return LocalPiece(pa.concat_tables(tables), types)


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of the frames, which have the same columns. Halves first: Spark looks at all frames of a union again
    when one is added."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return united(frames[:half]).unionAll(united(frames[half:]))


def with_one_nan(rows: list[Row], types: Sequence[Type]) -> list[Row]:
    """The rows with one and the same object for every NaN: tuples are equal if their items are the same or equal."""
    if not any(type.kind is Kind.FLOAT for type in types):
        return rows
    return [tuple(math.nan if v != v else v for v in row) for row in rows]


def _narrowed(frame: DataFrame, types: Types, wanted: Sequence[Type] | None) -> DataFrame:
    if wanted is None or len(wanted) == len(types):
        return frame
    return frame.select(*column_names(len(wanted)))
