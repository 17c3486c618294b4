"""A relation on Spark: its committed rows, and the rows after an open change."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.core.types import NUMBER
from upshot.engine.spark.frames.joins import within, without
from upshot.engine.spark.storage.pieces import SMALL, Contents, LocalPiece, Piece, Types, nothing
from upshot.engine.spark.storage.requests import FrameRequest, Steps, in_step, lost_rows
from upshot.plan.rule_plan import Change, State
from upshot.spark.types import framed

MOST_LAYERS = 4
MOST_FOLDERS = 32
"""Contents of more layers or folders than these are written anew: reading them takes longer with each."""


MOST_STEPS = 32
"""The most changes that a table remembers for copies that follow it."""

_versions = itertools.count(1)


@dataclass(frozen=True, slots=True)
class AcceptedChange:
    """A change that was accepted, from one version of the rows to the next; None if the changed rows are not known."""

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
        """True if the last statements inserted absent rows and deleted present ones: the next ones are assumed to do
        so, too, and rows in files are looked up meanwhile."""
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

    def contents(self, state: State) -> Contents:
        """The rows after the open change, or those before it; without the number of derivations."""
        stored = self.new if state is State.NEW else self.committed
        return stored.narrowed(self.types)

    def settle(self, contents: Contents, inserted: Piece, deleted: Piece) -> None:
        """The rows after the change, and the net change itself."""
        self.pending, self.inserted, self.deleted = contents, inserted, deleted
        self.pending_version = next(_versions)

    def settle_change(self, inserted: Piece, deleted: Piece) -> None:
        """Settle the table by its net change."""
        self.settle(self.committed.changed(deleted, inserted), inserted, deleted)

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
        """Note the accepted change, if it starts from the rows here and takes little room."""
        change, inserted, deleted = None, self.inserted, self.deleted
        known = self.previous is None and not self.is_known
        if known and isinstance(inserted, LocalPiece) and isinstance(deleted, LocalPiece):
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
        stored = self.new if state is State.NEW else self.committed
        return stored.frame(self._session, framed(self.types))

    def change(self, sign: Change) -> Piece:
        """The rows that the open change inserts, or those that it deletes."""
        return self.deleted if sign is Change.DELETED else self.inserted

    def folders(self) -> Iterator[str]:
        """The folders of committed rows."""
        yield from self.committed.folders()
        if self.previous is not None:
            yield from self.previous.folders()

    # ---- files -------------------------------------------------------------------------------------------------

    def compact(self) -> Steps[None]:
        """Move rows of the pending contents from the driver to files if there are many, or write all anew if reading
        them has become slow. The count of the written rows must be the known one."""
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
    bare = Contents(contents.types, below=contents.below, deleted=contents.deleted, files=contents.files)
    removed, added = yield [contents.removed, contents.added]
    return bare.changed(removed, added)


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


def sifted(rows: Piece, others: Contents, session: SparkSession, *, present: bool) -> Steps[Piece]:
    """The rows that are, or are not, present in the others."""
    if not rows.count or not others.count:
        return nothing(rows.types) if present else rows
    if isinstance(rows, LocalPiece):
        hits: list[Piece] = []
        if not others.is_local:
            frame = others.hits(session, rows.frame(session), rows.types, ranges=rows.ranges())
            hits = yield [FrameRequest(frame, rows.types, here=True)]
        return others.sift(rows, hits, present=present)
    sift = within if present else without
    frame = sift(rows.frame(session), others.frame(session), rows.types, small=others.is_local)
    (piece,) = yield [FrameRequest(frame, rows.types, large=True)]
    return piece


def rows_without(some: Contents, others: Contents, session: SparkSession) -> Steps[Piece]:
    """The rows of `some` that are not among the others."""
    if not some.count:
        return nothing(some.types)
    whole = some.piece()
    if whole is not None and (some.is_local or not others.count):
        return (yield from sifted(whole, others, session, present=False))
    frame = some.frame(session)
    if others.count:
        frame = without(frame, others.frame(session), some.types, small=others.is_local)
    (piece,) = yield [FrameRequest(frame, some.types, large=True)]
    return piece


def differences(old: Contents, new: Contents, session: SparkSession) -> Steps[tuple[Piece, Piece]]:
    """The rows that only the new contents have, and those that only the old ones have."""
    inserted, deleted = yield from in_step([rows_without(new, old, session), rows_without(old, new, session)])
    return inserted, deleted


def settle_whole(table: FrameTable, contents: Contents, session: SparkSession) -> Steps[None]:
    """Settle a table whose rows were computed from nothing: the change is the difference to the rows it had."""
    if table.is_known:
        table.settle(contents, nothing(table.types), nothing(table.types))
        return
    before = table.previous if table.previous is not None else table
    inserted, deleted = yield from differences(
        before.committed.narrowed(table.types), contents.narrowed(table.types), session
    )
    if before is table and not table.counted and isinstance(inserted, LocalPiece) and isinstance(deleted, LocalPiece):
        contents = before.committed.changed(deleted, inserted)
    table.settle(contents, inserted, deleted)
