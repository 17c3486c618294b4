"""A whole recursion on the local engine of one worker, in a Python worker of Spark.

A round of joins is a job, and costs a thousand times what a round costs here. A worker process keeps what the recursion
reads and its views, with their indexes, from one transaction to the next: a change brings what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from upshot.check.program import CheckedProgram, ViewOptions
from upshot.core.schema import Role, Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.engine.limits import Limits
from upshot.engine.spark.part_work import counters
from upshot.engine.spark.shard import Shard, kept_as, kept_shard
from upshot.engine.spark.shard_files import LISTED, PartFiles, listing
from upshot.engine.spark.shard_plan import ShardPlan, SharedRelation, framed_program
from upshot.engine.spark.shared_file import SharedRows
from upshot.engine.work import ViewWork
from upshot.plan.program_plan import ComponentPlan, compile_program
from upshot.rewrite.stratified import stratified
from upshot.spark.types import rows_for_spark


def whole_plan(
    key: str, component: ComponentPlan, schemas: Mapping[str, Schema], places: Mapping[Span, str], limits: Limits
) -> ShardPlan:
    """All rules of a component in one part; what it reads is shared. Keys are left out: they are checked elsewhere."""
    read = {name: Schema(name, schemas[name].columns) for name in sorted(component.reads)}
    views = {view: Schema(view, schemas[view].columns, Role.VIEW) for view in component.views}
    empty = CheckedProgram(schemas={}, clauses=(), facts={}, strata=())
    program = framed_program(stratified(empty, component.clauses, read | views, by="whole recursion"))
    given = {name: program.schemas[name] for name in read}
    strategy = "bf" if component.strategy == "bf" else "auto"
    options = dict.fromkeys(component.views, ViewOptions(strategy, policy=component.policy))
    below = compile_program(stratified(empty, (), given, by="whole recursion"))
    whole = compile_program(replace(program, options=options))
    return ShardPlan(
        key, component.views, {}, (), tuple(read), {}, below, whole, places, limits
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WholeTask:
    """Computes the views, from `shared` relations, or follows a change of these, which the views are then among. For
    each view what comes, then for each view what goes, is written; the list of that comes with the work it took."""

    plan: ShardPlan
    shared: Mapping[str, SharedRelation]
    folders: tuple[Path, ...]
    change: WholeChange | None = None

    @property
    def made(self) -> list[tuple[Type, ...]]:
        """The types of the sets of rows that it writes."""
        return (1 if self.change is None else 2) * [self.plan.types(view) for view in self.plan.views]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not sum(batch.num_rows for batch in batches):
            return
        work = ViewWork()

        def write(files: PartFiles) -> None:
            if self.change is None:
                with kept_shard(self.plan, self.shared) as shard:
                    shard.load({}, files)
                    shard.add_work(work)
            else:
                with kept_as(WholeShard, following(self.plan), self.shared) as whole:
                    whole.follow_change(self.change, files, work)

        yield listing(PartFiles(self.folders, self.made), write)
        yield from rows_for_spark(counters(work, without=("jobs",)), LISTED).to_batches()


@dataclass(frozen=True, slots=True)
class WholeChange:
    """What a transaction inserts into the relations that are read, and deletes from them."""

    inserted: Mapping[str, tuple[SharedRows, ...]]
    deleted: Mapping[str, tuple[SharedRows, ...]]


def following(plan: ShardPlan) -> ShardPlan:
    """The plan of a worker that holds the views too."""
    return replace(plan, key=f"{plan.key}-whole", shared=(*plan.shared, *plan.views), below=plan.whole)


class WholeShard(Shard):
    """A local engine that holds what a recursion reads, and its views."""

    def _settle_shared(self) -> None:
        """What came is the state, the rows of the views included; nothing is derived from it."""
        for name in self._staged:
            with self._bounded(name):
                self._now.tables[name].settle()
        for component in self._now.components:
            component.fresh = False
        self.accept()

    def follow_change(self, change: WholeChange, files: PartFiles, work: ViewWork) -> None:
        """Write what the change brings the views and takes from them. It is not kept: the state that the driver tells
        of next may be another one."""
        try:
            for changes, insert in ((change.deleted, False), (change.inserted, True)):
                for name, shared in changes.items():
                    for each in shared:
                        self._stage_shared(name, each, insert=insert)
            self.propagate()
            self.add_work(work)
            self.write_changes(files)
        finally:
            self.rollback()
