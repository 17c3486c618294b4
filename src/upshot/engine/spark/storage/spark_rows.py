"""Rows handed out: small ones are in the driver, large ones stay in files until somebody looks."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
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
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import FilePiece, LocalPiece, MixedPiece, Piece
from upshot.engine.spark.storage.requests import checked_table, lost_rows, spark_table
from upshot.spark.failures import translated
from upshot.spark.lent_rows import MOST_IN_PLAN
from upshot.spark.location import runs_here, spark_path
from upshot.spark.types import arrow_schema_for_spark, column_names, framed, rows_from_spark, sql_type, table_from_spark
from upshot.spark.workspace import Workspace

# ---- ordered rows ------------------------------------------------------------------------------------------
# Rows of pieces in the order of their files: any part of them is read without the others.


_AT_ONCE = 1 << 16
"""Rows of a file that are read at a time."""

_Tables = Callable[[], Iterator[pa.Table]]


class OrderedRows:
    """A reader of parts. It is quickest where one part follows another: then every file is read once, some rows at a
    time. Threads take turns."""

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
        """Have the rows here of which one has this place."""
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
    """For each file how many rows it has, and a reader of them; rows of the driver are like a file."""
    parts: Sequence[LocalPiece | FilePiece] = piece.parts if isinstance(piece, MixedPiece) else (piece,)
    for part in parts:
        if isinstance(part, LocalPiece):
            yield part.count, _local(part, columns)
            continue
        for uri, rows in zip(part.files, workspace.counts(part.files), strict=True):
            yield rows, _filed(uri, part.columns[:columns], workspace)


def _local(part: LocalPiece, columns: int) -> _Tables:
    return lambda: iter([part.table.select(column_names(columns))])


def _filed(uri: str, names: list[str], workspace: Workspace) -> _Tables:
    return lambda: workspace.tables([uri], names, _AT_ONCE)


# ---- rows --------------------------------------------------------------------------------------------------


class SparkRows:
    """A row source over rows that never change. Its files are kept while it lives, as far as that is seen when a change
    begins or ends, and for good once a DataFrame was given out that reads them; closing the engine removes them."""

    __slots__ = (
        "__weakref__",
        "_count",
        "_filed",
        "_held",
        "_lender",
        "_making",
        "_ordered",
        "_table",
        "is_lent",
        "schema",
    )

    def __init__(self, schema: Schema, held: Piece | Contents, lender: HandedOut) -> None:
        self.schema = schema
        self._held: Piece | Contents | None = held
        self._lender: HandedOut | None = lender
        self._table: pa.Table | None = None
        self._filed: FilePiece | None = None
        """Rows of the driver, in files for DataFrames that were given out."""
        self._ordered: OrderedRows | None = None
        self._making = threading.Lock()
        self._count = held.count
        self.is_lent = False
        """True if a DataFrame of the user reads the files."""

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        local = self._local()
        if local is not None and local.types == self.schema.types:
            return local.rows
        return rows_from_spark(self._fetched(), self.schema.types)

    def some(self, count: int) -> list[Row]:
        """At most this many rows, any; the others are not fetched."""
        if self._is_here or self._table is not None:
            return self.tuples()[:count]
        held, lender = self._open()
        try:
            table = held.frame(lender.private, framed(self.schema.types)).limit(count).toArrow()
        except Exception as error:
            raise translated(error) from error
        return rows_from_spark(checked_table(table, min(count, self._count)), self.schema.types)

    def part(self, first: int, last: int) -> Part:
        """The rows from place `first` up to before `last`, read from their files. Where rows were taken away from
        those, Spark writes the ones that are left first, once."""
        with self._making:
            if self._ordered is None:
                held, lender = self._open()
                piece = held.piece() if isinstance(held, Contents) else held
                if piece is None:
                    piece = lender.written(self, held.frame(lender.private, framed(self.schema.types)))
                self._ordered = OrderedRows(self.schema, piece, lender.workspace)
            ordered = self._ordered
        return ordered.part(first, last)

    def page(self, order: RowOrder, after: Row | None, limit: int) -> list[Row]:
        """The first rows after a row; Spark selects and sorts, and only they are fetched."""
        if self._is_here or self._table is not None or not self.schema.columns:
            return order.page(self.tuples(), after, limit)
        held, lender = self._open()
        frame = held.frame(lender.private, framed(self.schema.types))
        columns = [F.col(name) for name in column_names(self.schema.arity)]
        if after is not None:
            frame = frame.filter(_is_after(columns, self.schema, order, after))
        keys = zip(order.places, order.descending, strict=True)
        ways = [columns[i].desc_nulls_last() if down else columns[i].asc_nulls_first() for i, down in keys]
        try:
            table = frame.orderBy(*ways).limit(limit).toArrow()
        except Exception as error:
            raise translated(error) from error
        if after is None:
            checked_table(table, min(limit, self._count))
        return rows_from_spark(table, self.schema.types)

    def arrow(self) -> pa.Table:
        return table_from_spark(self._fetched(), self.schema)

    def frame(self, session: Any = None) -> DataFrame:
        """The rows as a DataFrame under the relation's column names, by default of the user's session; nothing is
        collected."""
        held, lender = self._open()
        local = self._local()
        if local is not None and local.count > MOST_IN_PLAN:
            if self._filed is None:
                self._filed = lender.filed(local)
            held = self._filed
        if (local is None or held is self._filed) and not self.is_lent:
            self.is_lent = True
            lender.lend(self)
        frame = held.frame(session or lender.session, framed(self.schema.types))
        return frame.toDF(*(column.name for column in self.schema.columns)) if self.schema.columns else frame

    def parquet(self, folder: str | Path) -> None:
        """Write the rows as a Parquet folder under the relation's column names, large ones without collecting them. The
        files must hold as many as there are."""
        if isinstance(folder, Path) and (self._is_here or self._table is not None):
            folder.mkdir(parents=True, exist_ok=True)
            # A relation without columns keeps its placeholder column.
            table = self.arrow() if self.schema.columns else self._fetched()
            pq.write_table(table, folder / "part-0.parquet")
            return
        held, lender = self._open()
        frame = held.frame(lender.private, framed(self.schema.types))
        if self.schema.columns:
            frame = frame.toDF(*(column.name for column in self.schema.columns))
        try:
            if isinstance(folder, Path) and not runs_here(lender.session):
                lender.workspace.write_to(frame, folder)
            else:
                frame.write.mode("overwrite").parquet(spark_path(folder))
        except Exception as error:
            raise translated(error) from error
        written = lender.workspace.counted(folder)
        if written != self._count:
            raise lost_rows(self._count, written, f"`{self.schema.name}`")

    def folders(self) -> Iterator[str]:
        """The folders that must stay as long as this lives."""
        if self._filed is not None:
            yield from self._filed.folders()
        if self._held is not None and (self._table is None or self.is_lent):
            yield from self._held.folders()

    def close(self) -> None:
        """The files go: what was not looked at is lost."""
        if not self._is_here:
            self._held = self._ordered = None
        self._lender = None

    @property
    def _is_here(self) -> bool:
        return self._local() is not None

    def _local(self) -> LocalPiece | None:
        held = self._held
        if isinstance(held, LocalPiece):
            return held
        return held.come if isinstance(held, Contents) and held.is_local else None

    def _open(self) -> tuple[Piece | Contents, HandedOut]:
        if self._held is None or self._lender is None:
            raise UsageError(
                f"the rows of `{self.schema.name}` were in files of a database that is closed",
                code="closed",
                help="read the rows, or save them, before the database is closed",
            )
        return self._held, self._lender

    def _fetched(self) -> pa.Table:
        """The rows as Spark gives them."""
        if self._table is None:
            local = self._local()
            if local is not None:
                self._table = local.table.select(column_names(self.schema.arity))
            else:
                held, lender = self._open()
                try:
                    table = held.frame(lender.private, framed(self.schema.types)).toArrow()
                except Exception as error:
                    raise translated(error) from error
                self._table = checked_table(table, self._count)
        return self._table


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


class HandedOut:
    """The row sources that are still alive somewhere. DataFrames that are given out belong to the `session` of the
    user, all other work is done in the `private` one."""

    def __init__(self, session: SparkSession, private: SparkSession, workspace: Workspace) -> None:
        self.session, self.private, self.workspace = session, private, workspace
        self._alive: WeakSet[SparkRows] = WeakSet()
        self._lent: list[SparkRows] = []
        """The rows that a DataFrame reads, which may outlive them."""
        self._unread: list[str] = []
        """Folders of rows that nobody can read any more."""

    def rows(self, schema: Schema, held: Piece | Contents) -> Rows:
        source = SparkRows(schema, held, self)
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
        # A collector of garbage may be anywhere in this process, also in the middle of a call of Spark's.
        finalize(source, self._unread.append, stored.folder)
        if stored.rows != len(source):
            raise lost_rows(len(source), stored.rows, f"`{source.schema.name}`")
        return FilePiece([stored], source.schema.types)

    def remove_unread(self) -> None:
        """Remove the files of sources that are gone."""
        while self._unread:
            self.workspace.drop([self._unread.pop()])

    def folders(self) -> Iterator[str]:
        """The folders that somebody may still read."""
        for source in {*self._alive, *self._lent}:
            yield from source.folders()

    def close(self) -> None:
        for source in {*self._alive, *self._lent}:
            source.close()
        self._lent.clear()
