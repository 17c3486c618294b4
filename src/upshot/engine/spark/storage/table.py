"""A relation on Spark: its committed rows, and what an open change makes of them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.core.types import NUMBER
from upshot.engine.spark.frames.set_frames import without
from upshot.engine.spark.storage.contents import Contents
from upshot.engine.spark.storage.pieces import SMALL, LocalPiece, Piece, Types, nothing
from upshot.engine.spark.storage.requests import FrameRequest, Steps, lost_rows
from upshot.plan.rule_plan import Change, State
from upshot.spark.types import framed

MOST_LAYERS = 4
MOST_FOLDERS = 32
"""Contents of more layers or folders than these are written anew: reading them takes longer with each."""


MOST_STEPS = 32
"""The most changes that a table remembers for those who follow it."""

_versions = itertools.count(1)


@dataclass(frozen=True, slots=True)
class AcceptedChange:
    """A change that was accepted, from one version of the rows to the next; None if what changed is not known."""

    before: int
    after: int
    change: tuple[LocalPiece, LocalPiece] | None
    """The rows inserted, and those deleted."""

    @property
    def size(self) -> int:
        return sum(rows.count for rows in self.change) if self.change is not None else 0


class FrameTable:
    """`counted`: every stored row carries, in a last column, how often it is derived."""

    def __init__(self, schema: Schema, session: SparkSession, *, small: int = SMALL, counted: bool = False) -> None:
        self.schema, self.counted = schema, counted
        self._session, self.small = session, small
        self.types: Types = schema.types
        self.stored_types: Types = (*framed(schema.types), NUMBER) if counted else schema.types
        self._steps: deque[AcceptedChange] = deque(maxlen=MOST_STEPS)
        self.committed = Contents(self.stored_types)
        self.is_known = False
        """True if the rows are those of a store, and only their numbers of derivations must be computed."""
        self.previous: FrameTable | None = None
        """The table that this one replaces in an open definition: the change is reported against its rows."""
        self.had_effect = False
        """True if the last statements inserted absent rows and deleted present ones: the next ones are propagated as
        if they did so, too, and rows in files are looked up meanwhile."""
        self.rollback()

    @property
    def committed(self) -> Contents:
        """The rows before any open change; `version` identifies their state, among all tables."""
        return self._committed

    @committed.setter
    def committed(self, contents: Contents) -> None:
        self._committed, self.version = contents, next(_versions)
        self._steps.clear()

    def rollback(self) -> None:
        """Back to the committed rows."""
        self.pending: Contents | None = None
        self.pending_version = 0
        """The version of the rows once the open change is accepted, if there is one."""
        self.inserted: Piece = nothing(self.types)
        self.deleted: Piece = nothing(self.types)
        self.neighbors: dict[tuple[int, ...], list[Row]] = {}
        """Old rows that share a key with a row which the change touches, by key, where they were looked up."""
        self.is_irrelevant = False
        """True if no literal of any view can match a row of the change."""

    def logical(self) -> Contents:
        """The committed rows, without the number of derivations."""
        if not self.counted:
            return self.committed
        return self.committed.narrowed(self.types)

    def new_logical(self) -> Contents:
        """The rows after the open change, without the number of derivations."""
        return self.new.narrowed(self.types) if self.counted else self.new

    def settle(self, contents: Contents, inserted: Piece, deleted: Piece) -> None:
        """The rows after the change, and the net change itself."""
        self.pending, self.inserted, self.deleted = contents, inserted, deleted
        self.pending_version = next(_versions)

    def accept(self) -> None:
        if self.pending is not None:
            self._remember()
            self._committed, self.version = self.pending, self.pending_version
        self.previous, self.is_known = None, False
        self.rollback()

    def steps_since(self, version: int) -> list[AcceptedChange] | None:
        """The accepted changes since a version; None if they are not remembered."""
        if version == self.version:
            return []
        for number, step in enumerate(self._steps):
            if step.before == version:
                return list(itertools.islice(self._steps, number, None))
        return None

    def _remember(self) -> None:
        """Note the change that is accepted, as far as it leads from the rows here and takes little room."""
        change = None
        if self.previous is None and not self.is_known:
            inserted, deleted = self.inserted, self.deleted
            if isinstance(inserted, LocalPiece) and isinstance(deleted, LocalPiece):
                change = inserted, deleted
        self._steps.append(AcceptedChange(self.version, self.pending_version, change))
        while sum(step.size for step in self._steps) > self.small:
            self._steps.popleft()

    @property
    def new(self) -> Contents:
        return self.pending if self.pending is not None else self.committed

    @property
    def changed(self) -> int:
        """The number of inserted and deleted rows."""
        return self.inserted.count + self.deleted.count

    @property
    def matters(self) -> bool:
        """Test whether the change may cause another one."""
        return self.changed > 0 and not self.is_irrelevant

    @property
    def size(self) -> int:
        """The rows of either state."""
        return max(self.committed.count, self.new.count)

    def frame(self, state: State) -> DataFrame:
        """The rows after the open change, or those before it."""
        return self.new_frame() if state is State.NEW else self.old_frame()

    def change(self, sign: Change) -> Piece:
        """The rows that the open change inserts, or those that it deletes."""
        return self.deleted if sign is Change.DELETED else self.inserted

    def old_frame(self) -> DataFrame:
        return self.committed.frame(self._session, framed(self.types))

    def new_frame(self) -> DataFrame:
        return self.new.frame(self._session, framed(self.types))

    def folders(self) -> Iterator[str]:
        """The folders of committed rows."""
        yield from self.committed.folders()
        if self.previous is not None:
            yield from self.previous.folders()

    # ---- files -------------------------------------------------------------------------------------------------

    def compact(self) -> Steps[None]:
        """Move rows of the pending contents from the driver to files if there are many, or write all anew if reading
        them has become slow. The count of what is written must be the one that is known."""
        pending = self.pending
        if pending is None:
            return
        if pending.layers <= MOST_LAYERS and len(set(pending.folders())) <= MOST_FOLDERS:
            self.pending = yield from spilled(pending, self.small)
            return
        (piece,) = yield [FrameRequest(pending.frame(self._session), self.stored_types, stays_in_files=True)]
        if piece.count != pending.count:
            raise lost_rows(pending.count, piece.count, f"`{self.schema.name}`")
        self.pending = Contents.of(piece)


def spilled(contents: Contents, small: int) -> Steps[Contents]:
    """The same contents with no more rows in the driver than it should hold."""
    if contents.overlay <= small:
        return contents
    bare = Contents(contents.types, below=contents.below, minus=contents.minus, files=contents.files)
    gone, come = yield [contents.gone, contents.come]
    return bare.changed(gone, come)


class TableStatistics:
    """Sizes for the planner, known without a job."""

    def __init__(self, tables: Mapping[str, FrameTable], sizes: Callable[[str], int | None] = lambda _: None) -> None:
        self._tables, self._sizes = tables, sizes

    def size(self, relation: str) -> int:
        known = self._sizes(relation)
        return known if known is not None else self._tables[relation].size

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        return None


# ---- differences -------------------------------------------------------------------------------------------------


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
