"""The exact difference between two sets of rows, in the driver where both are there."""

from __future__ import annotations

from pyspark.sql import SparkSession

from upshot.core.rows import Row
from upshot.engine.spark.frames.set_frames import without
from upshot.engine.spark.jobs.requests import FrameRequest, Steps
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import LocalPiece, Piece, Types, nothing
from upshot.engine.spark.tables.table import FrameTable
from upshot.spark.types import framed


def rows_without(some: Contents, others: Contents, session: SparkSession) -> Steps[Piece]:
    """The rows of `some` that are not among the others."""
    if some.is_local and others.is_local:
        return some.come.without(others.come.places)
    if not some.count:
        return nothing(some.types)
    if not others.count and (whole := some.piece()) is not None:
        return whole
    frame = some.frame(session)
    if others.count:
        frame = without(frame, others.frame(session), some.types, small=others.is_local)
    (piece,) = yield [FrameRequest(frame, some.types, large=True)]
    return piece


def settle_whole(table: FrameTable, contents: Contents, session: SparkSession) -> Steps[None]:
    """Settle a table whose rows were computed from nothing: the change is the difference to the rows it had."""
    if table.is_known:
        table.settle(contents, nothing(table.types), nothing(table.types))
        return
    before = table.previous if table.previous is not None else table
    old, types = before.committed, table.types
    if not old.count or not contents.count:
        came = contents.as_piece().narrowed(types) if contents.count else nothing(types)
        went = yield from _all_of(old, types, session)
    elif old.is_local and contents.is_local:
        were, are = _rows(old, types), _rows(contents, types)
        came, went = are.without(were.places), were.without(are.places)
    else:
        frames = old.frame(session, framed(types)), contents.frame(session, framed(types))
        came, went = yield [
            FrameRequest(without(frames[1], frames[0], types, small=False), types, large=True),
            FrameRequest(without(frames[0], frames[1], types, small=False), types, large=True),
        ]
    if before is table and not table.counted and isinstance(came, LocalPiece) and isinstance(went, LocalPiece):
        contents = old.changed(went, came)
    table.settle(contents, came, went)


def _all_of(contents: Contents, types: Types, session: SparkSession) -> Steps[Piece]:
    piece = contents.piece() if contents.count else nothing(contents.types)
    if piece is not None:
        return piece.narrowed(types)
    (piece,) = yield [FrameRequest(contents.frame(session, framed(types)), types, large=True)]
    return piece


def _rows(contents: Contents, types: Types) -> LocalPiece:
    """Contents in the driver, without the number of derivations."""
    rows: list[Row] = contents.come.rows
    return contents.come if contents.types == types else LocalPiece.of([row[: len(types)] for row in rows], types)
