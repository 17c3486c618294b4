"""Sets of rows of known size: small ones in the driver, large ones as Parquet files. Importing this imports pyspark.

A set never changes: `plus` and `minus` make another one that shares the files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from upshot.core.rows import Row
from upshot.core.types import NUMBER, Kind, Type
from upshot.engine.spark.frames.joins import Range, between, reads_files, within, without
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

LARGE = 1_000_000
"""The least rows in files of which a lookup names the ranges of its keys: fewer rows are one row group."""

Types = tuple[Type, ...]


class _RowSet:
    """A set of rows, whose frame is made once per session."""

    __slots__ = ("_frame", "types")

    def __init__(self, types: Sequence[Type]) -> None:
        self.types: Types = tuple(types)
        self._frame: tuple[SparkSession, DataFrame] | None = None

    @property
    def is_local(self) -> bool:
        """Test whether all rows are in the driver."""
        return False

    def frame(self, session: SparkSession, types: Sequence[Type] | None = None) -> DataFrame:
        """All rows; `types`: only as many leading columns."""
        if not self.is_local:
            reads_files()
        if self._frame is None or self._frame[0] is not session:
            self._frame = session, self._read(session)
        if types is None or len(types) == len(self.types):
            return self._frame[1]
        return self._frame[1].select(*column_names(len(types)))

    def _read(self, session: SparkSession) -> DataFrame:
        raise NotImplementedError

    def folders(self) -> Iterator[str]:
        """The folders of its files, which must stay as long as it does."""
        return iter(())


class LocalPiece(_RowSet):
    """Rows in the driver, as a table of Spark's types and as tuples, each made from the other when needed. The rows are
    distinct; one NaN and one zero represent all, so that tuples compare as sets of rows do."""

    __slots__ = ("_places", "_rows", "_table")

    def __init__(self, table: pa.Table | None, types: Sequence[Type], rows: list[Row] | None = None) -> None:
        super().__init__(types)
        self._table, self._rows = table, rows
        self._places: dict[Row, int] | None = None

    @classmethod
    def of(cls, rows: Iterable[Row], types: Sequence[Type]) -> LocalPiece:
        return cls(None, types, with_one_nan(list(rows), types))

    @property
    def is_local(self) -> bool:
        return True

    @property
    def count(self) -> int:
        return len(self._rows) if self._rows is not None else int(self.table.num_rows)

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            self._table = rows_for_spark(self.rows, self.types)
        return self._table

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = with_one_nan(rows_from_spark(self._table, self.types), self.types)
        return self._rows

    @property
    def places(self) -> dict[Row, int]:
        """The rows with their numbers, for lookups."""
        if self._places is None:
            self._places = {row: number for number, row in enumerate(self.rows)}
        return self._places

    def ranges(self) -> dict[int, Range]:
        """The range of each column of integers or text without NULL."""
        found = {}
        for column, values in enumerate(self.table.columns):
            has_range = pa.types.is_int64(values.type) or pa.types.is_string(values.type)
            if has_range and len(values) and not values.null_count:
                found[column] = tuple(pc.min_max(values).as_py().values())
        return found

    def _read(self, session: SparkSession) -> DataFrame:
        # Spark takes an empty chunk for the end of the table, and loses all rows behind it.
        return session.createDataFrame(self.table.combine_chunks(), spark_schema(self.types))

    def where(self, condition: Callable[[Row], bool]) -> LocalPiece:
        """The rows that satisfy a condition."""
        numbers = [number for number, row in enumerate(self.rows) if condition(row)]
        if len(numbers) == self.count:
            return self
        rows = [self.rows[number] for number in numbers]
        table = self._table.take(pa.array(numbers, pa.int64())) if self._table is not None else None
        return LocalPiece(table, self.types, rows)

    def without(self, others: Container[Row]) -> LocalPiece:
        return self.where(lambda row: row not in others)

    def within(self, others: Container[Row]) -> LocalPiece:
        return self.where(lambda row: row in others)

    def plus(self, other: LocalPiece) -> LocalPiece:
        """The rows of both, which have none in common."""
        if not other.count or not self.count:
            return self if not other.count else other
        rows = self._rows + other._rows if self._rows is not None and other._rows is not None else None
        # Rows that are in a table already are not converted again, one by one.
        if rows is not None and (self._table is None or other._table is None) and self.count < 4 * other.count:
            return LocalPiece(None, self.types, rows)
        return LocalPiece(pa.concat_tables([self.table, other.table]).combine_chunks(), self.types, rows)

    def narrowed(self, types: Sequence[Type]) -> LocalPiece:
        """Only the first columns, by which alone the rows are distinct."""
        if len(types) == len(self.types):
            return self
        return LocalPiece.of([row[: len(types)] for row in self.rows], types)


class FilePiece(_RowSet):
    """Rows in named Parquet files. `names` are the columns' names in the files, by default c0 … cn; `types` may be
    fewer than the files have columns."""

    __slots__ = ("_folders", "count", "files", "names")

    def __init__(self, stored: Iterable[StoredRows], types: Sequence[Type], names: Sequence[str] | None = None) -> None:
        super().__init__(types)
        stored = tuple(stored)
        self.files = tuple(file for each in stored for file in each.files)
        self.count = sum(each.rows for each in stored)
        self.names = tuple(names) if names is not None else None
        self._folders = tuple(each.folder for each in stored)

    @property
    def columns(self) -> list[str]:
        """The columns' names in the files."""
        return list(self.names) if self.names is not None else column_names(len(self.types))

    def _read(self, session: SparkSession) -> DataFrame:
        # Also in the session of a user, who may have told Spark to ignore missing files.
        reader = session.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
        paths = [exact_path(uri) for uri in self.files]
        try:
            frame = reader.schema(spark_schema(self.types, self.names)).parquet(*paths)
        except Exception as error:
            # Spark looks for the files at once.
            raise translated(error) from error
        return frame if self.names is None else frame.toDF(*column_names(len(self.types)))

    def is_like(self, other: FilePiece) -> bool:
        """Test whether the files have the same columns, so that one frame reads all of them."""
        return (self.names, self.types) == (other.names, other.types)

    def plus(self, other: FilePiece) -> FilePiece:
        """The rows of both, whose files are alike and have no row in common."""
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


class Contents(_RowSet):
    """Files, and changes to them: the rows of `below`, without those of `deleted`, with those of `files`, without those
    of `removed`, with those of `added`; the last two are in the driver.

    All rows of `deleted` and `removed` are in the rows below them, none of `files` and `added` is.
    """

    __slots__ = ("_stored", "added", "below", "count", "deleted", "files", "removed")

    def __init__(
        self, types: Sequence[Type], *, below: Contents | None = None, deleted: Piece | None = None,
        files: FilePiece | None = None, removed: LocalPiece | None = None, added: LocalPiece | None = None,
    ) -> None:  # fmt: skip
        super().__init__(types)
        self.below, self.deleted, self.files = below, deleted, files
        self.removed = removed if removed is not None else nothing(types)
        self.added = added if added is not None else nothing(types)
        stored = sum(part.count for part in (below, files) if part is not None)
        self.count: int = stored - (deleted.count if deleted is not None else 0) - self.removed.count + self.added.count
        self._stored: tuple[SparkSession, DataFrame] | None = None

    @classmethod
    def of(cls, piece: Piece) -> Contents:
        """The rows of a piece."""
        return cls(piece.types).plus(piece)

    @property
    def is_local(self) -> bool:
        return self.files is None and self.below is None

    @property
    def overlay(self) -> int:
        """The number of rows in the driver."""
        return self.removed.count + self.added.count

    @property
    def layers(self) -> int:
        return 1 + (self.below.layers if self.below is not None else 0)

    def folders(self) -> Iterator[str]:
        for part in (self.below, self.deleted, self.files):
            if part is not None:
                yield from part.folders()

    @property
    def is_sum(self) -> bool:
        """Test whether nothing was taken away from the files."""
        taken = self.deleted is not None or self.removed.count
        return not taken and (self.below is None or self.below.is_sum)

    def piece(self) -> Piece | None:
        """The rows as a piece, if nothing was taken away from the files."""
        if self.is_local:
            return self.added
        if not self.is_sum:
            return None
        return self if self.below is not None or self.added.count else self.files

    def parts(self) -> Iterator[tuple[bool, LocalPiece | FilePiece]]:
        """Pieces to insert (True) or delete in this order, which make up all rows; see `local_and_files`."""
        if self.below is not None:
            yield from self.below.parts()
        if self.deleted is not None:
            yield from ((False, part) for part in local_and_files(self.deleted))
        if self.files is not None:
            yield True, self.files
        yield from ((insert, rows) for insert, rows in ((False, self.removed), (True, self.added)) if rows.count)

    def narrowed(self, types: Sequence[Type]) -> Contents:
        """Only the first columns, by which alone the rows are distinct."""
        if len(types) == len(self.types):
            return self
        return Contents(
            types,
            below=self.below.narrowed(types) if self.below is not None else None,
            deleted=self.deleted.narrowed(types) if self.deleted is not None else None,
            files=self.files.narrowed(types) if self.files is not None else None,
            removed=self.removed.narrowed(types),
            added=self.added.narrowed(types),
        )

    # ---- frames --------------------------------------------------------------------------------------------

    def _read(self, session: SparkSession) -> DataFrame:
        if self.is_local:
            return self.added.frame(session)
        frame = self.stored(session)
        if self.removed.count:
            frame = without(frame, self.removed.frame(session), self.types, small=True)
        return frame.unionAll(self.added.frame(session)) if self.added.count else frame

    def stored(self, session: SparkSession) -> DataFrame:
        """The rows in files, before those that were removed and added in the driver."""
        reads_files()
        if self._stored is not None and self._stored[0] is session:
            return self._stored[1]
        frames = []
        if self.below is not None:
            frame = self.below.frame(session)
            if self.deleted is not None:
                frame = without(frame, self.deleted.frame(session), self.types, small=self.deleted.is_local)
            frames.append(frame)
        if self.files is not None:
            frames.append(self.files.frame(session))
        self._stored = session, united(frames)
        return self._stored[1]

    def hits(
        self,
        session: SparkSession,
        keys: DataFrame,
        types: Sequence[Type],
        columns: Sequence[int] | None = None,
        *,
        ranges: Mapping[int, Range] = MappingProxyType({}),
    ) -> DataFrame:
        """The rows in files that have one of a few keys in these columns (by default the first ones). `ranges`: those
        of the keys that are known, by column of the rows."""
        rows = self.stored(session)
        if self.count >= LARGE:
            rows = between(rows, ranges)
        return within(rows, keys, types, columns, small=True)

    def sift(self, rows: LocalPiece, hits: Iterable[Piece], *, present: bool) -> LocalPiece:
        """The rows that are, or are not, here; `hits` are those of them that the files have."""
        found = [in_driver(piece).places for piece in hits]
        added, removed = self.added.places, self.removed.places

        def is_here(row: Row) -> bool:
            return row in added or (row not in removed and any(row in places for places in found))

        return rows.where(lambda row: is_here(row) == present)

    # ---- change --------------------------------------------------------------------------------------------

    def changed(self, deleted: Piece, inserted: Piece) -> Contents:
        """Without rows that are here, then with rows that are not; no row is in both."""
        return self.minus(deleted).plus(inserted)

    def minus(self, rows: Piece) -> Contents:
        """Without rows, all of which are here."""
        if isinstance(rows, Contents) and rows.is_local:
            rows = rows.added
        if not rows.count:
            return self
        if not isinstance(rows, LocalPiece):
            return Contents(self.types, below=self, deleted=rows)
        removed = self.removed if self.is_local else self.removed.plus(rows.without(self.added.places))
        return self._overlaid(removed, self.added.without(rows.places))

    def plus(self, rows: Piece) -> Contents:
        """With further rows, none of which is here."""
        if not rows.count:
            return self
        match rows:
            case LocalPiece():
                back = rows.within(self.removed.places) if self.removed.count else nothing(self.types)
                if not back.count:
                    return self._overlaid(self.removed, self.added.plus(rows))
                return self._overlaid(self.removed.without(back.places), self.added.plus(rows.without(back.places)))
            case FilePiece():
                if self.removed.count or (self.files is not None and not self.files.is_like(rows)):
                    return Contents(self.types, below=self, files=rows)
                files = self.files.plus(rows) if self.files is not None else rows
                return Contents(self.types, below=self.below, deleted=self.deleted, files=files, added=self.added)
            case Contents():
                return reduce(Contents.plus, local_and_files(rows), self)

    def _overlaid(self, removed: LocalPiece, added: LocalPiece) -> Contents:
        return Contents(
            self.types, below=self.below, deleted=self.deleted, files=self.files, removed=removed, added=added
        )


Piece = LocalPiece | FilePiece | Contents
"""Rows in the driver, in files, or both; contents are a piece if nothing was taken away from their files."""


def local_and_files(piece: Piece) -> list[LocalPiece | FilePiece]:
    """The parts of a piece, which have no row in common."""
    if not isinstance(piece, Contents):
        return [piece]
    assert piece.is_sum, "a set of rows from whose files nothing was taken was expected"
    return [part for _, part in piece.parts()]


def in_driver(piece: Piece) -> LocalPiece:
    """A piece that is known to be in the driver."""
    assert isinstance(piece, LocalPiece), "a set of rows in the driver was expected"
    return piece


def nothing(types: Sequence[Type]) -> LocalPiece:
    """The empty set."""
    return LocalPiece.of((), types)


def joined(pieces: Iterable[Piece], types: Sequence[Type]) -> Piece:
    """All rows of the pieces, which have none in common."""
    found = reduce(Contents.plus, pieces, Contents(types)).piece()
    assert found is not None
    return found


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
