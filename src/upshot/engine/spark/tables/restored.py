"""Relations as a store keeps them, adopted without passing through the driver."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from upshot.core.errors import DataError
from upshot.core.rows import Row
from upshot.engine.saved import Saved
from upshot.engine.spark.jobs.requests import Jobs, Steps, local_piece
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import FilePiece, LocalPiece, Piece, nothing
from upshot.engine.spark.tables.table import FrameTable, spilled
from upshot.spark.types import arrow_for_spark


def adopted(table: FrameTable, saved: Saved, jobs: Jobs) -> Steps[None]:
    """Make the saved rows the committed ones. Files that the executors reach stay where they are, and are read there;
    others are copied to the location."""
    if table.counted:
        # Nobody saved how often a row is derived: it is computed, and what comes out is what was saved.
        table.is_known = True
        return
    piece: Piece = nothing(table.types)
    if saved.folder is not None and saved.rows:
        piece = _folder(table, saved.folder, jobs, saved.rows)
    contents = Contents.of(piece)
    for came, went in saved.changes:
        contents = contents.changed(_change(table, went, jobs), _change(table, came, jobs))
        contents = yield from spilled(contents, jobs.session, table.small)
    table.committed = contents


def _folder(table: FrameTable, folder: str | Path, jobs: Jobs, rows: int | None = None) -> Piece:
    """The rows of a folder, which must be as many as the store says, if it says so."""
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
