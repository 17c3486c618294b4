"""Row sources of users: small ones are in the driver, large ones stay in files until they are read."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any
from weakref import WeakSet, finalize

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.core.errors import UsageError
from upshot.core.row_order import RowOrder
from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema
from upshot.engine.spark.storage.pieces import Contents, FilePiece, LocalPiece, Piece, local_and_files
from upshot.engine.spark.storage.requests import checked_table, lost_rows, spark_table
from upshot.spark.failures import translated
from upshot.spark.lent_rows import MOST_IN_PLAN
from upshot.spark.location import runs_here, spark_path
from upshot.spark.types import arrow_schema_for_spark, column_names, framed, rows_from_spark, sql_type, table_from_spark
from upshot.spark.workspace import Workspace

# ---- ordered rows ------------------------------------------------------------------------------------------

_AT_ONCE = 1 << 16
"""Rows of a file that are read at a time."""

_Tables = Callable[[], Iterator[pa.Table]]


class OrderedRows:
    """Rows of a piece in the order of its files: any part of them is read without the others. It is quickest where one
    part follows another: then every file is read once, some rows at a time. Threads take turns."""

    def __init__(self, schema: Schema, piece: Piece, workspace: Workspace) -> None:
        self._schema, self._guard = schema, threading.Lock()
        self._empty = arrow_schema_for_spark(schema.types).empty_table()
        files = list(_files(piece, len(framed(schema.types)), workspace))
        self._files = [tables for _, tables in files]
        self._ends = list(accumulate(rows for rows, _ in files))
        found = self._ends[-1] if files else 0
        if found != piece.count:
            raise lost_rows(piece.count, found, f"`{schema.name}`")
        self._number, self._place = 0, 0
        self._open: Iterator[pa.Table] | None = None
        self._table = self._empty

    def part(self, first: int, last: int) -> Part:
        """The rows from place `first` up to before `last`."""
        with self._guard:
            tables = list(self._read(first, min(last, self._ends[-1] if self._ends else 0)))
        return Part(self._schema, pa.concat_tables(tables) if tables else self._empty)

    def _read(self, place: int, last: int) -> Iterator[pa.Table]:
        while place < last:
            self._move_to(place)
            table = self._table.slice(place - self._place, last - place)
            yield spark_table(table, framed(self._schema.types))
            place += table.num_rows

    def _move_to(self, place: int) -> None:
        """Read the table that holds the row at this place."""
        number = bisect_right(self._ends, place)
        if self._open is None or number != self._number or place < self._place:
            self._number, self._place = number, self._ends[number - 1] if number else 0
            self._open, self._table = self._files[number](), self._empty
        while place >= self._place + self._table.num_rows:
            self._place += self._table.num_rows
            found = next(self._open, None)
            if found is None:
                raise lost_rows(self._ends[number], self._place, f"`{self._schema.name}`")
            self._table = found


class Part:
    """Some rows, in the driver."""

    def __init__(self, schema: Schema, table: pa.Table) -> None:
        self._schema, self._table = schema, table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def tuples(self) -> list[Row]:
        return rows_from_spark(self._table, self._schema.types)

    def arrow(self) -> pa.Table:
        return table_from_spark(self._table, self._schema)


def _files(piece: Piece, columns: int, workspace: Workspace) -> Iterator[tuple[int, _Tables]]:
    """For each file its number of rows, and a reader; rows of the driver are like a file."""
    for part in local_and_files(piece):
        if isinstance(part, LocalPiece):
            table = part.table.select(column_names(columns))
            yield part.count, partial(iter, [table])
            continue
        for uri, rows in zip(part.files, workspace.counts(part.files), strict=True):
            yield rows, partial(workspace.tables, [uri], part.columns[:columns], _AT_ONCE)


# ---- rows --------------------------------------------------------------------------------------------------


class SparkRows:
    """A row source over rows that never change. Its files are kept as long as it is alive at the begin or end of a
    change, and for good once a DataFrame reads them; closing the engine removes them."""

    __slots__ = (
        "__weakref__", "_count", "_filed", "_making", "_ordered", "_piece", "_sources", "_table", "is_lent", "schema",
    )  # fmt: skip

    def __init__(self, schema: Schema, piece: Piece, sources: RowSources) -> None:
        self.schema = schema
        # Contents that are all in the driver are a local piece.
        self._piece: Piece | None = piece.added if isinstance(piece, Contents) and piece.is_local else piece
        self._sources: RowSources | None = sources
        self._table: pa.Table | None = None
        self._filed: FilePiece | None = None
        """Rows of the driver, in files for DataFrames of the user."""
        self._ordered: OrderedRows | None = None
        self._making = threading.Lock()
        self._count = piece.count
        self.is_lent = False
        """True if a DataFrame of the user reads the files."""

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        if isinstance(self._piece, LocalPiece) and self._piece.types == self.schema.types:
            return self._piece.rows
        return rows_from_spark(self._fetched(), self.schema.types)

    def some(self, count: int) -> list[Row]:
        """At most this many rows, any; the others are not fetched."""
        if self._is_here:
            return self.tuples()[:count]
        table = _collected(self._frame().limit(count))
        return rows_from_spark(checked_table(table, min(count, self._count)), self.schema.types)

    def part(self, first: int, last: int) -> Part:
        """The rows from place `first` up to before `last`, read from their files. If rows were taken away from the
        files, Spark first writes the remaining ones, once."""
        with self._making:
            if self._ordered is None:
                piece, sources = self._open()
                plain = piece.piece() if isinstance(piece, Contents) else piece
                if plain is None:
                    plain = sources.written(self, self._frame())
                self._ordered = OrderedRows(self.schema, plain, sources.workspace)
            ordered = self._ordered
        return ordered.part(first, last)

    def page(self, order: RowOrder, after: Row | None, limit: int) -> list[Row]:
        """The first rows after a row; Spark selects and sorts, and only they are fetched."""
        if self._is_here or not self.schema.columns:
            return order.page(self.tuples(), after, limit)
        frame = self._frame()
        columns = [F.col(name) for name in column_names(self.schema.arity)]
        if after is not None:
            frame = frame.filter(_is_after(columns, self.schema, order, after))
        keys = zip(order.places, order.descending, strict=True)
        ways = [columns[i].desc_nulls_last() if down else columns[i].asc_nulls_first() for i, down in keys]
        table = _collected(frame.orderBy(*ways).limit(limit))
        if after is None:
            checked_table(table, min(limit, self._count))
        return rows_from_spark(table, self.schema.types)

    def arrow(self) -> pa.Table:
        return table_from_spark(self._fetched(), self.schema)

    def frame(self, session: Any = None) -> DataFrame:
        """The rows as a DataFrame under the relation's column names, by default of the user's session; nothing is
        collected."""
        piece, sources = self._open()
        if isinstance(piece, LocalPiece) and piece.count > MOST_IN_PLAN:
            if self._filed is None:
                self._filed = sources.filed(piece)
            piece = self._filed
        if not isinstance(piece, LocalPiece) and not self.is_lent:
            self.is_lent = True
            sources.lend(self)
        return self._named(piece.frame(session or sources.session, framed(self.schema.types)))

    def parquet(self, folder: str | Path) -> None:
        """Write the rows as a Parquet folder under the relation's column names, large ones without collecting them. The
        files must hold as many as there are."""
        if isinstance(folder, Path) and self._is_here:
            folder.mkdir(parents=True, exist_ok=True)
            # A relation without columns keeps its placeholder column.
            table = self.arrow() if self.schema.columns else self._fetched()
            pq.write_table(table, folder / "part-0.parquet")
            return
        _, sources = self._open()
        frame = self._named(self._frame())
        try:
            if isinstance(folder, Path) and not runs_here(sources.session):
                sources.workspace.write_to(frame, folder)
            else:
                frame.write.mode("overwrite").parquet(spark_path(folder))
        except Exception as error:
            raise translated(error) from error
        written = sources.workspace.counted(folder)
        if written != self._count:
            raise lost_rows(self._count, written, f"`{self.schema.name}`")

    def folders(self) -> Iterator[str]:
        """The folders that must stay as long as this lives."""
        if self._filed is not None:
            yield from self._filed.folders()
        if self._piece is not None and (self._table is None or self.is_lent):
            yield from self._piece.folders()

    def close(self) -> None:
        """Let go of the files; rows that were not read are lost."""
        if not isinstance(self._piece, LocalPiece):
            self._piece = self._ordered = None
        self._sources = None

    @property
    def _is_here(self) -> bool:
        return isinstance(self._piece, LocalPiece) or self._table is not None

    def _open(self) -> tuple[Piece, RowSources]:
        if self._piece is None or self._sources is None:
            raise UsageError(
                f"the rows of `{self.schema.name}` were in files of a database that is closed",
                code="closed",
                help="read the rows, or save them, before the database is closed",
            )
        return self._piece, self._sources

    def _frame(self) -> DataFrame:
        """The rows in our own session, in columns c0 … cn."""
        piece, sources = self._open()
        return piece.frame(sources.private, framed(self.schema.types))

    def _named(self, frame: DataFrame) -> DataFrame:
        return frame.toDF(*(column.name for column in self.schema.columns)) if self.schema.columns else frame

    def _fetched(self) -> pa.Table:
        """The rows as Spark gives them."""
        if self._table is None:
            if isinstance(self._piece, LocalPiece):
                self._table = self._piece.table.select(column_names(self.schema.arity))
            else:
                self._table = checked_table(_collected(self._frame()), self._count)
        return self._table


def _collected(frame: DataFrame) -> pa.Table:
    try:
        return frame.toArrow()
    except Exception as error:
        raise translated(error) from error


def _is_after(columns: Sequence[Column], schema: Schema, order: RowOrder, row: Row) -> Column:
    """The condition that a row comes after another one in the order; NULL is the smallest value."""
    found, same = F.lit(False), F.lit(True)
    for place, descends in zip(order.places, order.descending, strict=True):
        column, type = columns[place], schema.types[place]
        value = F.lit(None if row[place] is None else _literal(row[place])).cast(sql_type(type))
        if row[place] is None:
            further = F.lit(False) if descends else column.isNotNull()
        else:
            further = column < value if descends else column > value
            further = F.coalesce(further, F.lit(descends))
        found, same = found | (same & further), same & column.eqNullSafe(value)
    return found


def _literal(value: Any) -> Any:
    """A value as Spark takes it: it has no integer of 64 bits without a sign."""
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RowSources:
    """The row sources that are still referenced. DataFrames for the user belong to the `session` of the user, all other
    work is done in the `private` one."""

    def __init__(self, session: SparkSession, private: SparkSession, workspace: Workspace) -> None:
        self.session, self.private, self.workspace = session, private, workspace
        self._alive: WeakSet[SparkRows] = WeakSet()
        self._lent: list[SparkRows] = []
        """The rows that a DataFrame reads, which may outlive them."""
        self._unread: list[str] = []
        """Folders of sources that are gone."""

    def rows(self, schema: Schema, piece: Piece) -> Rows:
        source = SparkRows(schema, piece, self)
        self._alive.add(source)
        return Rows(schema, source)

    def lend(self, source: SparkRows) -> None:
        """Keep the files of a source, which a DataFrame reads from now on."""
        self._lent.append(source)

    def filed(self, rows: LocalPiece) -> FilePiece:
        """Rows of the driver as a file."""
        return FilePiece([self.workspace.put([rows.table], rows.table.schema, "lent")], rows.types)

    def written(self, source: SparkRows, frame: DataFrame) -> FilePiece:
        """The rows of a frame in files that stay as long as their source."""
        self.remove_unread()
        try:
            stored = self.workspace.write(frame, "read", apart=True)
        except Exception as error:
            raise translated(error) from error
        # The garbage collector may run anywhere, also in the middle of a call of Spark's.
        finalize(source, self._unread.append, stored.folder)
        if stored.rows != len(source):
            raise lost_rows(len(source), stored.rows, f"`{source.schema.name}`")
        return FilePiece([stored], source.schema.types)

    def remove_unread(self) -> None:
        """Remove the files of sources that are gone."""
        while self._unread:
            self.workspace.drop([self._unread.pop()])

    def folders(self) -> Iterator[str]:
        """The folders that sources or DataFrames may still read."""
        for source in {*self._alive, *self._lent}:
            yield from source.folders()

    def close(self) -> None:
        for source in {*self._alive, *self._lent}:
            source.close()
        self._lent.clear()
