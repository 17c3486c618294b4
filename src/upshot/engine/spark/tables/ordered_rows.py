"""Rows of pieces in the order of their files: any part of them is read without the others."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import pyarrow as pa

from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.engine.spark.jobs.requests import spark_table
from upshot.engine.spark.storage.pieces import FilePiece, LocalPiece, MixedPiece, Piece
from upshot.engine.spark.tables.table import miscounted
from upshot.spark.types import arrow_schema_for_spark, column_names, framed, rows_from_spark, table_from_spark
from upshot.spark.workspace import Workspace

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
            raise miscounted(f"`{schema.name}`", piece.count, found)
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
                raise miscounted(f"`{self._schema.name}`", self._ends[number], self._place)
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
