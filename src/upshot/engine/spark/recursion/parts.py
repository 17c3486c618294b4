"""Recursion in parts that never meet: a whole fixpoint as one job, each part on the local engine of a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Column, Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.engine.limits import Limits, in_bytes
from upshot.engine.spark.frames.joins import within
from upshot.engine.spark.frames.rule_frames import heads
from upshot.engine.spark.recursion.shard import (
    HELD_BACK,
    OUTGROWN,
    PART,
    RECEIVED,
    ROWS,
    ChangeTask,
    LoadTask,
    SharedRows,
    given_slots,
    shard_plan,
)
from upshot.engine.spark.storage.pieces import Contents, FilePiece, LocalPiece, Piece, local_and_files, nothing, united
from upshot.engine.spark.storage.requests import FrameRequest, Jobs, Slots, Steps, lost_rows
from upshot.engine.spark.storage.table import FrameTable, TableStatistics
from upshot.engine.work import ViewWork
from upshot.plan.component_plans import stage_plans
from upshot.plan.order_body import Resolved
from upshot.plan.pivot import Decomposition
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import load_plan
from upshot.plan.weakened import reads_any, weakened
from upshot.rewrite.shapes import relations_read
from upshot.spark.failures import place
from upshot.spark.session import worker_memory
from upshot.spark.types import framed, rows_from_spark, spark_schema

MOST_SHARED = 256 << 20
"""The most bytes of whole relations that travel with a task."""

FEW = 200
"""Inputs of at most this many rows are expected to derive few enough rows for the driver."""

FEW_ROWS = 10_000
"""The most rows in the driver that form one part."""

PLANNED = 12
"""The most rules whose planning takes less time than a job over rows in files."""

A_PART = 1 << 14
"""The fewest rows that justify a separate part."""

ONE_JOB = 1 << 20
"""The fewest expected rows for which one job both finds and processes the touched values."""

_PIVOT = "touched pivots"
"""The name of the heads of a search; no relation has this name."""


class Decomposed:
    """A recursive component that falls into parts; kept as long as the component is, from commit to commit.

    `load` and `maintain` are steps of a propagation: the tables that the component reads are settled, and the caller
    settles the views from the result.
    """

    def __init__(
        self, component: ComponentPlan, normal: CheckedProgram, found: Decomposition, jobs: Jobs, limits: Limits, *,
        most_shared: int = MOST_SHARED, most_held: int | None = None,
    ) -> None:  # fmt: skip
        """`most_held`: the most bytes that a worker may take, by default the bound of the session."""
        assert found.program is not None
        self.component, self.found = component, found
        self._schemas: Mapping[str, Schema] = normal.schemas
        self._jobs, self._session, self._most_shared = jobs, jobs.session, most_shared
        self._outgrown = False
        """True if a part exceeded the memory of a worker."""
        self._received: float | None = None
        """Input rows of parts per driving row in the last change."""
        self._returned: float | None = None
        """Output rows of parts per driving row in the last change."""
        self._given = 0
        """Input rows of the parts of the last job."""
        self._parts = max(1, int(self._session.conf.get("spark.sql.shuffle.partitions") or 2))
        self._shared = _SharedTables(jobs)
        places = {span: place(span) for span in _spans(found.program)}
        held = worker_memory(self._session) if most_held is None else most_held
        self._plan = shard_plan(found, places, replace(limits, memory=held))

    # ---- when ----------------------------------------------------------------------------------------------------

    def is_usable(self, tables: Mapping[str, FrameTable]) -> bool:
        """Test whether the shared rows can travel with the parts, and none of them has outgrown its worker."""
        return self._needed(tables) <= self._most_shared and not self._outgrown

    def _needed(self, tables: Mapping[str, FrameTable]) -> int:
        return bytes_of(tables[name] for name in self.found.shared)

    def describe(self, tables: Mapping[str, FrameTable]) -> str:
        """Describe the execution of the component, with the reason."""
        lines = [str(self.found)]
        if self._outgrown:
            lines.append(
                "  not used: its rows need more memory than a worker may take; rounds of joins on Spark instead"
            )
        elif not self.is_usable(tables):
            needed, most = in_bytes(self._needed(tables)), in_bytes(self._most_shared)
            lines.append(
                f"  not used: what is shared needs {needed}, more than {most}; rounds of joins on Spark instead"
            )
        else:
            lines.append("  load and change each in one job over the parts")
        return "\n".join(lines)

    # ---- load ----------------------------------------------------------------------------------------------------

    def load(self, tables: Mapping[str, FrameTable], work: ViewWork) -> dict[str, Piece] | None:
        """The rows of the views in the new state; None if a part outgrows the memory of a worker."""
        task = LoadTask(self._plan, self._shared.rows({name: tables[name].new for name in self.found.shared}))
        members = [self._exits(view, tables, State.NEW) for view in self.found.views]
        members += [tables[name].frame(State.NEW) for name in self.found.split]
        few = sum(tables[name].new.count for name in self.component.reads) <= FEW
        parts = 1 if few else 2 * self._parts
        whole = self._parted(task, members, parts, here=self._is_local(tables))
        pieces = self._run(task, whole, parts, work, large=not few)
        return None if pieces is None else dict(zip(self.found.views, pieces, strict=True))

    def _is_local(self, tables: Mapping[str, FrameTable]) -> bool:
        names = (*self.component.reads, *self.found.views)
        return all(tables[name].committed.is_local and tables[name].new.is_local for name in names)

    # ---- change --------------------------------------------------------------------------------------------------

    def maintain(
        self, tables: Mapping[str, FrameTable], work: ViewWork
    ) -> Steps[dict[str, tuple[Piece, Piece]] | None]:
        """The inserted and deleted rows of each view; None if a part outgrows the memory of a worker. The parts use
        the component's own strategy, and their counters are added to the work.

        A row changes only if some rule, driven by a change below, has a head with its pivot: in the old state, for
        deletion, or in the new one. The views' new state is not known yet; but the pivots of rows that it lacks are
        found in the old state. A head too many does no harm.
        """
        driven = self._driven(tables)
        if not driven:
            return self._unchanged(tables)
        here, driving = self._is_local(tables), sum(rows.count for _, rows in driven)
        task, touched, parts = self._change_task(tables), None, 1
        if not (here and self._are_few(tables)):
            frames = [self._touched(plan, rows, tables) for plan, rows in driven]
            if self._in_one_job(task, driven):
                touched = _Driving(united(frames), small=True, count=driving)
                parts = 1 if here else min(self._parts, 1 + int(self._expected(driving)) // A_PART)
            else:
                (piece,) = yield [FrameRequest(united(frames).distinct(), self._pivot_types(), branches=len(frames))]
                if not piece.count:
                    return self._unchanged(tables)
                touched = _Driving(piece.frame(self._session), isinstance(piece, LocalPiece), piece.count)
                parts = max(1, min(self._parts, piece.count // FEW))
        whole = self._parted(task, self._members(task, tables, touched), parts, here=here)
        large = (self._returned or 0.0) * driving > self._jobs.small
        pieces = self._run(task, whole, parts, work, large=large)
        if pieces is None:
            return None
        self._returned = sum(piece.count for piece in pieces) / driving
        if touched is not None:
            self._received = self._given / driving
        count = len(self.found.views)
        return {view: (pieces[i], pieces[i + count]) for i, view in enumerate(self.found.views)}

    def _unchanged(self, tables: Mapping[str, FrameTable]) -> dict[str, tuple[Piece, Piece]]:
        return {view: (nothing(tables[view].types), nothing(tables[view].types)) for view in self.found.views}

    def _are_few(self, tables: Mapping[str, FrameTable]) -> bool:
        """Test whether a part takes all rows faster than Spark finds those that a change touches."""
        return sum(tables[name].size for name in (*self.component.reads, *self.found.views)) <= FEW_ROWS

    def _in_one_job(self, task: ChangeTask, driven: Sequence[tuple[RulePlan, _Driving]]) -> bool:
        """Test whether one job both finds the touched pivots and processes their parts: few are expected, and the rules
        that find them are, once for each relation of a part, few enough to plan in one job."""
        if len(driven) * len(task.given_names) > PLANNED or not all(rows.small for _, rows in driven):
            return False
        return self._received is not None and self._expected(sum(rows.count for _, rows in driven)) <= ONE_JOB

    def _expected(self, driving: int) -> float:
        """The expected input rows of parts, from the last change."""
        return (self._received or 0.0) * driving

    def _pivot_types(self) -> tuple[Type, ...]:
        """The types of the pivot: a column of it is nullable if it is so in some view."""
        columns = [[self._schemas[view].types[i] for i in self.found.pivots[view]] for view in self.found.views]
        return tuple(next((type for type in same if type.nullable), same[0]) for same in zip(*columns, strict=True))

    def _driven(self, tables: Mapping[str, FrameTable]) -> list[tuple[RulePlan, _Driving]]:
        """The plans of the component that a change below drives, with the driving rows."""
        assert self.found.component is not None
        statistics = TableStatistics(tables, lambda name: None if name in tables else 0)
        found = []
        for stage in ("delete", "insert"):
            exits = self._moved_exits(stage, tables) if self.found.gathered else None
            for plan in stage_plans(self.found.component, stage, statistics):
                assert plan.driver is not None
                if not plan.seed:
                    continue
                if plan.driver.match.relation == self.found.gathered:
                    rows = exits
                else:
                    rows = _driving(_change(tables, plan), self._session)
                if rows is not None:
                    found.append((plan, rows))
        return found

    def _moved_exits(self, stage: str, tables: Mapping[str, FrameTable]) -> _Driving | None:
        """Heads of the exits that may be inserted or deleted: those of the exits' own rules driven by a change
        below."""
        plans = stage_plans(self.component, stage, TableStatistics(tables))
        driven = [
            (plan, rows)
            for plan in plans
            if plan.seed and not reads_any(plan, self.found.views)
            if (rows := _driving(_change(tables, plan), self._session)) is not None
        ]
        if not driven:
            return None
        frames = [self._heads(plan, rows, tables) for plan, rows in driven]
        count = sum(rows.count for _, rows in driven)
        return _Driving(united(frames), small=all(rows.small for _, rows in driven), count=count)

    def _touched(self, plan: RulePlan, rows: _Driving, tables: Mapping[str, FrameTable]) -> DataFrame:
        """The pivots of the heads of a plan. The views' old state joined with the new one of other relations may have
        rows that neither state has, for which a rule must not fail: so the plan of a rule that reads both is
        weakened."""
        columns = self.found.pivots[plan.head]
        if reads_any(plan, self.found.views):
            return self._heads(replace(weakened(plan, columns, self.found.views), head=_PIVOT), rows, tables)
        made = self._heads(plan, rows, tables)
        return made.select(*(F.col(f"c{column}").alias(f"c{i}") for i, column in enumerate(columns)))

    def _heads(self, plan: RulePlan, rows: _Driving, tables: Mapping[str, FrameTable]) -> DataFrame:
        """The heads of a plan, the views being in their old state."""

        def read(name: str, state: State) -> DataFrame:
            if name == self.found.gathered:
                return self._exits(self.found.views[0], tables, state)
            return tables[name].frame(State.OLD if name in self.found.views else state)

        pivot = tuple(Column(f"c{i}", type) for i, type in enumerate(self._pivot_types()))
        schemas = {**self._schemas, _PIVOT: Schema(_PIVOT, pivot)}
        if self.found.gathered:
            schemas[self.found.gathered] = schemas[self.found.views[0]]
        return heads(plan, read, lambda _, __: rows.frame, session=self._session, schemas=schemas, small=rows.small)

    def _change_task(self, tables: Mapping[str, FrameTable]) -> ChangeTask:
        shared = self._shared.rows({name: tables[name].committed for name in self.found.shared})
        changed = [name for name in self.found.shared if tables[name].changed]
        inserted = {name: self._shared.table(tables[name].inserted) for name in changed}
        deleted = {name: self._shared.table(tables[name].deleted) for name in changed}
        moved = [
            self.found.seeds[view]
            for view in self.found.views
            if any(tables[name].changed for exit in self._exit_clauses(view) for name in relations_read(exit))
        ]
        moved += [name for name in self.found.split if tables[name].changed]
        return ChangeTask(self._plan, shared, inserted, deleted, tuple(moved))

    def _members(self, task: ChangeTask, tables: Mapping[str, FrameTable], touched: _Driving | None) -> list[DataFrame]:
        """The rows of the task: those that have one of the touched pivots, or all."""
        views = {seed: view for view, seed in self.found.seeds.items()}
        types = self._pivot_types()
        members = []
        states = [State.OLD] * len(task.names) + [State.NEW] * len(task.moved)
        for name, state in zip(task.given_names, states, strict=True):
            frame = self._exits(views[name], tables, state) if name in views else tables[name].frame(state)
            if touched is not None:
                frame = within(frame, touched.frame, types, self._plan.pivots[name], small=touched.small)
            members.append(frame)
        return members

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def _parted(
        self, task: LoadTask | ChangeTask, members: Sequence[DataFrame], parts: int, *, here: bool
    ) -> DataFrame:
        """All rows of the task, in this many parts; `here`: all inputs are in the driver."""
        given = given_slots(task)
        # This row makes a part, and so its counters, even if there are no other rows.
        frames = [given.frame(len(members), self._session.range(0, 1, 1, 1).selectExpr("true AS c0"))]
        frames += [given.frame(member, frame) for member, frame in enumerate(members)]
        if parts == 1:
            # Rows that are all in the driver need no shuffle; others are found by many tasks.
            return united(frames).coalesce(1) if here else united(frames).repartition(1)
        hashed = [frames[0].withColumn("part", F.lit(0).cast("long"))]
        for member, name in enumerate(task.given_names):
            places = [f"c{given.places[member][column]}" for column in self._plan.pivots[name]]
            hashed.append(frames[member + 1].withColumn("part", F.xxhash64(*places)))
        return united(hashed).repartition(parts, "part").drop("part")

    def _run(
        self, task: LoadTask | ChangeTask, whole: DataFrame, parts: int, work: ViewWork, *, large: bool
    ) -> list[Piece] | None:
        """The sets of rows that the task makes of the parts; None if one of them outgrew its worker. A result that is
        unexpectedly large is computed once more, and written."""
        task = task if large else replace(task, most=self._jobs.small)
        out = Slots(task.made)
        frame = whole.mapInArrow(_as_function(task), spark_schema(out.types))
        *pieces, listed = self._jobs.sets(frame, out, large=large)
        work.jobs += 1
        counters = _summed(listed)
        if counters.get(PART, 0) != parts:
            raise lost_rows(parts, counters.get(PART, 0))
        self._outgrown = OUTGROWN in counters
        if self._outgrown:
            return None
        if HELD_BACK in counters:
            return self._run(replace(task, most=None), whole, parts, work, large=True)
        for number, piece in enumerate(pieces):
            if piece.count != counters.get(f"{ROWS}{number}", 0):
                raise lost_rows(counters.get(f"{ROWS}{number}", 0), piece.count)
        self._given = counters.get(RECEIVED, 0)
        for name, value in counters.items():
            if hasattr(work, name):
                setattr(work, name, getattr(work, name) + value)
        return pieces

    # ---- frames --------------------------------------------------------------------------------------------------

    def _exit_clauses(self, view: str) -> list[Clause]:
        return [clause for clause in self.found.exits if clause.head.relation == view]

    def _exits(self, view: str, tables: Mapping[str, FrameTable], state: State) -> DataFrame:
        """The rows that the rules without recursion derive for the view in a state of their inputs."""
        statistics = TableStatistics(tables)

        def read(name: str, _: State) -> DataFrame:
            return tables[name].frame(state)

        frames = []
        for clause in self._exit_clauses(view):
            plan = load_plan(clause, Action.INSERT, statistics, resolve=lambda name: Resolved(name, state))
            frames.append(heads(plan, read, _not_driven, session=self._session, schemas=self._schemas))
        return united(frames) if frames else nothing(tables[view].types).frame(self._session)


class _SharedTables:
    """Relations that every part needs whole, as Arrow tables of the driver; files are fetched once."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._fetched: dict[tuple[str, ...], pa.Table] = {}

    def rows(self, contents: Mapping[str, Contents]) -> dict[str, SharedRows]:
        """The relations in some state; the rows of other files are dropped."""
        before, self._fetched = self._fetched, {}
        return {
            name: tuple((insert, self.table(piece, before)) for insert, piece in each.parts())
            for name, each in contents.items()
        }

    def table(self, piece: Piece, before: Mapping[tuple[str, ...], pa.Table] = MappingProxyType({})) -> pa.Table:
        match piece:
            case LocalPiece():
                return piece.table
            case FilePiece():
                known = before.get(piece.files)
                if known is None:
                    known = self._fetched.get(piece.files)
                self._fetched[piece.files] = known if known is not None else self._jobs.read(piece)
                return self._fetched[piece.files]
            case Contents():
                return pa.concat_tables([self.table(part, before) for part in local_and_files(piece)])


def bytes_of(tables: Iterable[FrameTable]) -> int:
    """The approximate size of the rows of the tables."""
    return sum(table.size * _width(table.types) for table in tables)


def _width(types: Sequence[Type]) -> int:
    """Bytes of a row."""
    return sum(_TEXT if type.in_dictionary else 8 for type in framed(types))


_TEXT = 24
"""The assumed bytes of a text."""


def _as_function(task: LoadTask | ChangeTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task as a function, which `mapInArrow` requires."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return run


def _summed(listed: Piece) -> Counter[str]:
    """The counters of all parts together."""
    total: Counter[str] = Counter()
    assert isinstance(listed, LocalPiece)
    # Parts may have the same counters, so these rows are no set.
    for name, value in rows_from_spark(listed.table, listed.types):
        total[name] += value
    return total


@dataclass(frozen=True, slots=True)
class _Driving:
    """The rows that drive a plan; `count` is their number, or that of the rows from which they are derived."""

    frame: DataFrame
    small: bool
    count: int


def _driving(piece: Piece, session: SparkSession) -> _Driving | None:
    return _Driving(piece.frame(session), isinstance(piece, LocalPiece), piece.count) if piece.count else None


def _change(tables: Mapping[str, FrameTable], plan: RulePlan) -> Piece:
    """The rows that drive the plan."""
    assert plan.driver is not None
    return tables[plan.driver.match.relation].change(plan.driver.change)


def _not_driven(relation: str, change: Change) -> DataFrame:
    raise AssertionError(f"a plan over all rows is driven by what is {change.value} in `{relation}`")


def _spans(program: CheckedProgram) -> set[Span]:
    return {clause.origin for clause in program.clauses if clause.origin is not None}
