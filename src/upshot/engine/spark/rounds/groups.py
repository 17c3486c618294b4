"""Views of aggregate values: only the groups that a change touches are looked at."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.engine.spark.frames.aggregates import group_values, groups
from upshot.engine.spark.frames.set_frames import within, without
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import LocalPiece, Piece, nothing, united
from upshot.engine.spark.storage.requests import FrameRequest, Steps
from upshot.engine.spark.storage.table import FrameTable, settle_whole
from upshot.engine.work import ViewWork
from upshot.syntax.ast import Atom


def grouped(
    clause: Clause, tables: Mapping[str, FrameTable], schemas: Mapping[str, Schema], session: SparkSession,
    work: ViewWork, afresh: bool,
) -> Steps[None]:  # fmt: skip
    """Settle the view of the aggregate clause `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.`"""
    first = clause.body[0]
    assert isinstance(first, Atom)
    view, rows = tables[clause.head.relation], tables[first.relation]
    small = isinstance(rows.inserted, LocalPiece) and isinstance(rows.deleted, LocalPiece)
    work.rounds += 1
    if afresh:
        values = group_values(clause, schemas, rows.new_frame())
        (piece,) = yield [FrameRequest(values, view.types, large=rows.new.count > view.small)]
        work.derived += piece.count
        yield from settle_whole(view, Contents.of(piece), session)
    else:
        yield from _touched(clause, schemas, view, rows, session, small=small)
        work.derived += view.changed
    work.inserted += view.inserted.count
    work.deleted += view.deleted.count


def _touched(
    clause: Clause,
    schemas: Mapping[str, Schema],
    view: FrameTable,
    rows: FrameTable,
    session: SparkSession,
    *,
    small: bool,
) -> Steps[None]:
    """New values of the groups that lost or gained a row, against the old ones."""
    width = len(view.types) - 1
    kinds = view.types[:width]
    touched = _touched_groups(rows, width, session, small=small)
    new, old = rows.new_frame(), view.old_frame()
    if width:
        new, old = _of_groups(new, touched, kinds, small), _of_groups(old, touched, kinds, small)
    values = group_values(clause, schemas, new)
    if small and view.committed.is_local:
        (after,) = yield [FrameRequest(values, view.types)]
        before: Piece = _known(view, touched_rows(rows, width), width)
    else:
        after, before = yield [
            FrameRequest(values, view.types, large=not small),
            FrameRequest(old, view.types, large=not small),
        ]
    if isinstance(after, LocalPiece) and isinstance(before, LocalPiece):
        came: Piece = after.without(before.places)
        went: Piece = before.without(after.places)
    else:
        frames = after.frame(session), before.frame(session)
        came, went = yield [
            FrameRequest(without(frames[0], frames[1], view.types, small=False), view.types, large=True),
            FrameRequest(without(frames[1], frames[0], view.types, small=False), view.types, large=True),
        ]
    view.settle(view.committed.changed(went, came), came, went)


def _touched_groups(rows: FrameTable, width: int, session: SparkSession, *, small: bool) -> DataFrame:
    if small and width:
        return LocalPiece.of(touched_rows(rows, width), rows.types[:width]).frame(session)
    changed = [piece.frame(session) for piece in (rows.inserted, rows.deleted) if piece.count]
    return groups(united(changed), width)


def touched_rows(rows: FrameTable, width: int) -> set[tuple[object, ...]]:
    """The groups of a small change."""
    assert isinstance(rows.inserted, LocalPiece)
    assert isinstance(rows.deleted, LocalPiece)
    return {row[:width] for row in (*rows.inserted.rows, *rows.deleted.rows)}


def _known(view: FrameTable, touched: set[tuple[object, ...]], width: int) -> LocalPiece:
    """The values there are of these groups."""
    rows = [row for row in view.committed.come.rows if row[:width] in touched]
    return LocalPiece.of(rows, view.types) if rows else nothing(view.types)


def _of_groups(frame: DataFrame, touched: DataFrame, kinds: tuple[Type, ...], small: bool) -> DataFrame:
    return within(frame, touched, kinds, small=small)
