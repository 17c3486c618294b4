"""Tables of the Spark engine, held whole by a local engine of the driver, and followed from commit to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from upshot.core.schema import Schema
from upshot.engine.limits import BudgetExceeded, Limits, in_bytes
from upshot.engine.local import LocalEngine
from upshot.engine.local.kernel.layout import NEW, T_DEL, T_INS
from upshot.engine.local.storage.restore import read_rows
from upshot.engine.spark.storage.input_rows import decoded
from upshot.engine.spark.storage.pieces import Contents, FilePiece, LocalPiece, Piece, local_and_files, nothing
from upshot.engine.spark.storage.requests import Jobs, spark_table
from upshot.engine.spark.storage.table import FrameTable
from upshot.plan.program_plan import ProgramPlan
from upshot.plan.rule_plan import State
from upshot.spark.types import arrow_schema_for_spark

Codes = NDArray[np.int64]
T = TypeVar("T")
Copy = TypeVar("Copy", bound="DriverCopy")

_CODE, _BESIDE = 8, 28
"""Bytes that a row takes for each of its columns, and beside them: its state, its slot, its place in an index."""


class DriverMemory:
    """The memory that all copies of an engine share."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._copies: WeakSet[DriverCopy] = WeakSet()

    def add(self, copy: DriverCopy) -> None:
        self._copies.add(copy)

    def left_for(self, copy: DriverCopy | None) -> int:
        """Bytes that a copy, or a new one, may take."""
        return self.most - sum(each.reserved for each in self._copies if each is not copy)


class InDriver(Generic[Copy]):
    """Work on a copy of tables, which is kept from commit to commit. Once it has outgrown the driver's memory, the
    driver does not try again."""

    def __init__(self, memory: DriverMemory) -> None:
        self._memory, self._outgrown = memory, False
        self._copy: Copy | None = None

    def release(self) -> None:
        """Let go of the rows."""
        if self._copy is not None:
            self._copy.close()
        self._copy = None

    def fits(self, tables: Iterable[FrameTable]) -> bool:
        """Test whether the driver may hold the rows of the tables, as far as they are known."""
        return not self._outgrown and _needed_bytes(tables) <= self._memory.left_for(self._copy)

    def refusal(self, tables: Iterable[FrameTable]) -> str:
        """The reason that the driver does not hold the rows."""
        most = in_bytes(self._memory.most)
        if not self._memory.most:
            return "the driver is to hold nothing"
        if self._outgrown:
            return f"the driver may hold {most}, which was not enough"
        return f"about {in_bytes(_needed_bytes(tables))} are needed, and the driver may hold {most}"

    def tried(self, work: Callable[[], T]) -> T | None:
        """The result of the work; None if it needs too much memory."""
        try:
            return work()
        except BudgetExceeded:
            self.release()
            self._outgrown = True
            return None


def _needed_bytes(tables: Iterable[FrameTable]) -> int:
    """About the memory for the rows of the tables in a local engine."""
    return sum(table.size * (_CODE * len(table.types) + _BESIDE) for table in tables)


class DriverCopy(LocalEngine):
    """A local engine over the rows of tables, by name. Nothing is derived when it takes over rows of tables: rows of
    views come from their tables, too."""

    def __init__(self, plan: ProgramPlan, limits: Limits, jobs: Jobs, memory: DriverMemory) -> None:
        super().__init__(limits=limits)
        self._jobs, self._memory = jobs, memory
        self.versions: dict[str, int] = {}
        """The versions of the tables whose rows are here."""
        memory.add(self)
        self.install(plan)

    def start(self) -> None:
        """Accept the program as it is, with no rows."""
        self._now.redefined = frozenset()
        for component in self._now.components:
            component.fresh = False
        self.accept()

    def bound(self) -> None:
        """Limit the memory to the part that the other copies leave."""
        self.budget = self._memory.left_for(self)
        if self.reserved > self.budget:
            raise BudgetExceeded(self.reserved, self.budget)

    # ---- following -------------------------------------------------------------------------------------------------

    def follow(self, tables: Mapping[str, FrameTable]) -> None:
        """Take over the committed rows of tables, as far as they have changed."""
        self.bound()
        try:
            for name, table in tables.items():
                self._follow(name, table)
            for name in self._staged:
                with self._bounded(name):
                    self._now.tables[name].settle()
        except BaseException:
            self.rollback()
            raise
        if self._staged:
            self.accept()
        self.versions |= {name: table.version for name, table in tables.items()}

    def _follow(self, name: str, table: FrameTable) -> None:
        """Stage the changes from the rows here to those of the table."""
        known = self.versions.get(name)
        if known == table.version:
            return
        steps = table.steps_since(known) if known is not None else None
        self._staged.add(name)
        if steps is None or any(step.change is None for step in steps):
            self._replace(name, table.contents(State.OLD))
            return
        for inserted, deleted in (step.change for step in steps if step.change is not None):
            self.stage(name, deleted, insert=False)
            self.stage(name, inserted, insert=True)

    def _replace(self, name: str, contents: Contents) -> None:
        table = self._now.tables[name]
        with self._bounded(name):
            table.retract_all(as_view=False)
            table.reserve(contents.count)
        for insert, piece in contents.parts():
            self.stage(name, piece, insert=insert)

    def stage(self, name: str, piece: Piece, *, insert: bool) -> None:
        """Stage rows of a piece."""
        self._staged.add(name)
        for codes in self.coded(self._schema(name), piece):
            with self._bounded(name):
                self._now.tables[name].stage(codes, insert=insert)

    def stage_changes(self, tables: Mapping[str, FrameTable]) -> None:
        """Stage the open change of tables."""
        for name, table in tables.items():
            self.stage(name, table.deleted, insert=False)
            self.stage(name, table.inserted, insert=True)

    def rows_in(self, name: str) -> Piece:
        """The rows of a relation after the open change."""
        return self.piece(self._schema(name), self._now.tables[name].in_state(NEW))

    def change_of(self, name: str) -> tuple[Piece, Piece]:
        """The inserted and the deleted rows of a relation in the open change."""
        schema, table = self._schema(name), self._now.tables[name]
        return self.piece(schema, table.listed(T_INS)), self.piece(schema, table.listed(T_DEL))

    # ---- pieces ----------------------------------------------------------------------------------------------------

    def coded(self, schema: Schema, piece: Piece) -> Iterator[Codes]:
        """The rows of a piece, some at a time."""
        match piece:
            case LocalPiece():
                if piece.count:
                    yield from read_rows(self._codec, schema, piece.table)
            case FilePiece():
                for table in self._tables_of(piece):
                    yield from read_rows(self._codec, schema, table)
            case Contents():
                for part in local_and_files(piece):
                    yield from self.coded(schema, part)

    def _tables_of(self, piece: FilePiece) -> Iterator[pa.Table]:
        workspace = self._jobs.workspace
        if not workspace.is_near(piece.files):
            yield self._jobs.read(piece)
            return
        for table in workspace.tables(piece.files, piece.columns):
            yield spark_table(table, piece.types)

    def piece(self, schema: Schema, codes: Codes) -> Piece:
        """Rows of codes as a piece: in the driver if they are few, else in a file that the driver writes."""
        if not len(codes):
            return nothing(schema.types)
        if not schema.arity:
            return LocalPiece.of([()], ())
        parts = decoded(self._codec, schema, codes)
        if len(codes) <= self._jobs.small:
            return LocalPiece(pa.concat_tables(parts), schema.types)
        stored = self._jobs.workspace.put(parts, arrow_schema_for_spark(schema.types), "rows")
        return FilePiece((stored,), schema.types)
