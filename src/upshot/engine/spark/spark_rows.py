"""Rows handed out: small ones are in the driver, large ones stay in files until somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from upshot.core.errors import UsageError
from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema
from upshot.engine.spark.contents import Contents
from upshot.engine.spark.pieces import LocalPiece, Piece
from upshot.spark.failures import translated
from upshot.spark.types import column_names, framed, rows_from_spark, table_from_spark


class SparkRows:
    """A row source over rows that never change. Its files are kept while it lives, as far as that is seen when a change
    begins or ends, and for good once a DataFrame was given out that reads them; closing the engine removes them."""

    __slots__ = ("__weakref__", "_count", "_held", "_lend", "_session", "_table", "is_lent", "schema")

    def __init__(
        self, schema: Schema, held: Piece | Contents, session: SparkSession, lend: Callable[[SparkRows], None]
    ) -> None:
        self.schema = schema
        self._held: Piece | Contents | None = held
        self._session: SparkSession | None = session
        self._table: pa.Table | None = None
        self._count = held.count
        self._lend = lend
        self.is_lent = False
        """Whether a DataFrame was given out that reads the files."""

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        local = self._local()
        if local is not None and local.types == self.schema.types:
            return local.rows
        return rows_from_spark(self._fetched(), self.schema.types)

    def some(self, count: int) -> list[Row]:
        """Any so many rows; the others are not fetched."""
        if self._is_here or self._table is not None:
            return self.tuples()[:count]
        try:
            table = self._open().frame(self._session, framed(self.schema.types)).limit(count).toArrow()
        except Exception as error:
            raise translated(error) from error
        return rows_from_spark(table, self.schema.types)

    def arrow(self) -> pa.Table:
        return table_from_spark(self._fetched(), self.schema)

    def frame(self, session: Any = None) -> DataFrame:
        """The rows as a DataFrame under the relation's column names, of the engine's session unless told; nothing is
        collected."""
        held = self._open()
        frame = held.frame(session or self._session, framed(self.schema.types))
        if not self._is_here and not self.is_lent:
            self.is_lent = True
            self._lend(self)
        return frame.toDF(*(column.name for column in self.schema.columns)) if self.schema.columns else frame

    def parquet(self, folder: Path) -> None:
        """Write the rows as a Parquet folder under the relation's column names, large ones without collecting them."""
        if self._is_here or self._table is not None:
            folder.mkdir(parents=True, exist_ok=True)
            # A relation without columns keeps the one that stands for none.
            table = self.arrow() if self.schema.columns else self._fetched()
            pq.write_table(table, folder / "part-0.parquet")
            return
        try:
            self.frame().write.mode("overwrite").parquet(str(folder))
        except Exception as error:
            raise translated(error) from error

    def folders(self) -> Iterator[Path]:
        """The folders that must stay as long as this lives."""
        if self._held is not None and (self._table is None or self.is_lent):
            yield from self._held.folders()

    def close(self) -> None:
        """The files go: what was not looked at is lost."""
        if not self._is_here:
            self._held = None
        self._session = None

    @property
    def _is_here(self) -> bool:
        held = self._held
        return isinstance(held, LocalPiece) or (isinstance(held, Contents) and held.is_local)

    def _local(self) -> LocalPiece | None:
        held = self._held
        if isinstance(held, LocalPiece):
            return held
        return held.come if isinstance(held, Contents) and held.is_local else None

    def _open(self) -> Piece | Contents:
        if self._held is None or (self._session is None and not self._is_here):
            raise UsageError(
                f"the rows of `{self.schema.name}` were in files of a database that is closed",
                code="closed",
                help="read the rows, or save them, before the database is closed",
            )
        return self._held

    def _fetched(self) -> pa.Table:
        """The rows as Spark gives them."""
        if self._table is None:
            held, local = self._open(), self._local()
            names = column_names(self.schema.arity)
            if local is not None:
                self._table = local.table.select(names)
            else:
                try:
                    self._table = held.frame(self._session, framed(self.schema.types)).toArrow()
                except Exception as error:
                    raise translated(error) from error
        return self._table


class HandedOut:
    """The row sources that are still alive somewhere."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._alive: WeakSet[SparkRows] = WeakSet()
        self._lent: list[SparkRows] = []
        """Those that a DataFrame reads, which may outlive them."""

    def rows(self, schema: Schema, held: Piece | Contents) -> Rows:
        source = SparkRows(schema, held, self._session, self._lent.append)
        self._alive.add(source)
        return Rows(schema, source)

    def folders(self) -> Iterator[Path]:
        """The folders that somebody may still read."""
        for source in {*self._alive, *self._lent}:
            yield from source.folders()

    def close(self) -> None:
        for source in {*self._alive, *self._lent}:
            source.close()
        self._lent.clear()
