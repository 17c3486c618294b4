"""Relations as a store keeps them, adopted and saved without passing through the driver."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from upshot.core.errors import EngineError
from upshot.core.rows import Row, Rows
from upshot.engine.saved import Saved
from upshot.engine.spark.asks import Steps, local_piece, rows_in
from upshot.engine.spark.contents import Contents
from upshot.engine.spark.pieces import FilePiece, LocalPiece, Piece, nothing
from upshot.engine.spark.tables import Table, miscounted, spilled
from upshot.spark.types import arrow_for_spark


def adopted(table: Table, saved: Saved, session: SparkSession) -> Steps[None]:
    """Make the saved rows the committed ones. The folder stays where it is, and is read there."""
    if table.counted:
        # Nobody saved how often a row is derived: it is computed, and what comes out is what was saved.
        table.is_known = True
        return
    contents = Contents.of(_folder(table, saved))
    for came, went in saved.changes:
        contents = contents.changed(_change(table, went), _change(table, came))
        contents = yield from spilled(contents, session, table.small)
    table.committed = contents


def _folder(table: Table, saved: Saved) -> Piece:
    if saved.folder is None or not saved.rows:
        return nothing(table.types)
    if not table.types:
        return _truth(saved.rows)
    return FilePiece((saved.folder,), saved.rows, table.types, [column.name for column in table.schema.columns])


def _change(table: Table, rows: pa.Table | Path) -> Piece:
    if isinstance(rows, Path):
        count = rows_in(rows)
        if not table.types:
            return _truth(count)
        return FilePiece((rows,), count, table.types, [column.name for column in table.schema.columns])
    if not table.types:
        return _truth(rows.num_rows)
    return local_piece(arrow_for_spark(rows, table.schema), table.types)


def _truth(count: int) -> LocalPiece:
    rows: list[Row] = [()] if count else []
    return LocalPiece.of(rows, ())


def save(rows: Rows, folder: Path, count: int) -> int:
    """Write the rows; the files must hold as many as there are."""
    rows.to_parquet(folder)
    try:
        written = rows_in(folder)
    except OSError as error:
        raise EngineError(
            f"`{folder}` cannot be read back: {error}", code="lost-rows", help="check that every node sees the folder"
        ) from error
    if written != count:
        raise miscounted(f"`{rows.schema.name}`", count, written)
    return count
