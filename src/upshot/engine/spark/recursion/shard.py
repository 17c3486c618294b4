"""One part of a decomposed recursion, in a Python worker of Spark: the local engine on the part's own rows.

Rows come in as Arrow, relations that all parts need whole with the task itself, and go out as Arrow. Nothing is kept
for the next task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from upshot.check.program import CheckedProgram, ViewOptions
from upshot.core.errors import Error
from upshot.core.schema import Column, Schema
from upshot.core.span import Span
from upshot.core.types import BOOLEAN, NUMBER, SYMBOL, TEXTUAL, Type
from upshot.engine.limits import BudgetExceeded, Limits
from upshot.engine.local import LocalEngine
from upshot.engine.local.kernel.layout import NEW, T_DEL, T_INS
from upshot.engine.local.storage.arrow_codec import decode_table
from upshot.engine.local.storage.codec import null_code
from upshot.engine.local.storage.restore import read_rows
from upshot.engine.spark.storage.requests import Slots
from upshot.engine.user_functions import UserFunctions
from upshot.engine.work import ViewWork
from upshot.plan.pivot import Columns, Decomposition
from upshot.plan.program_plan import ProgramPlan, compile_program
from upshot.rewrite.stratified import stratified
from upshot.spark.failures import CarriedError, marked
from upshot.spark.types import arrow_type_for_spark, rows_for_spark

Codes = NDArray[np.int64]
Types = tuple[Type, ...]
Made = Iterator[tuple[int, Codes]]
"""Rows of the sets that a part makes, with the numbers of the sets."""

AT_ONCE = 1 << 20
"""About this many rows of the views are computed at a time: a set that fits the processor's cache is faster, and memory
does not grow with the part."""

_BUCKETS = 64
"""The most steps for one part."""

_FEW = 1 << 11
"""A part with so few rows is one step."""

_BATCH = 1 << 16
"""Rows that go out at a time."""

COUNTED: Types = (SYMBOL, NUMBER)
"""The last set of rows that a part makes: names of counters, and their values."""

PART = "part"
"""The counter of parts: the result of a part without it is incomplete."""

RECEIVED, ROWS, OUTGROWN, HELD_BACK = "received", "rows of set ", "outgrown", "held back"
"""Counters: input rows of a part; rows that it made, by set; parts that need more memory than they may take; parts with
more rows than `most`, which return none."""

_NOT_COUNTED = ("rounds", "jobs")
"""Steps inside a part are not counted: for the driver all parts together are one round."""


# ---- the plan of all parts ---------------------------------------------------------------------------------------

SharedRows = tuple[tuple[bool, pa.Table], ...]
"""The rows of a relation that every part needs whole: tables to insert (True) or delete in this order."""


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The program of every part of a component. `pivots` names the columns that hold the pivot, of views, seeds and
    split relations."""

    views: tuple[str, ...]
    seeds: Mapping[str, str]
    split: tuple[str, ...]
    shared: tuple[str, ...]
    pivots: Mapping[str, Columns]
    below: ProgramPlan
    """The program without the recursion: shared relations and the views derived from them alone."""
    whole: ProgramPlan
    places: Mapping[Span, str]
    """The names of the rules' places in errors."""
    limits: Limits

    @property
    def moving(self) -> tuple[str, ...]:
        """The relations of which a part has its own rows, without the views."""
        return (*self.seeds.values(), *self.split)

    def types(self, relation: str) -> tuple[Type, ...]:
        return self.whole.normal.schemas[relation].types


def shard_plan(found: Decomposition, places: Mapping[Span, str], limits: Limits) -> ShardPlan:
    """The plan of the parts of a decomposition."""
    assert found.program is not None
    program = framed_program(found.program)
    own = {*found.views, *found.seeds.values(), *found.split}
    clauses = [clause for clause in program.clauses if clause.head.relation not in own]
    schemas = {name: schema for name, schema in program.schemas.items() if name not in own}
    assert found.component is not None
    options = dict.fromkeys(found.views, ViewOptions(found.component.strategy.inner, policy=found.component.policy))
    below = stratified(program, clauses, schemas, by="decomposition")
    if found.linearized:
        # A linear closure takes more rounds than the original, and always ends.
        limits = replace(limits, max_rounds=max(limits.max_rounds, Limits().max_rounds))
    limits = replace(limits, functions=UserFunctions())
    pivots = {
        **found.pivots,
        **found.split,
        **{seed: found.pivots[v] for v, seed in found.seeds.items()},
    }
    return ShardPlan(
        found.views, found.seeds, tuple(found.split), found.shared, pivots, compile_program(below),
        compile_program(replace(program, options=options)), places, limits,
    )  # fmt: skip


def framed_program(program: CheckedProgram) -> CheckedProgram:
    """The program over relations whose columns have the names of frames."""
    schemas = {
        name: replace(schema, columns=tuple(Column(f"c{i}", c.type) for i, c in enumerate(schema.columns)))
        for name, schema in program.schemas.items()
    }
    return replace(program, schemas=schemas)


# ---- one part ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Computes the views of a part: rows of the seeds and split relations come in, the views go out. A part with more
    than `most` rows returns none."""

    plan: ShardPlan
    shared: Mapping[str, SharedRows]
    most: int | None = None

    @property
    def given_names(self) -> tuple[str, ...]:
        return self.plan.moving

    @property
    def made(self) -> tuple[Types, ...]:
        """The types of the sets of rows of the result: the views, then counters."""
        return (*map(self.plan.types, self.plan.views), COUNTED)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _batches(self, batches)

    def run(self, shard: Shard, rows: Sequence[Codes], work: ViewWork) -> Made:
        """The views; nothing is counted, since all their rows are new."""
        return shard.load(dict(zip(self.plan.moving, rows, strict=True)))


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Computes the change of the views of a part. The old rows of views, seeds and split relations come in, and the new
    rows of those in `moved`; for each view the inserted rows, then for each view the deleted ones, go out."""

    plan: ShardPlan
    shared: Mapping[str, SharedRows]
    inserted: Mapping[str, pa.Table]
    deleted: Mapping[str, pa.Table]
    """The changes of shared relations in the transaction."""
    moved: tuple[str, ...]
    most: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The relations whose old rows come in."""
        return (*self.plan.views, *self.plan.moving)

    @property
    def given_names(self) -> tuple[str, ...]:
        return (*self.names, *self.moved)

    @property
    def made(self) -> tuple[Types, ...]:
        return (*(2 * tuple(map(self.plan.types, self.plan.views))), COUNTED)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _batches(self, batches)

    def run(self, shard: Shard, rows: Sequence[Codes], work: ViewWork) -> Made:
        old = dict(zip(self.names, rows, strict=False))
        return shard.change(self, old, dict(zip(self.moved, rows[len(self.names) :], strict=True)), work)


def given_slots(task: LoadTask | ChangeTask) -> Slots:
    """The input rows of a part; the last member represents the part itself, which may have no rows."""
    return Slots((*map(task.plan.types, task.given_names), (BOOLEAN,)))


def _batches(task: LoadTask | ChangeTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that the task makes of a part, then its counters."""
    found = [batch for batch in batches if batch.num_rows]
    counters = {PART: 1, RECEIVED: sum(batch.num_rows for batch in found)}
    out, work = Slots(task.made), ViewWork()
    if found:
        rows = [pa.Table.from_batches(found)]
        found.clear()
        try:
            yield from _made(task, rows, out, work, counters)
        except BudgetExceeded:
            counters[OUTGROWN] = 1
        except Error as error:
            where = task.plan.places.get(error.span, "") if error.span is not None else ""
            raise CarriedError(marked(error, where)) from None
    values = {each.name: getattr(work, each.name) for each in fields(ViewWork) if each.name not in _NOT_COUNTED}
    counters |= {name: value for name, value in values.items() if isinstance(value, int) and value}
    (batch,) = rows_for_spark(counters.items(), COUNTED).combine_chunks().to_batches()
    yield out.batch(len(task.made) - 1, batch.columns, batch.num_rows)


def _made(
    task: LoadTask | ChangeTask, rows: list[pa.Table], out: Slots, work: ViewWork, counters: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    shard = Shard(task.plan)
    total = 0
    try:
        shard.hold_shared(task.shared)
        # Removed from the list, so that the memory is freed once they are coded.
        coded = shard.coded(task.given_names, given_slots(task).split(rows.pop()))
        for member, codes in task.run(shard, coded, work):
            total += len(codes)
            if task.most is not None and total > task.most:
                counters[HELD_BACK] = 1
                return
            counters[f"{ROWS}{member}"] = counters.get(f"{ROWS}{member}", 0) + len(codes)
            for columns, count in shard.columns(task.made[member], codes):
                yield out.batch(member, columns, count)
    finally:
        shard.close()


# ---- the engine of a part ---------------------------------------------------------------------------------------


class Shard(LocalEngine):
    """A local engine that holds the shared relations, and for a while the relations of a part."""

    def __init__(self, plan: ShardPlan) -> None:
        super().__init__(limits=plan.limits)
        # Spark runs as many workers as there are processors.
        self._runner.workers = 1
        self._plan = plan

    def _collect(self) -> None:
        """Do nothing: rows of the part are outside the tables, and their texts must not be reclaimed."""

    # ---- shared relations --------------------------------------------------------------------------------------

    def hold_shared(self, shared: Mapping[str, SharedRows]) -> None:
        """Load the shared relations and the views that are derived from them alone."""
        self.install(self._plan.below)
        for name, rows in shared.items():
            self._now.tables[name].reserve(sum(table.num_rows for insert, table in rows if insert))
            for insert, table in rows:
                self._stage_table(name, table, insert=insert)
        self.propagate()
        self.accept()

    def _stage_table(self, name: str, table: pa.Table, *, insert: bool) -> None:
        for codes in read_rows(self._codec, self._schema(name), table):
            self._stage_codes(name, codes, insert=insert)

    def _stage_codes(self, name: str, codes: Codes, *, insert: bool) -> None:
        self._staged.add(name)
        with self._bounded(name):
            self._now.tables[name].stage(codes, insert=insert)

    # ---- a part ------------------------------------------------------------------------------------------------

    def coded(self, names: Sequence[str], tables: Sequence[pa.Table]) -> list[Codes]:
        """The rows of frames of the part's relations; further tables are ignored."""
        schemas = self._plan.whole.normal.schemas
        return [
            codes
            for name, table in zip(names, tables, strict=False)
            for codes in read_rows(self._codec, schemas[name], table)
        ]

    def load(self, given: Mapping[str, Codes]) -> Made:
        """The views that follow from the part's seeds and split relations."""
        steps = _Steps(given, self._plan.pivots)
        while steps.remaining:
            self.install(self._plan.whole)
            try:
                for name, codes in steps.take().items():
                    self._stage_codes(name, codes, insert=True)
                self.propagate()
                for member, view in enumerate(self._plan.views):
                    codes = self._now.tables[view].in_state(NEW)
                    yield member, codes
                    steps.made += len(codes)
            finally:
                # Drops the views' tables, which were made for this step.
                self.rollback()

    def change(self, task: ChangeTask, old: Mapping[str, Codes], new: Mapping[str, Codes], work: ViewWork) -> Made:
        """The changes of the transaction in the views of the part; the counters are added to the work."""
        moved = {_moved(name): codes for name, codes in new.items()}
        pivots = {**self._plan.pivots, **{_moved(name): self._plan.pivots[name] for name in new}}
        steps = _Steps({**old, **moved}, pivots, expected=sum(map(len, old.values())))
        while steps.remaining:
            rows = steps.take()
            self._adopt({name: rows[name] for name in old})
            try:
                for name in new:
                    self._stage_codes(name, rows[name], insert=False)
                    self._stage_codes(name, rows[_moved(name)], insert=True)
                for changes, insert in ((task.deleted, False), (task.inserted, True)):
                    for name, table in changes.items():
                        self._stage_table(name, table, insert=insert)
                self.propagate()
                self._add_work(work)
                yield from self._changes()
            finally:
                self._forget()

    def _changes(self) -> Made:
        """For each view the inserted rows, then for each view the deleted ones."""
        for shift, field in ((0, T_INS), (len(self._plan.views), T_DEL)):
            for member, view in enumerate(self._plan.views, start=shift):
                yield member, self._now.tables[view].listed(field)

    def _add_work(self, work: ViewWork) -> None:
        """Add the counters of the views in the last propagation."""
        for views, done in self.work.views.items():
            if not {*views.split(", ")}.isdisjoint(self._plan.views):
                work.add(done)

    def _adopt(self, rows: Mapping[str, Codes]) -> None:
        """Make these rows of the part's relations the accepted state, without computation."""
        self.install(self._plan.whole)
        try:
            for name, codes in rows.items():
                table = self._now.tables[name]
                with self._bounded(name):
                    table.stage(codes, insert=True)
                    table.settle()
                    table.accept()
        except BaseException:
            self.rollback()
            raise
        for component in self._now.components:
            component.fresh = False
        self.accept()

    def _forget(self) -> None:
        """Undo the open change, then drop the relations of the part."""
        self.rollback()
        self.install(self._plan.below)
        self.propagate()
        self.accept()

    # ---- result rows ----------------------------------------------------------------------------------------

    def columns(self, types: Sequence[Type], codes: Codes) -> Iterator[tuple[list[pa.Array], int]]:
        """Rows as columns of frames, some at a time, with their number."""
        values = self._codec.dictionary.values
        texts = None
        if any(type.kind in TEXTUAL for type in types) and 4 * len(codes) > len(values):
            texts = pa.array(values, pa.string())
        for start in range(0, len(codes), _BATCH):
            part = codes[start : start + _BATCH]
            made = [self._column(type, part[:, i], texts) for i, type in enumerate(types)]
            yield made or [pa.array([True] * len(part))], len(part)

    def _column(self, type: Type, codes: Codes, texts: pa.Array | None) -> pa.Array:
        """Values of a column; `texts` are all texts by code, as an array if many are needed."""
        if type.kind in TEXTUAL and texts is not None:
            if not type.nullable:
                return texts.take(pa.array(codes))
            missing = codes == null_code(type)
            return texts.take(pa.array(np.where(missing, 0, codes), mask=missing))
        table = decode_table(self._codec, Schema("", (Column("c0", type),)), codes.reshape(-1, 1))
        return table.column(0).chunk(0).cast(arrow_type_for_spark(type))


def _moved(name: str) -> str:
    """The name of a relation's new rows beside its old ones; no relation of a user has this name."""
    return f"{name}'"


class _Steps:
    """The rows of a part, some pivots at a time. Sets are named; without pivots there is one step."""

    def __init__(self, rows: Mapping[str, Codes], pivots: Mapping[str, Sequence[int]], expected: int = 0) -> None:
        self._rows, self._next, self.made = dict(rows), 0, 0
        self._expected = expected
        """The number of rows of the views, if known."""
        self.remaining = 1
        self._bounds: dict[str, Codes] = {}
        if pivots and sum(map(len, rows.values())) > _FEW:
            self.remaining = _BUCKETS
            for name, codes in rows.items():
                self._cut(name, codes, pivots[name])

    def _cut(self, name: str, codes: Codes, columns: Sequence[int]) -> None:
        """Order the rows by a hash of their pivots."""
        bucket = np.zeros(len(codes), np.uint64)
        with np.errstate(over="ignore"):
            for column in columns:
                bucket = (bucket ^ codes[:, column].view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        bucket >>= np.uint64(58)
        self._rows[name] = codes[np.argsort(bucket, kind="stable")]
        self._bounds[name] = np.concatenate([[0], np.cumsum(np.bincount(bucket.astype(np.int64), minlength=_BUCKETS))])

    def take(self) -> dict[str, Codes]:
        """The rows of the next step: of enough pivots for about `AT_ONCE` derived rows."""
        if not self._bounds:
            self.remaining = 0
            return self._rows
        first = self._next
        done = self.made / first if first else self._expected / _BUCKETS
        count = min(self.remaining, max(1, int(AT_ONCE / done) if done else (self.remaining if first else 1)))
        self._next += count
        self.remaining -= count
        return {name: self._rows[name][bounds[first] : bounds[first + count]] for name, bounds in self._bounds.items()}
