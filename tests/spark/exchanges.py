"""Recursion without a pivot run in this process, without Spark: what one worker does, and what parts that exchange rows
do, on rows the oracle gives. The worker that gets a task may not know what the one before did."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from tests.engine.driver import plain
from tests.spark.parts import Delta, Partitions, Row, State
from upshot.check.program import CheckedProgram
from upshot.engine.limits import Limits
from upshot.engine.naive import derive
from upshot.engine.spark import shard
from upshot.engine.spark.asks import Steps
from upshot.engine.spark.contents import Contents
from upshot.engine.spark.exchange import Exchange
from upshot.engine.spark.exchange_plan import ExchangePlan
from upshot.engine.spark.exchange_task import Files, PartTask, ScatterTask
from upshot.engine.spark.one_worker import OneWorker
from upshot.engine.spark.part_copies import by_part
from upshot.engine.spark.pieces import LocalPiece, Piece, nothing
from upshot.engine.spark.scratch import Scratch
from upshot.engine.spark.shard_files import LISTED
from upshot.engine.spark.tables import Table
from upshot.engine.spark.whole_shard import whole_plan
from upshot.engine.work import ViewWork
from upshot.plan import ComponentPlan
from upshot.plan.choice import read_by
from upshot.spark.types import rows_for_spark, rows_from_spark


class HereExchange(Exchange):
    """Tasks that wait for each other are threads; seeds are rows."""

    def _scattered(
        self, plan: ExchangePlan, sets: Sequence[tuple[str, Any]], folders: Sequence[Path]
    ) -> Steps[list[Files]]:
        yield from ()
        task = ScatterTask(plan, tuple(view for view, _ in sets), tuple(folders))
        batches = []
        for member, (_, rows) in enumerate(sets):
            table = rows_for_spark(rows, task.given.members[member])
            columns = [column.combine_chunks() for column in table.columns]
            batches.append(task.given.batch(member, columns, len(rows)))
        names: list[list[tuple[int, str]]] = [[] for _ in sets]
        for member, name, _ in _listed(task, batches):
            part, number = task.meaning(member)
            names[number].append((part, name))
        return [by_part(each, folder) for each, folder in zip(names, folders, strict=True)]

    def _met(self, task: PartTask) -> Steps[list[Any]]:
        yield from ()
        with ThreadPoolExecutor(self.plan.count) as threads:
            numbers = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(self.plan.count)]
            found = list(threads.map(lambda batch: _listed(task, [batch]), numbers))
        return [row for rows in found for row in rows]


def _listed(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], batches: Sequence[pa.RecordBatch]
) -> list[Any]:
    return [row for made in task(batches) for row in rows_from_spark(pa.Table.from_batches([made]), LISTED)]


class WholeRun:
    """A component without a pivot: loaded and changed by one worker, and in `count` parts."""

    def __init__(
        self, component: ComponentPlan, normal: CheckedProgram, folder: Path, rng: random.Random, count: int = 3
    ) -> None:
        self.component, self.rng, self._schemas = component, rng, normal.schemas
        plan = whole_plan(f"{folder.name}-{component.views[0]}", component, normal.schemas, {}, Limits())
        scratch = Scratch(folder)
        self._alone = OneWorker(plan, cast("Any", Partitions), scratch, small=1_000_000)
        self._exchange = HereExchange(plan, count, cast("Any", Partitions), scratch, small=1_000_000)
        self._tables: dict[str, Table] = {}

    def load(self, state: State) -> tuple[State, State]:
        """The views, by one worker and in parts."""
        views = self.component.views
        self._tables = {n: Table(self._schemas[n], cast("Any", None)) for n in (*self.component.reads, *views)}
        for name in self.component.reads:
            self._settle(name, set(), state[name])
            self._tables[name].accept()
        alone = self._run(self._alone.load(self._tables, ViewWork()))
        exits = [c for c in self.component.clauses if not read_by(c).intersection(views)]
        parts = self._run(self._exchange.load(self._derived(exits, state), self._tables))
        for view in views:
            self._settle(view, set(), _rows(alone[view]))
            self._tables[view].accept()
        return {v: _rows(alone[v]) for v in views}, {v: _rows(parts[v]) for v in views}

    def change(self, old: State, new: State) -> tuple[Delta, Delta]:
        """The changes of the views, by one worker and in parts."""
        for name in self.component.reads:
            self._settle(name, old[name], new[name])
        found = self._run(self._alone.maintain(self._tables, ViewWork()))
        alone = {view: (_rows(came), _rows(went)) for view, (came, went) in found.items()}
        parts = self._changed_in_parts(old, new)
        for view, (came, went) in alone.items():
            self._settle(view, old[view], (old[view] - went) | came)
        for table in self._tables.values():
            table.accept()
        return alone, parts

    def _changed_in_parts(self, old: State, new: State) -> Delta:
        changed = {name for name in self.component.reads if old[name] != new[name]}
        reached = [clause for clause in self.component.clauses if changed & read_by(clause)]
        over = self._run(self._exchange.gone(self._derived(reached, old), self._tables))
        rest = {**new, **{view: old[view] - _rows(over[view]) for view in self.component.views}}
        # All that follows in one step of what remains: among it, what rules driven by the change derive.
        seeds = self._derived(self.component.clauses, rest)
        found = self._run(self._exchange.come(seeds, over, self._tables))
        return {view: (_rows(found[view]) - _rows(over[view]), _rows(over[view]) - _rows(found[view])) for view in over}

    def _derived(self, clauses: Iterable[Any], state: Mapping[str, set[Row]]) -> Any:
        found: dict[str, list[set[Row]]] = {}
        for clause in clauses:
            found.setdefault(clause.head.relation, []).append(plain(derive(clause, state)))
        return found

    def _settle(self, name: str, old: set[Row], new: set[Row]) -> None:
        table = self._tables[name]
        came, went = (LocalPiece(rows_for_spark(rows, table.types), table.types) for rows in (new - old, old - new))
        before = table.committed if old else Contents.of(nothing(table.types))
        table.settle(before.changed(went, came), came, went)

    def _run(self, steps: Steps[Any]) -> Any:
        """What the steps come to; in between, workers may be others."""
        answers: list[Piece] | None = None
        while True:
            if self.rng.random() < 0.5:
                shard._KEPT.clear()
            try:
                asks = next(steps) if answers is None else steps.send(answers)
            except StopIteration as done:
                return done.value
            answers = [LocalPiece.of(cast("Any", ask.frame).listed, LISTED) for ask in asks]


def _rows(piece: Piece) -> set[Row]:
    assert isinstance(piece, LocalPiece)
    rows = rows_from_spark(piece.table, piece.types)
    assert len(plain(rows)) == len(rows), "a row is there twice"
    return plain(rows)
