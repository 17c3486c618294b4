"""One part of a decomposed recursion, in a Python worker of Spark: the local engine on the part's own rows.

A worker process keeps the relations that all parts share, with their indexes, from one task to the next and from one
transaction to the next: a change brings what is new, and the engine follows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from upshot.core.errors import Error
from upshot.core.schema import Column, Schema
from upshot.core.types import Kind, Type
from upshot.engine.limits import BudgetExceeded
from upshot.engine.local import LocalEngine
from upshot.engine.local.arrow_codec import decode_table
from upshot.engine.local.codec import null_code
from upshot.engine.local.layout import NEW, T_DEL, T_INS
from upshot.engine.local.restore import read_rows
from upshot.engine.spark.part_work import RECEIVED, counters
from upshot.engine.spark.shard_files import LISTED, PartFiles, listing
from upshot.engine.spark.shard_plan import ShardPlan, SharedRelation
from upshot.engine.spark.shared_file import NO_ROWS, SharedRows
from upshot.engine.spark.slots import Slots
from upshot.engine.work import ViewWork
from upshot.spark.failures import CarriedError, marked
from upshot.spark.types import arrow_type_for_spark, rows_for_spark

Codes = NDArray[np.int64]

AT_ONCE = 1 << 20
"""About so many rows of the views are computed at a time: a set that the processor's cache holds is faster, and memory
does not grow with the part."""

_BUCKETS = 64
"""A part is worked off in at most so many steps."""

_FEW = 1 << 11
"""A part with so few rows is one step."""

_BATCH = 1 << 20
"""Rows that are decoded and written at a time, as one group of rows of the file."""

_MOST_KEPT = 2
"""Components whose shared relations a worker process keeps."""


# ---- tasks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadTask:
    """Computes the views of a part: rows of the seeds and split relations come in, the views go to files."""

    plan: ShardPlan
    shared: Mapping[str, SharedRelation]
    folders: tuple[Path, ...]

    @property
    def given_names(self) -> tuple[str, ...]:
        return self.plan.moving

    @property
    def given(self) -> Slots:
        return Slots(tuple(map(self.plan.types, self.given_names)))

    @property
    def made(self) -> list[tuple[Type, ...]]:
        """The types of the sets of rows that it writes: the views."""
        return [self.plan.types(view) for view in self.plan.views]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _listed(self, batches)

    def run(self, shard: Shard, rows: Sequence[Codes], files: PartFiles, work: ViewWork) -> None:
        """Nothing is counted: all that is made is new."""
        shard.load(dict(zip(self.plan.moving, rows, strict=True)), files)


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Computes the change of the views of a part. The old rows of views, seeds and split relations come in, and the new
    rows of those in `moved`; for each view what came, then for each view what went, goes to files."""

    plan: ShardPlan
    shared: Mapping[str, SharedRelation]
    folders: tuple[Path, ...]
    inserted: Mapping[str, tuple[SharedRows, ...]]
    deleted: Mapping[str, tuple[SharedRows, ...]]
    """Of the shared relations, what the transaction changes."""
    moved: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The relations whose old rows come in."""
        return (*self.plan.views, *self.plan.moving)

    @property
    def given_names(self) -> tuple[str, ...]:
        return (*self.names, *self.moved)

    @property
    def given(self) -> Slots:
        return Slots(tuple(map(self.plan.types, self.given_names)))

    @property
    def made(self) -> list[tuple[Type, ...]]:
        return 2 * [self.plan.types(view) for view in self.plan.views]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _listed(self, batches)

    def run(self, shard: Shard, rows: Sequence[Codes], files: PartFiles, work: ViewWork) -> None:
        old = dict(zip(self.names, rows, strict=False))
        shard.change(self, old, dict(zip(self.moved, rows[len(self.names) :], strict=True)), files, work)


def _listed(task: LoadTask | ChangeTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The list of the files that the task writes for a part, with the work that it took."""
    rows = [received(batches)]
    if rows[0] is None:
        return
    given = rows[0].num_rows
    work = ViewWork()

    def write(files: PartFiles) -> None:
        with kept_shard(task.plan, task.shared) as shard:
            # Taken out: once they are coded nobody needs them, and they may be large.
            coded = shard.coded(task.given_names, task.given.split(rows.pop()))
            task.run(shard, coded, files, work)

    yield listing(PartFiles(task.folders, task.made), write)
    # Steps inside a part take no job each: in the driver's count all parts together are one round.
    told = [*counters(work, without=("rounds", "jobs")), (RECEIVED, "", given)]
    yield from rows_for_spark(told, LISTED).to_batches()


def received(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """All rows of the part, none if it is empty."""
    found = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(found) if found else None


# ---- the engine of a part ---------------------------------------------------------------------------------------


class Shard(LocalEngine):
    """A local engine that holds the shared relations, and for a while the relations of a part."""

    def __init__(self, plan: ShardPlan) -> None:
        super().__init__(limits=plan.limits)
        # Spark runs as many workers as there are processors.
        self._runner.workers = 1
        self._plan = plan
        self._states: dict[str, SharedRelation] = {}
        self._holds_codes = False
        """Whether a part's rows are held outside the tables, so that no text may be reclaimed."""

    # ---- shared relations --------------------------------------------------------------------------------------

    def follow(self, shared: Mapping[str, SharedRelation]) -> None:
        """Bring the shared relations to another state of the same origin."""
        if not self._states:
            self.install(self._plan.below)
            for name, state in shared.items():
                self._now.tables[name].reserve(state.count)
                for insert, rows in state.base:
                    self._stage_shared(name, rows, insert=insert)
        for name, state in shared.items():
            before = self._states.get(name, replace(state, stamp="", added=NO_ROWS, removed=NO_ROWS))
            if before.stamp != state.stamp:
                self._stage_shared(name, before.added, insert=False)
                self._stage_shared(name, before.removed, insert=True)
                self._stage_shared(name, state.removed, insert=False)
                self._stage_shared(name, state.added, insert=True)
        if self._staged or self._before is not None:
            self._settle_shared()
        self._states = dict(shared)

    def _settle_shared(self) -> None:
        self.propagate()
        self.accept()

    def _stage_shared(self, name: str, rows: SharedRows, *, insert: bool) -> None:
        for codes in self.coded_rows(name, rows):
            self._stage_codes(name, codes, insert=insert)

    def coded_rows(self, name: str, rows: SharedRows) -> Iterator[Codes]:
        """Rows of a relation that were written down for workers."""
        schema = self._schema(name)
        for folder in rows.folders:
            yield from read_rows(self._codec, schema, folder, rows.names)
        if rows.table is not None:
            yield from read_rows(self._codec, schema, rows.table.read())

    def _stage_codes(self, name: str, codes: Codes, *, insert: bool) -> None:
        self._staged.add(name)
        with self._bounded(name):
            self._now.tables[name].stage(codes, insert=insert)

    # ---- a part ------------------------------------------------------------------------------------------------

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Within this, texts of rows that were coded keep their codes."""
        self._holds_codes = True
        try:
            yield
        finally:
            self._holds_codes = False
        self._collect()

    def _collect(self) -> None:
        if not self._holds_codes:
            super()._collect()

    def coded(self, names: Sequence[str], tables: Sequence[pa.Table]) -> list[Codes]:
        """The rows of frames of the part's relations."""
        schemas = self._plan.whole.normal.schemas
        return [
            codes
            for name, table in zip(names, tables, strict=True)
            for codes in read_rows(self._codec, schemas[name], table)
        ]

    def coded_file(self, name: str, path: Path) -> Iterator[Codes]:
        """The rows of a Parquet file of one of the part's relations."""
        return read_rows(self._codec, self._plan.whole.normal.schemas[name], path)

    def load(self, given: Mapping[str, Codes], files: PartFiles) -> None:
        """Write the views that follow from the part's seeds and split relations."""
        steps = _Steps(given, self._plan.pivots)
        while steps.left:
            self.install(self._plan.whole)
            try:
                for name, codes in steps.take().items():
                    self._stage_codes(name, codes, insert=True)
                self.propagate()
                for member, view in enumerate(self._plan.views):
                    codes = self._now.tables[view].in_state(NEW)
                    self.write(view, codes, files, member)
                    steps.made += len(codes)
            finally:
                # The views' tables, which were made for this step, go as a whole.
                self.rollback()

    def change(
        self, task: ChangeTask, old: Mapping[str, Codes], new: Mapping[str, Codes], files: PartFiles, work: ViewWork
    ) -> None:
        """Write what the transaction changes in the views of the part, and add to the work what that took."""
        moved = {_moved(name): codes for name, codes in new.items()}
        pivots = {**self._plan.pivots, **{_moved(name): self._plan.pivots[name] for name in new}}
        steps = _Steps({**old, **moved}, pivots, expected=sum(map(len, old.values())))
        while steps.left:
            rows = steps.take()
            self.adopt({name: [rows[name]] for name in old})
            try:
                for name in new:
                    self._stage_codes(name, rows[name], insert=False)
                    self._stage_codes(name, rows[_moved(name)], insert=True)
                for changes, insert in ((task.deleted, False), (task.inserted, True)):
                    for name, shared in changes.items():
                        for each in shared:
                            self._stage_shared(name, each, insert=insert)
                self.propagate()
                self.add_work(work)
                self.write_changes(files)
            finally:
                self.forget()

    def write_changes(self, files: PartFiles) -> None:
        """Write for each view what comes, then for each view what goes."""
        for shift, field in ((0, T_INS), (len(self._plan.views), T_DEL)):
            for member, view in enumerate(self._plan.views, start=shift):
                self.write(view, self._now.tables[view].listed(field), files, member)

    def add_work(self, work: ViewWork) -> None:
        """Add what the last propagation took for the views."""
        for views, done in self.work.views.items():
            if not {*views.split(", ")}.isdisjoint(self._plan.views):
                work.add(done)

    def adopt(self, rows: Mapping[str, Iterable[Codes]]) -> None:
        """The part's relations with these rows, as the accepted state; nothing is computed."""
        self.install(self._plan.whole)
        try:
            self._take(rows)
        except BaseException:
            self.rollback()
            raise
        for component in self._now.components:
            component.fresh = False
        self.accept()

    def _take(self, rows: Mapping[str, Iterable[Codes]]) -> None:
        for name, pieces in rows.items():
            self.hold(name, ((True, codes) for codes in pieces))

    def hold(self, name: str, pieces: Iterable[tuple[bool, Codes]]) -> None:
        """Rows come into a relation of the part, or go, in turn: as its accepted state."""
        table = self._now.tables[name]
        with self._bounded(name):
            for insert, codes in pieces:
                table.stage(codes, insert=insert)
            table.settle()
            table.accept()

    def forget(self) -> None:
        """Undo the open change, then let go of the part."""
        self.rollback()
        self.install(self._plan.below)
        self.propagate()
        self.accept()

    def advance(
        self, rows: Mapping[str, Iterable[Codes]], known: Mapping[str, str], driving: Mapping[str, str],
        heads: Mapping[str, str],
    ) -> dict[str, tuple[Codes, Codes]]:  # fmt: skip
        """Take rows of views into what is known: for each view those that were not, and the heads that follow from
        them. The heads are not kept: most of them are rows of other parts."""
        came = {view: self._added(known[view], pieces) for view, pieces in rows.items()}
        for view, codes in came.items():
            self._stage_codes(driving[view], codes, insert=True)
        try:
            self.propagate()
            tables = self._now.tables
            return {view: (codes, tables[heads[view]].listed(T_INS)) for view, codes in came.items()}
        finally:
            self.rollback()

    def _added(self, name: str, pieces: Iterable[Codes]) -> Codes:
        """The rows that were not in the relation; now they are."""
        table = self._now.tables[name]
        with self._bounded(name):
            for codes in pieces:
                table.stage(codes, insert=True)
            table.settle()
        added = table.listed(T_INS)
        table.accept()
        return added

    def text(self, code: int) -> str:
        return self._codec.dictionary.values[code]

    # ---- rows going out ----------------------------------------------------------------------------------------

    def write(self, view: str, codes: Codes, files: PartFiles, member: int) -> None:
        """Rows of the view, as one of the part's sets."""
        self.write_rows(self._plan.types(view), codes, files, member)

    def write_rows(self, types: Sequence[Type], codes: Codes, files: PartFiles, member: int) -> None:
        values = self._codec.dictionary.values
        texts = None
        if any(type.kind is Kind.SYMBOL for type in types) and 4 * len(codes) > len(values):
            texts = pa.array(values, pa.string())
        for start in range(0, len(codes), _BATCH):
            part = codes[start : start + _BATCH]
            columns = [self._column(type, part[:, i], texts) for i, type in enumerate(types)]
            files.write(member, columns or [pa.array([True] * len(part))])

    def _column(self, type: Type, codes: Codes, texts: pa.Array | None) -> pa.Array:
        """Values of a column; `texts` are all texts by code, where so many go out that they were made an array."""
        if type.kind is Kind.SYMBOL and texts is not None:
            if not type.nullable:
                return texts.take(pa.array(codes))
            missing = codes == null_code(type)
            return texts.take(pa.array(np.where(missing, 0, codes), mask=missing))
        table = decode_table(self._codec, Schema("", (Column("c0", type),)), codes.reshape(-1, 1))
        return table.column(0).chunk(0).cast(arrow_type_for_spark(type))


def _moved(name: str) -> str:
    """What the new rows of a relation are called beside its old ones; no relation is called so."""
    return f"{name}'"


class _Steps:
    """The rows of a part, some pivots at a time. Sets are named; without pivots there is one step."""

    def __init__(self, rows: Mapping[str, Codes], pivots: Mapping[str, Sequence[int]], expected: int = 0) -> None:
        self._rows, self._next, self.made = dict(rows), 0, 0
        self._expected = expected
        """How many rows of the views there are, if that is known."""
        self.left = 1
        self._bounds: dict[str, Codes] = {}
        if pivots and sum(map(len, rows.values())) > _FEW:
            self.left = _BUCKETS
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
        """The rows of the next step: of so many pivots that about `AT_ONCE` rows come of them."""
        if not self._bounds:
            self.left = 0
            return self._rows
        first = self._next
        done = self.made / first if first else self._expected / _BUCKETS
        count = min(self.left, max(1, int(AT_ONCE / done) if done else (self.left if first else 1)))
        self._next += count
        self.left -= count
        return {name: self._rows[name][bounds[first] : bounds[first + count]] for name, bounds in self._bounds.items()}


# ---- what a worker process keeps --------------------------------------------------------------------------------

_KEPT: OrderedDict[tuple[str, ...], Shard] = OrderedDict()

S = TypeVar("S", bound=Shard)


@contextmanager
def kept_shard(plan: ShardPlan, shared: Mapping[str, SharedRelation]) -> Iterator[Shard]:
    """The engine of a part of a recursion, as `kept_as` keeps it."""
    with kept_as(Shard, plan, shared) as shard:
        yield shard


@contextmanager
def kept_as(make: type[S], plan: ShardPlan, shared: Mapping[str, SharedRelation]) -> Iterator[S]:
    """The engine with the shared relations in their state; kept for the next task, unless this one fails."""
    key = (plan.key, *(state.origin for _, state in sorted(shared.items())))
    kept = _KEPT.pop(key, None)
    shard = kept if isinstance(kept, make) else make(plan)
    try:
        try:
            shard.follow(shared)
        except FileNotFoundError:
            # The files of the state it was in are gone, so it cannot go on from there.
            shard.close()
            shard = make(plan)
            shard.follow(shared)
        with shard.holding():
            yield shard
    except BaseException as error:
        shard.close()
        if isinstance(error, Error) and not isinstance(error, BudgetExceeded):
            where = plan.places.get(error.span, "") if error.span is not None else ""
            raise CarriedError(marked(error, where)) from None
        raise
    _KEPT[key] = shard
    while len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)[1].close()
