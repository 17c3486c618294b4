"""Demand programs in a Python worker of Spark: the local engine over the stored relations that views rest on.

A demand program takes many short rounds, and a round as a job costs a thousand times what it does. A worker process
keeps the stored relations, with their indexes, from one transaction to the next, so that a change takes one job and
costs what it does on the local engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from upshot.check.program import Clause
from upshot.core.schema import Column, Schema
from upshot.core.types import Type
from upshot.engine.local.answers import Answers
from upshot.engine.local.on_demand import OnDemandViews
from upshot.engine.local.restore import read_rows
from upshot.engine.spark.part_work import counters
from upshot.engine.spark.shard import Codes, Shard, kept_as
from upshot.engine.spark.shard_files import LISTED, PartFiles, listing
from upshot.engine.spark.shard_plan import ShardPlan, SharedRelation
from upshot.engine.spark.shared_file import SharedRows
from upshot.engine.work import ViewWork
from upshot.rewrite.demand import DemandProgram
from upshot.spark.types import rows_for_spark

Given = Mapping[str, tuple[SharedRows, ...]]


@dataclass(frozen=True, slots=True)
class NetChanges:
    """What comes into each of the views, then what goes out of each, that follows from changes of stored relations.
    Those `afresh` are left out, with what rests on them; `following` are the rules for a change of the rules, if there
    is one."""

    views: tuple[str, ...]
    afresh: frozenset[str]
    inserted: Given
    deleted: Given
    following: DemandProgram | None = None

    def found(self, shard: DemandShard, work: ViewWork) -> list[Codes]:
        return shard.net_changes(self, work)


@dataclass(frozen=True, slots=True)
class Asked:
    """The rows of views that have one of the bindings in the columns which the view's adornment binds, and others that
    were found on the way."""

    adornments: Mapping[str, str]
    bindings: Given

    def found(self, shard: DemandShard, work: ViewWork) -> list[Codes]:
        return [
            shard.asked(view, adornment, self.bindings.get(view, ())) for view, adornment in self.adornments.items()
        ]


@dataclass(frozen=True, slots=True)
class Queried:
    """The rows that a query's clauses derive for its head, from what the worker holds and what is `given` for the
    query; `helpers` are relations that the clauses derive as well."""

    schema: Schema
    clauses: tuple[Clause, ...]
    shapes: Mapping[str, Schema]
    given: Given
    helpers: Mapping[str, Schema]

    def found(self, shard: DemandShard, work: ViewWork) -> list[Codes]:
        return [shard.answer(self)]


@dataclass(frozen=True, slots=True)
class DemandTask:
    """Writes the sets of rows that are wanted, of the types `made`, and lists them, with the work that it took."""

    plan: ShardPlan
    shared: Mapping[str, SharedRelation]
    folders: tuple[Path, ...]
    made: tuple[tuple[Type, ...], ...]
    wanted: NetChanges | Asked | Queried

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not sum(batch.num_rows for batch in batches):
            return
        work = ViewWork()

        def write(files: PartFiles) -> None:
            with kept_as(DemandShard, self.plan, self.shared) as shard:
                for member, codes in enumerate(self.wanted.found(shard, work)):
                    shard.write_rows(self.made[member], codes, files, member)

        yield listing(PartFiles(self.folders, self.made), write)
        # The driver counts the net changes.
        yield from rows_for_spark(counters(work, without=("inserted", "deleted")), LISTED).to_batches()


class DemandShard(Shard):
    """A local engine that holds the stored relations; its views are all on demand."""

    def _settle_shared(self) -> None:
        """The stored relations become the state; nothing is derived from them before it is asked for."""
        for name in self._staged:
            with self._bounded(name):
                self._now.tables[name].settle()
        self._now.afresh = frozenset()
        self.accept()

    @property
    def _views(self) -> OnDemandViews:
        assert self._now.on_demand is not None
        return self._now.on_demand

    def net_changes(self, wanted: NetChanges, work: ViewWork) -> list[Codes]:
        try:
            for changes, insert in ((wanted.deleted, False), (wanted.inserted, True)):
                for name, shared in changes.items():
                    for each in shared:
                        self._stage_shared(name, each, insert=insert)
            changed = sorted(self._staged)
            with self._bounded(", ".join(wanted.views)):
                for name in changed:
                    self._now.tables[name].settle()
                self._views.follow_rules(wanted.following)
                if wanted.afresh:
                    found, done = self._views.changes(changed, wanted.afresh)
                else:
                    found, done = self._views.propagate(changed, {})
            work.add(done)
        finally:
            self.rollback()
        none = {view: np.empty((0, self._schema(view).arity), np.int64) for view in wanted.views}
        return [found[view][i] if view in found else none[view] for i in (0, 1) for view in wanted.views]

    def asked(self, view: str, adornment: str, given: Iterable[SharedRows]) -> Codes:
        types = [t for t, letter in zip(self._schema(view).types, adornment, strict=True) if letter == "b"]
        if not types:
            bindings = np.empty((1, 0), np.int64)
        else:
            bindings = self._rows_of(Schema(view, tuple(Column(f"c{i}", type) for i, type in enumerate(types))), given)
        with self._bounded(view):
            return self._views.asked(view, adornment, bindings)

    def _rows_of(self, schema: Schema, given: Iterable[SharedRows]) -> Codes:
        parts = [codes for rows in given for codes in self._coded_rows(schema, rows)]
        return np.concatenate(parts) if parts else np.empty((0, schema.arity), np.int64)

    def _coded_rows(self, schema: Schema, rows: SharedRows) -> Iterator[Codes]:
        for folder in rows.folders:
            yield from read_rows(self._codec, schema, folder, rows.names)
        if rows.table is not None:
            yield from read_rows(self._codec, schema, rows.table.read())

    def answer(self, wanted: Queried) -> Codes:
        with self._bounded("a query"):
            given = {name: (known, self._rows_of(known, wanted.given[name])) for name, known in wanted.shapes.items()}
            answers = Answers(self._now, "old", self._storage, self._codec, self._runner, memo=self._optimizations.memo)
            return answers.answer(wanted.schema, wanted.clauses, given, wanted.helpers)
