"""Decomposed components run part by part in this process, without Spark: what the workers do, on rows the oracle
gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from upshot.engine.spark.shard_files import LISTED, gathered
from upshot.engine.spark.shared_file import SharedRows, shared_table

from tests.engine.driver import plain
from upshot.check.program import CheckedProgram
from upshot.core.types import Type
from upshot.engine.limits import Limits
from upshot.engine.naive import derive, evaluate
from upshot.engine.spark import shared_file
from upshot.engine.spark.decomposed.shard import ChangeTask, LoadTask
from upshot.engine.spark.decomposed.shard_plan import ShardPlan, SharedRelation, shard_plan
from upshot.engine.spark.jobs.slots import Slots
from upshot.engine.spark.storage.pieces import LocalPiece
from upshot.plan import compile_program
from upshot.plan.pivot import Decomposition, decomposition
from upshot.spark.types import rows_for_spark, rows_from_spark

Row = tuple[Any, ...]
State = dict[str, set[Row]]
Delta = dict[str, tuple[set[Row], set[Row]]]


def decomposed(program: CheckedProgram) -> list[Decomposition]:
    """The recursive components that fall into parts."""
    plan = compile_program(program)
    found = [decomposition(component, plan.normal) for component in plan.components]
    return [each for each in found if each.program is not None]


def everything(program: CheckedProgram, base: Mapping[str, Iterable[Row]]) -> State:
    """All relations of the normal form."""
    normal = compile_program(program).normal
    given = {name: set(rows) for name, rows in base.items()}
    return {**given, **{view: set(rows) for view, rows in evaluate(normal, given).items()}}


class Partitions:
    """What there is of a frame without Spark: batches by partition, and what tasks list of them."""

    def __init__(self, batches: Iterable[list[pa.RecordBatch]]) -> None:
        self._batches = list(batches)
        self.listed: list[Row] = []

    def mapInArrow(self, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _: Any) -> Partitions:
        for batches in self._batches:
            for batch in run(iter(batches)):
                self.listed += rows_from_spark(pa.Table.from_batches([batch]), LISTED)
        return self

    @staticmethod
    def range(start: int, end: int, step: int, partitions: int) -> Partitions:
        assert partitions == end - start
        return Partitions([pa.RecordBatch.from_pydict({"id": [number]})] for number in range(start, end, step))


class PartsRun:
    """The parts of one component: `count` of them, by the hash of the pivot or at random."""

    def __init__(self, found: Decomposition, folder: Path, rng: random.Random, key: str, count: int = 3) -> None:
        self.found, self.folder, self.rng, self.count = found, folder, rng, count
        self.plan: ShardPlan = shard_plan(key, found, {}, Limits())
        self._base: dict[str, tuple[SharedRows, set[Row]]] = {}
        self._version = 0

    def load(self, state: State) -> State:
        """The views, computed part by part; no row is in two of them."""
        task = LoadTask(self.plan, {name: self._shared(name, state) for name in self.plan.shared}, ())
        sources = list(self._moving(state).values())
        made: State = {view: set() for view in self.found.views}
        for part in self._cut(self._keys(), sources):
            for view, rows in zip(self.found.views, self._run(task, part), strict=True):
                assert made[view].isdisjoint(rows)
                made[view] |= rows
        return made

    def change(self, old: State, new: State) -> Delta:
        """The exact changes of the views."""
        shared = {name: self._shared(name, old) for name in self.plan.shared}
        came = {name: new[name] - old[name] for name in self.plan.shared}
        went = {name: old[name] - new[name] for name in self.plan.shared}
        before, after = self._moving(old), self._moving(new)
        moved = tuple(name for name in before if before[name] != after[name] or self.rng.random() < 0.3)
        task = ChangeTask(self.plan, shared, (), self._tables(came), self._tables(went), moved)
        sources = [*(old[view] for view in self.found.views), *before.values(), *(after[name] for name in moved)]
        made: Delta = {view: (set(), set()) for view in self.found.views}
        keys = dict(zip(before, self._keys(), strict=True))
        columns = [*(self.found.pivots[view] for view in self.found.views), *keys.values(), *map(keys.get, moved)]
        for part in self._cut(columns, sources):
            rows = self._run(task, part)
            for number, view in enumerate(self.found.views):
                made[view][0].update(rows[number])
                made[view][1].update(rows[number + len(self.found.views)])
        return made

    def _moving(self, state: State) -> dict[str, set[Row]]:
        """Seeds and split relations."""
        seeds = {seed: self._seeds(view, state) for view, seed in self.plan.seeds.items()}
        return {**seeds, **{name: state[name] for name in self.plan.split}}

    def _keys(self) -> list[tuple[int, ...] | None]:
        views = [self.found.pivots.get(view) for view in self.found.views]
        return [*views, *(self.found.split[name] for name in self.plan.split)]

    def _seeds(self, view: str, state: State) -> set[Row]:
        rows = (row for c in self.found.exits if c.head.relation == view for row in derive(c, state))
        return set(plain(rows))

    def _cut(self, keys: list[Any], sources: list[set[Row]]) -> list[list[set[Row]]]:
        places: dict[Row, int] = {}
        parts: list[list[set[Row]]] = [[set() for _ in sources] for _ in range(self.count)]
        for number, (columns, rows) in enumerate(zip(keys, sources, strict=True)):
            for row in sorted(rows, key=repr):
                if columns is None:
                    part = self.rng.randrange(self.count)
                else:
                    pivot = tuple(repr(row[column]) for column in columns)
                    part = places.setdefault(pivot, self.rng.randrange(self.count))
                parts[part][number].add(row)
        return parts

    def _run(self, task: Any, part: list[set[Row]]) -> list[set[Row]]:
        task = replace(task, folders=tuple(self._new_folder() for _ in task.made))
        listed = Partitions([self._batches(task.given, part)]).mapInArrow(task, None).listed
        pieces = gathered(task.folders, task.made, listed, 1_000_000)
        assert pieces is not None
        assert not any(folder.exists() for folder in task.folders)
        made = [rows_from_spark(piece.table, piece.types) for piece in pieces if isinstance(piece, LocalPiece)]
        assert [len(plain(rows)) for rows in made] == [len(rows) for rows in made]
        return list(map(plain, made))

    def _batches(self, given: Slots, part: list[set[Row]]) -> list[pa.RecordBatch]:
        batches = []
        for member, (rows, types) in enumerate(zip(part, given.members, strict=True)):
            columns = [column.combine_chunks() for column in rows_for_spark(rows, types).columns]
            batches.append(given.batch(member, columns, len(rows)))
        return batches

    def _new_folder(self) -> Path:
        self._version += 1
        path = self.folder / f"{self.plan.key}-made-{self._version}"
        path.mkdir()
        return path

    def _tables(self, rows: Mapping[str, set[Row]]) -> dict[str, tuple[SharedRows, ...]]:
        return {name: (self._rows(name, each),) for name, each in rows.items() if each}

    def _rows(self, name: str, rows: set[Row]) -> SharedRows:
        self._version += 1
        table = rows_for_spark(rows, self._types(name))
        if self.rng.random() < 0.3:
            path = self.folder / f"{self.plan.key}-{name}-{self._version}"
            path.mkdir()
            names = tuple(f"n{i}" for i in range(table.num_columns))
            pq.write_table(table.rename_columns(names), path / "part.parquet")
            return SharedRows((path,), names)
        shared_file.IN_CLOSURE = self.rng.choice((0, 1 << 20))
        return SharedRows(table=shared_table(table, self.folder / f"{self.plan.key}-{name}-{self._version}.arrow"))

    def _types(self, name: str) -> tuple[Type, ...]:
        return self.plan.types(name)

    def _shared(self, name: str, state: State) -> SharedRelation:
        """The relation as the rows of the first time and what is different from them now."""
        if name not in self._base:
            rows = {row for row in state[name] if self.rng.random() < 0.8}
            self._base[name] = self._rows(name, rows), rows
        base, rows = self._base[name]
        overlay = [self._rows(name, each) for each in (state[name] - rows, rows - state[name])]
        self._version += 1
        return SharedRelation(name, str(self._version), ((True, base),), len(rows), *overlay)
