"""Requests for sets of rows as Spark jobs: many small ones in one job, large ones as files, all counted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from upshot.core.errors import EngineError
from upshot.core.types import NUMBER, Type
from upshot.engine.spark.frames.joins import next_job
from upshot.engine.spark.frames.rule_frames import hubs_split
from upshot.engine.spark.storage.pieces import SMALL, FilePiece, LocalPiece, Piece, Types, nothing, united
from upshot.spark.failures import translated
from upshot.spark.types import arrow_schema_for_spark, arrow_type_for_spark, column_names, framed, sql_type
from upshot.spark.workspace import StoredRows, Workspace

BRANCHES = 16
"""The most rules per job: planning more of them takes longer than a second job."""

_WITHIN_PARTITION = (1 << 33) - 1
"""The part of Spark's increasing ids that counts the rows of a partition."""


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """A request for the distinct rows of a frame. `repeats`: it may have a row several times; while they are few, the
    driver removes duplicates faster than a shuffle. `large`: more rows than the driver holds are expected; the answer
    goes to files; `stays_in_files`: also if there are few. `here`: the answer comes to the driver at any size, which is
    known to be bounded. `branches`: the number of rules that it joins."""

    frame: DataFrame
    types: Types
    large: bool = False
    stays_in_files: bool = False
    here: bool = False
    repeats: bool = False
    branches: int = 1


Request = FrameRequest | LocalPiece
"""Rows of the driver are requested as files, which the driver writes without a job."""

T = TypeVar("T")
K = TypeVar("K")
Steps = Generator[Sequence[Request], list[Piece], T]
"""A computation in rounds: it yields requests and receives the answers in the same order."""


@dataclass(frozen=True, slots=True)
class Task:
    """A computation that begins when the tasks named in `after` have ended. `begin` is called then and returns its
    steps, or None if there is nothing to do."""

    name: str
    begin: Callable[[], Steps[None] | None]
    after: frozenset[str] = field(default_factory=frozenset)


# ---- rows of several sets in one frame -------------------------------------------------------------------------


@dataclass(frozen=True)
class Slots:
    """The tag, then slots that the columns of each member share with columns of the same type of other members. A
    single member needs no tag: its columns are the slots.

    >>> from upshot.core.types import SYMBOL
    >>> slots = Slots(((NUMBER, NUMBER), (SYMBOL, NUMBER)))
    >>> [str(type) for type in slots.types], slots.places
    (['number', 'number?', 'number?', 'symbol?'], [[1, 2], [3, 1]])
    """

    members: tuple[tuple[Type, ...], ...]

    @property
    def tagged(self) -> bool:
        return len(self.members) > 1

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of all columns."""
        return (NUMBER, *self._placed[0]) if self.tagged else framed(self.members[0])

    @property
    def names(self) -> list[str]:
        return column_names(len(self.types))

    @property
    def places(self) -> list[list[int]]:
        """For each member the columns that hold its columns."""
        return self._placed[1] if self.tagged else [list(range(len(self.types)))]

    @functools.cached_property
    def _placed(self) -> tuple[list[Type], list[list[int]]]:
        slots: list[Type] = []
        placed: list[list[int]] = []
        for member in self.members:
            free = list(range(len(slots)))
            places: list[int] = []
            for type in framed(member):
                wanted = replace(type, name="", nullable=True)
                slot = next((each for each in free if slots[each] == wanted), None)
                if slot is None:
                    slot = len(slots)
                    slots.append(wanted)
                else:
                    free.remove(slot)
                places.append(slot + 1)
            placed.append(places)
        return slots, placed

    # ---- frames ------------------------------------------------------------------------------------------------

    def frame(self, member: int, rows: DataFrame) -> DataFrame:
        """Rows of one member, in its columns c0 … cn, as rows of the whole."""
        if not self.tagged:
            return rows.select(*self.names)
        values = ["NULL"] * len(self.types)
        values[0] = str(member)
        for name, place in zip(column_names(len(self.members[member])), self.places[member], strict=True):
            values[place] = name
        placed = zip(values, self.types, self.names, strict=True)
        # As text: a column made in Python is some calls to Java, and there are many.
        return rows.selectExpr(*(f"CAST({value} AS {sql_type(type)}) AS {name}" for value, type, name in placed))

    # ---- Arrow -------------------------------------------------------------------------------------------------

    def split(self, table: pa.Table) -> list[pa.Table]:
        """The rows of each member, in columns c0 … cn."""
        found = []
        for member, places in enumerate(self.places):
            rows = table.filter(pc.equal(table.column(0), member)) if self.tagged else table
            columns = [rows.column(place) for place in places]
            found.append(pa.table(columns, names=column_names(len(self.members[member]))))
        return found

    def batch(self, member: int, columns: Sequence[pa.Array], count: int) -> pa.RecordBatch:
        """Rows of one member as a batch of the whole."""
        if not self.tagged:
            return pa.RecordBatch.from_arrays(list(columns), names=self.names)
        placed = dict(zip(self.places[member], columns, strict=True))
        arrays = [pa.array(np.full(count, member, np.int64))]
        for place, type in enumerate(self.types[1:], start=1):
            arrays.append(placed[place] if place in placed else pa.nulls(count, arrow_type_for_spark(type)))
        return pa.RecordBatch.from_arrays(arrays, names=self.names)


# ---- jobs ------------------------------------------------------------------------------------------------------


class Jobs:
    """Runs requests as Spark jobs, as few as possible."""

    def __init__(self, session: SparkSession, workspace: Workspace, *, small: int = SMALL) -> None:
        self.session, self.workspace, self.small = session, workspace, small
        self.jobs = 0
        """Jobs so far."""
        self._compiles = True

    def compile(self, wanted: bool) -> None:
        """Switch Spark's code generation: for rows that are all in the driver it takes longer than it saves."""
        if wanted != self._compiles:
            self.session.conf.set("spark.sql.codegen.wholeStage", str(wanted).lower())
            self.session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if wanted else "NO_CODEGEN")
            self._compiles = wanted

    def answer(self, requests: Sequence[Request]) -> list[Piece]:
        """The requested rows, in the order of the requests: in the driver if they are few, else in files."""
        found: dict[int, Piece] = {}
        next_job()
        try:
            for batch in _batches(requests):
                found.update(self._collected(batch))
            for number, request in enumerate(requests):
                if number not in found:
                    found[number] = self._filed(request) if isinstance(request, LocalPiece) else self.written(request)
        except EngineError:
            raise
        except Exception as error:
            raise translated(error) from error
        return [found[number] for number in range(len(requests))]

    def run(self, steps: Steps[T]) -> T:
        """Run one computation to its end."""
        try:
            requests = next(steps)
            while True:
                requests = steps.send(self.answer(requests))
        except StopIteration as end:
            result: T = end.value
            return result

    def run_all(self, computations: Sequence[Steps[T]]) -> list[T]:
        """Run independent computations to their ends: each round of all of them is one job, where it is small."""
        return self.run(in_step(computations))

    # ---- small -----------------------------------------------------------------------------------------------

    def _collected(self, batch: Mapping[int, FrameRequest]) -> dict[int, Piece]:
        """The answers of one job; those with too many rows are missing."""
        slots = Slots(tuple(request.types for request in batch.values()))
        frames = [slots.frame(place, self._bounded(request)) for place, request in enumerate(batch.values())]
        table = united(frames).toArrow()
        self.jobs += 1
        found: dict[int, Piece] = {}
        for (number, request), rows in zip(batch.items(), slots.split(table), strict=True):
            if rows.num_rows <= self.small or request.here:
                found[number] = local_piece(rows, request.types)
        return found

    def _bounded(self, request: FrameRequest) -> DataFrame:
        """The frame, each partition of which stops soon after it has too many rows: a limit of the whole frame would be
        a shuffle to one task."""
        if request.here:
            return request.frame
        return request.frame.filter(f"(monotonically_increasing_id() & {_WITHIN_PARTITION}) <= {self.small}")

    # ---- large -----------------------------------------------------------------------------------------------

    def written(self, request: FrameRequest) -> Piece:
        """The rows of one request, by way of files; the count observed while they are written must equal the one in the
        files."""
        names = column_names(len(request.types))
        observation = Observation()
        rows = request.frame.select(*names)
        rows = rows.distinct() if request.repeats else rows
        counted = rows.observe(observation, F.count(F.lit(1)).alias("rows"))
        with hubs_split(self.session) if request.large else nullcontext():
            stored = self.workspace.write(counted)
        self.jobs += 1
        checked_rows(stored, int(observation.get["rows"]))
        piece = FilePiece((stored,), request.types)
        return piece if request.stays_in_files else self.fetched_if_small(piece)

    def sets(self, frame: DataFrame, slots: Slots, *, large: bool) -> list[Piece]:
        """Sets of distinct rows that tasks make, as one tagged frame, in one job: in the driver, or, if they are
        `large`, by way of files. The last set, the counters of the tasks, comes to the driver in any case."""
        try:
            self.jobs += 1
            if not large:
                tables = slots.split(frame.toArrow())
                return [LocalPiece(spark_table(t, m), m) for t, m in zip(tables, slots.members, strict=True)]
            stored = self.workspace.write_sets(frame, slots.names[0])
            pieces: list[Piece] = []
            for member, types in enumerate(slots.members):
                names = [slots.names[place] for place in slots.places[member]]
                if member not in stored:
                    pieces.append(nothing(types))
                    continue
                piece = FilePiece((stored[member],), types, names)
                few = piece.count <= self.small or member == len(slots.members) - 1
                pieces.append(LocalPiece(self.read(piece), types) if few else piece)
            return pieces
        except EngineError:
            raise
        except Exception as error:
            raise translated(error) from error

    def _filed(self, rows: LocalPiece) -> Piece:
        """Rows of the driver in a file that the driver writes."""
        if not rows.count:
            return rows
        stored = self.workspace.put([rows.table], arrow_schema_for_spark(rows.types), "rows")
        return FilePiece((checked_rows(stored, rows.count),), rows.types)

    def fetched_if_small(self, piece: FilePiece) -> Piece:
        """The rows, moved from files to the driver if they are few."""
        if piece.count > self.small:
            return piece
        local = local_piece(self.read(piece), piece.types)
        self.workspace.drop(piece.folders())
        return local

    def read(self, piece: FilePiece) -> pa.Table:
        """Fetch the rows of files, without a job where that is faster, and check their count."""
        if piece.files and not self.workspace.is_near(piece.files):
            self.jobs += 1
            return checked_table(spark_table(piece.frame(self.session).toArrow(), piece.types), piece.count)
        empty = arrow_schema_for_spark(piece.types).empty_table()
        tables = [spark_table(each, piece.types) for each in self.workspace.tables(piece.files, piece.columns)]
        return checked_table(pa.concat_tables([empty, *tables]), piece.count)


def _batches(requests: Sequence[Request]) -> list[dict[int, FrameRequest]]:
    """The small requests by job, with their numbers."""
    batches: list[dict[int, FrameRequest]] = []
    room = 0
    for number, request in enumerate(requests):
        if isinstance(request, LocalPiece) or request.large or request.stays_in_files:
            continue
        if not batches or request.branches > room:
            batches.append({})
            room = BRANCHES
        batches[-1][number] = request
        room -= request.branches
    return batches


def spark_table(table: pa.Table, types: Types) -> pa.Table:
    """Rows under the columns and types of frames; columns are taken by position."""
    target = arrow_schema_for_spark(types)
    if table.schema == target:
        return table
    return pa.table([c.cast(f.type) for c, f in zip(table.columns, target, strict=True)], schema=target)


def local_piece(table: pa.Table, types: Types) -> LocalPiece:
    """Rows that Spark gave, each once."""
    table = spark_table(table, types)
    piece = LocalPiece(table, types)
    if len(piece.places) == table.num_rows:
        return piece
    return LocalPiece.of(piece.places, types)


def checked_rows(stored: StoredRows, written: int) -> StoredRows:
    """The files, if they hold as many rows as were written."""
    if stored.rows != written:
        raise lost_rows(written, stored.rows)
    return stored


def checked_table(table: pa.Table, count: int) -> pa.Table:
    """The rows, if they are as many as they must be."""
    if table.num_rows != count:
        raise lost_rows(count, table.num_rows)
    return table


def lost_rows(known: int, found: int, name: str = "") -> EngineError:
    """The error for rows of a relation, or of a write by Spark, that are missing or too many."""
    error = EngineError(
        f"{name} has {known} rows, and {found} were written"
        if name
        else f"Spark wrote {known} rows and {found} are stored",
        code="lost-rows",
        help="nothing was applied; check that the driver and all executors can use the location (`upshot.location`)",
    )
    error.retryable = True
    return error


# ---- computations that advance together ------------------------------------------------------------------------


def in_step(computations: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Independent computations as one: the requests of a round of all of them are answered together."""
    results: dict[int, T] = {}
    pending: dict[int, Sequence[Request]] = {}
    answers: Mapping[int, Any] = dict.fromkeys(range(len(computations)))
    while answers:
        pending.clear()
        for number, found in answers.items():
            try:
                pending[number] = computations[number].send(found)
            except StopIteration as end:
                results[number] = end.value
        if pending:
            found = yield [request for requests in pending.values() for request in requests]
        answers = _shared_out(pending, found) if pending else {}
    return [results[number] for number in range(len(computations))]


def _shared_out(pending: Mapping[K, Sequence[Request]], answers: Sequence[Piece]) -> dict[K, list[Piece]]:
    """The answers by computation."""
    rest = iter(answers)
    return {key: list(islice(rest, len(requests))) for key, requests in pending.items()}


def run_together(
    tasks: Sequence[Task], answers: Jobs, count_jobs: Callable[[str, int], None] = lambda name, jobs: None
) -> None:
    """Run all tasks to their ends, the active ones in lockstep: every task that can start has started, and the requests
    of a round are answered together.

    `count_jobs` is called after every round, for every task in it, with the number of jobs.
    """
    waiting = list(tasks)
    ended: set[str] = set()
    active: dict[str, Steps[None]] = {}
    pending: dict[str, Sequence[Request]] = {}
    while waiting or active:
        waiting = _begin(waiting, ended, active, pending)
        if not active:
            assert not waiting, "tasks wait for each other"
            return
        before = answers.jobs
        found = _shared_out(pending, answers.answer([request for requests in pending.values() for request in requests]))
        for name in pending:
            count_jobs(name, answers.jobs - before)
        for name, steps in list(active.items()):
            try:
                pending[name] = steps.send(found[name])
            except StopIteration:
                del active[name], pending[name]
                ended.add(name)


def _begin(
    waiting: list[Task], ended: set[str], active: dict[str, Steps[None]], pending: dict[str, Sequence[Request]]
) -> list[Task]:
    """Start ready tasks; returns those still waiting. A task that ends without a request may let others start."""
    progress = True
    while progress:
        progress = False
        for task in waiting:
            if not task.after <= ended:
                continue
            steps = task.begin()
            try:
                if steps is not None:
                    pending[task.name] = next(steps)
                    active[task.name] = steps
            except StopIteration:
                steps = None
            if steps is None:
                ended.add(task.name)
            waiting = [each for each in waiting if each is not task]
            progress = True
    return waiting
