"""Recursion in parts that never meet: a whole fixpoint as one job, each part on the local engine of a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Column, Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.engine.limits import Limits, in_bytes
from upshot.engine.spark.asks import Ask, Steps
from upshot.engine.spark.part_work import add_counters, received_by
from upshot.engine.spark.pieces import SMALL, LocalPiece, Piece, nothing, united
from upshot.engine.spark.rule_frames import heads
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.set_frames import within
from upshot.engine.spark.shard import ChangeTask, LoadTask
from upshot.engine.spark.shard_files import LISTED, gathered
from upshot.engine.spark.shard_plan import shard_plan
from upshot.engine.spark.sharing import MOST_SHARED, Sharing, bytes_of, new_key
from upshot.engine.spark.tables import Table, TableStatistics
from upshot.engine.work import ViewWork
from upshot.plan.choice import read_by
from upshot.plan.component_plans import stage_plans
from upshot.plan.order_body import Resolved
from upshot.plan.pivot import Decomposition
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import Action, Change, RulePlan, State
from upshot.plan.rule_plans import load_plan
from upshot.plan.weakened import reads_any, weakened
from upshot.spark.failures import place
from upshot.spark.types import spark_schema
from upshot.spark.worker_memory import worker_memory

FEW = 200
"""So few rows going in are expected to come out as few that the driver can take them."""

FEW_ROWS = 10_000
"""So many rows in the driver go to one part as they are."""

PLANNED = 12
"""So many rules are planned in less time than a job over rows in files takes."""

A_PART = 1 << 14
"""So many rows are worth a part of their own."""

ONE_JOB = 1 << 20
"""With so many rows expected in the parts, what is touched is found in the job that goes on with it."""

_PIVOT = "touched pivots"
"""What the heads that are looked for are called; no relation is called so."""


class Decomposed:
    """A recursive component that falls into parts; kept as long as the component is, from commit to commit.

    `load` and `maintain` are steps of a propagation: the tables of what the component reads are settled, its own are
    settled by the caller from what comes back.
    """

    def __init__(
        self, component: ComponentPlan, normal: CheckedProgram, found: Decomposition, session: SparkSession,
        scratch: Scratch, limits: Limits, *, small: int = SMALL, most_shared: int = MOST_SHARED,
        most_held: int | None = None,
    ) -> None:  # fmt: skip
        assert found.program is not None
        self.component, self.found = component, found
        self._schemas: Mapping[str, Schema] = normal.schemas
        self._session, self._scratch, self._small, self._most_shared = session, scratch, small, most_shared
        self._outgrown = False
        """Whether a part was more than a worker may hold."""
        self._received: float | None = None
        """Rows that parts were given for each row that drove the change before."""
        self._given = 0
        """Rows that the parts of the last job were given."""
        self._parts = max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 2))
        self._sharing = Sharing(scratch)
        places = {span: place(span) for span in _spans(found.program)}
        held = worker_memory(session, self._parts) if most_held is None else most_held
        self._plan = shard_plan(new_key(), found, places, replace(limits, memory=held))

    # ---- when ----------------------------------------------------------------------------------------------------

    def loads(self, tables: Mapping[str, Table]) -> bool:
        """Whether `load` can be used."""
        return self._needed(tables) <= self._most_shared and not self._outgrown

    def maintains(self, tables: Mapping[str, Table]) -> bool:
        """Whether `maintain` can be used."""
        return self.loads(tables)

    def took(self, rounds: int) -> None:
        """Nothing is learned from a change that went by rounds: parts are used whenever they can be."""

    def _needed(self, tables: Mapping[str, Table]) -> int:
        return bytes_of(tables[name] for name in self.found.shared)

    def describe(self, tables: Mapping[str, Table]) -> str:
        """How the component runs, and why."""
        lines = [str(self.found)]
        if self._outgrown:
            lines.append(
                "  not used: its rows need more memory than a worker may take; rounds of joins on Spark instead"
            )
        elif not self.loads(tables):
            needed, most = in_bytes(self._needed(tables)), in_bytes(self._most_shared)
            lines.append(
                f"  not used: what is shared needs {needed}, more than {most}; rounds of joins on Spark instead"
            )
        else:
            lines.append("  load and change each in one job over the parts")
        return "\n".join(lines)

    def files(self) -> Iterator[Path]:
        """What workers were given, beside the files of the tables; it is removed here."""
        return self._sharing.files()

    def release(self) -> None:
        """Remove the files that workers were given."""
        self._sharing.release()

    # ---- load ----------------------------------------------------------------------------------------------------

    def load(self, tables: Mapping[str, Table]) -> Steps[dict[str, Piece] | None]:
        """The rows of the views in the new state; None if they outgrow what a worker may hold, and rounds must do."""
        pieces = yield from self._load_parts(tables)
        self._outgrown = pieces is None
        return None if pieces is None else dict(zip(self.found.views, pieces, strict=True))

    def _load_parts(self, tables: Mapping[str, Table]) -> Steps[list[Piece] | None]:
        shared = self._sharing.relations({name: tables[name].new for name in self.found.shared})
        task = LoadTask(self._plan, shared, self._folders(len(self.found.views)))
        members = [self._exits(view, tables, State.NEW) for view in self.found.views]
        members += [self._read(tables, name, State.NEW) for name in self.found.split]
        few = sum(tables[name].new.count for name in self.component.reads) <= FEW
        parts = 1 if few else 2 * self._parts
        here = self._is_local(tables)
        return (yield from self._run(task, members, parts, ViewWork(), here=here, branches=len(members)))

    def _is_local(self, tables: Mapping[str, Table]) -> bool:
        names = (*self.component.reads, *self.found.views)
        return all(tables[name].committed.is_local and tables[name].new.is_local for name in names)

    # ---- change --------------------------------------------------------------------------------------------------

    def maintain(self, tables: Mapping[str, Table], work: ViewWork) -> Steps[dict[str, tuple[Piece, Piece]] | None]:
        """What comes into each view and what goes; None if a part outgrows what a worker may hold. The parts use the
        component's own strategy, and what that took is added to the work.

        A row changes only if some rule, driven by a change below, has a head with its pivot: in the old state, for
        deletion, or in the new one. The views' new state is not known yet, but where it differs from the old one by
        a deletion the first kind of head has told already. A head too many does no harm.
        """
        driven = self._driven(tables)
        if not driven:
            return self._unchanged(tables)
        here, driving = self._is_local(tables), sum(rows.count for _, rows in driven)
        task, touched, parts = self._change_task(tables), None, 1
        branches = len(task.given_names)
        if not (here and self._are_few(tables)):
            frames = [self._touched(plan, rows, tables) for plan, rows in driven]
            if self._in_one_job(task, driven):
                branches *= len(frames)
                touched = _Driving(united(frames), small=True, count=driving)
                parts = 1 if here else min(self._parts, 1 + int(self._expected(driving)) // A_PART)
            else:
                (piece,) = yield [Ask(united(frames).distinct(), self._pivot_types(), branches=len(frames))]
                if not piece.count:
                    return self._unchanged(tables)
                touched = _Driving(piece.frame(self._session), isinstance(piece, LocalPiece), piece.count)
                parts = max(1, min(self._parts, piece.count // FEW))
        members = self._members(task, tables, touched)
        pieces = yield from self._run(task, members, parts, work, here=here, branches=branches)
        if touched is not None:
            self._received = self._given / driving
        self._outgrown = pieces is None
        if pieces is None:
            return None
        count = len(self.found.views)
        return {view: (pieces[i], pieces[i + count]) for i, view in enumerate(self.found.views)}

    def _unchanged(self, tables: Mapping[str, Table]) -> dict[str, tuple[Piece, Piece]]:
        return {view: (nothing(tables[view].types), nothing(tables[view].types)) for view in self.found.views}

    def _are_few(self, tables: Mapping[str, Table]) -> bool:
        """Whether a part takes all rows faster than Spark finds those that a change touches."""
        return sum(tables[name].size for name in (*self.component.reads, *self.found.views)) <= FEW_ROWS

    def _in_one_job(self, task: ChangeTask, driven: Sequence[tuple[RulePlan, _Driving]]) -> bool:
        """Whether what is touched need not be known before the parts are made: it is expected to be few, and the rules
        that find it are, once for each relation that a part is given, few enough to plan in one job."""
        if len(driven) * len(task.given_names) > PLANNED or not all(rows.small for _, rows in driven):
            return False
        return self._received is not None and self._expected(sum(rows.count for _, rows in driven)) <= ONE_JOB

    def _expected(self, driving: int) -> float:
        """Rows that parts will be given, going by the change before."""
        return (self._received or 0.0) * driving

    def _pivot_types(self) -> tuple[Type, ...]:
        """The types of the pivot: a column of it can be NULL if it can be so in some view."""
        columns = [[self._schemas[view].types[i] for i in self.found.pivots[view]] for view in self.found.views]
        return tuple(next((type for type in same if type.nullable), same[0]) for same in zip(*columns, strict=True))

    def _driven(self, tables: Mapping[str, Table]) -> list[tuple[RulePlan, _Driving]]:
        """The plans of the component that a change below drives, with the rows that do."""
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

    def _moved_exits(self, stage: str, tables: Mapping[str, Table]) -> _Driving | None:
        """Heads of the exits that may come or go: those of the exits' own rules driven by a change below."""
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

    def _touched(self, plan: RulePlan, rows: _Driving, tables: Mapping[str, Table]) -> DataFrame:
        """The pivots of the heads of a plan. The views' old state beside the new one of other relations may hold what
        neither state does: so a rule that reads both must not fail here, and asks less."""
        columns = self.found.pivots[plan.head]
        if reads_any(plan, self.found.views):
            return self._heads(replace(weakened(plan, columns, self.found.views), head=_PIVOT), rows, tables)
        made = self._heads(plan, rows, tables)
        return made.select(*(F.col(f"c{column}").alias(f"c{i}") for i, column in enumerate(columns)))

    def _heads(self, plan: RulePlan, rows: _Driving, tables: Mapping[str, Table]) -> DataFrame:
        """The heads of a plan, the views being in their old state."""

        def read(name: str, state: State) -> DataFrame:
            if name == self.found.gathered:
                return self._exits(self.found.views[0], tables, state)
            return self._read(tables, name, State.OLD if name in self.found.views else state)

        pivot = tuple(Column(f"c{i}", type) for i, type in enumerate(self._pivot_types()))
        schemas = {**self._schemas, _PIVOT: Schema(_PIVOT, pivot)}
        if self.found.gathered:
            schemas[self.found.gathered] = schemas[self.found.views[0]]
        return heads(plan, read, lambda _, __: rows.frame, session=self._session, schemas=schemas, small=rows.small)

    def _change_task(self, tables: Mapping[str, Table]) -> ChangeTask:
        shared = self._sharing.relations({name: tables[name].committed for name in self.found.shared})
        changed = [name for name in self.found.shared if tables[name].changed]
        inserted, deleted = self._sharing.changes({name: tables[name] for name in changed})
        moved = [
            self.found.seeds[view]
            for view in self.found.views
            if any(tables[name].changed for exit in self._exit_clauses(view) for name in read_by(exit))
        ]
        moved += [name for name in self.found.split if tables[name].changed]
        folders = self._folders(2 * len(self.found.views))
        return ChangeTask(self._plan, shared, folders, inserted, deleted, tuple(moved))

    def _folders(self, count: int) -> tuple[Path, ...]:
        """Where parts write what they make; whoever has an open change removes what a failed one leaves."""
        return tuple(self._scratch.folder() for _ in range(count))

    def _members(self, task: ChangeTask, tables: Mapping[str, Table], touched: _Driving | None) -> list[DataFrame]:
        """What the task is given: the rows that have one of the touched pivots, or all."""
        views = {seed: view for view, seed in self.found.seeds.items()}
        types = self._pivot_types()
        members = []
        states = [State.OLD] * len(task.names) + [State.NEW] * len(task.moved)
        for name, state in zip(task.given_names, states, strict=True):
            frame = self._exits(views[name], tables, state) if name in views else self._read(tables, name, state)
            if touched is not None:
                frame = within(frame, touched.frame, types, self._plan.pivots[name], small=touched.small)
            members.append(frame)
        return members

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def _run(
        self, task: LoadTask | ChangeTask, members: Sequence[DataFrame], parts: int, work: ViewWork, *, here: bool,
        branches: int,
    ) -> Steps[list[Piece] | None]:  # fmt: skip
        """The sets of rows that the task makes, over so many parts; None if one of them gave up. `here`: all that is
        read is in the driver; `branches`: rules that find what the task is given."""
        given = task.given
        frames = []
        for member, (frame, name) in enumerate(zip(members, task.given_names, strict=True)):
            rows = given.frame(member, frame)
            if parts > 1:
                places = [f"c{given.places[member][column]}" for column in self._plan.pivots[name]]
                rows = rows.withColumn("part", F.xxhash64(*places))
            frames.append(rows)
        whole = united(frames)
        if parts > 1:
            whole = whole.repartition(parts, "part").drop("part")
        else:
            # Rows that are all in the driver need no shuffle; others are found by many tasks.
            whole = whole.coalesce(1) if here else whole.repartition(1)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        (listed,) = yield [Ask(whole.mapInArrow(run, spark_schema(LISTED)), LISTED, here=True, branches=branches)]
        assert isinstance(listed, LocalPiece)
        pieces = gathered(task.folders, task.made, listed.rows, self._small)
        if pieces is not None:
            add_counters(listed.rows, work)
        self._given = received_by(listed.rows)
        return pieces

    # ---- frames --------------------------------------------------------------------------------------------------

    def _read(self, tables: Mapping[str, Table], name: str, state: State) -> DataFrame:
        table = tables[name]
        return table.new_frame() if state is State.NEW else table.old_frame()

    def _exit_clauses(self, view: str) -> list[Clause]:
        return [clause for clause in self.found.exits if clause.head.relation == view]

    def _exits(self, view: str, tables: Mapping[str, Table], state: State) -> DataFrame:
        """What the rules without recursion give for the view in a state of what they read."""
        statistics = TableStatistics(tables)

        def read(name: str, _: State) -> DataFrame:
            return self._read(tables, name, state)

        frames = []
        for clause in self._exit_clauses(view):
            plan = load_plan(clause, Action.INSERT, statistics, resolve=lambda name: Resolved(name, state))
            frames.append(heads(plan, read, _not_driven, session=self._session, schemas=self._schemas))
        return united(frames) if frames else nothing(tables[view].types).frame(self._session)


@dataclass(frozen=True, slots=True)
class _Driving:
    """The rows that drive a plan; `count` is how many of them, or of those they come from, there are."""

    frame: DataFrame
    small: bool
    count: int


def _driving(piece: Piece, session: SparkSession) -> _Driving | None:
    return _Driving(piece.frame(session), isinstance(piece, LocalPiece), piece.count) if piece.count else None


def _change(tables: Mapping[str, Table], plan: RulePlan) -> Piece:
    """What drives the plan."""
    assert plan.driver is not None
    table = tables[plan.driver.match.relation]
    return table.deleted if plan.driver.change is Change.DELETED else table.inserted


def _not_driven(relation: str, change: Change) -> DataFrame:
    raise AssertionError(f"a plan over all rows is driven by what is {change.value} in `{relation}`")


def _spans(program: CheckedProgram) -> set[Span]:
    return {clause.origin for clause in program.clauses if clause.origin is not None}
