"""Decomposed components run part by part in this process, without Spark: what the workers do, on rows the oracle
gives."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.engine.driver import plain
from upshot.check.program import CheckedProgram
from upshot.engine.limits import Limits
from upshot.engine.naive import derive, evaluate
from upshot.engine.spark.recursion.shard import (
    HELD_BACK,
    PART,
    ROWS,
    ChangeTask,
    LoadTask,
    ShardPlan,
    SharedRows,
    given_slots,
    shard_plan,
)
from upshot.engine.spark.storage.requests import Slots
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


class PartsRun:
    """The parts of one component: `count` of them, by the hash of the pivot or at random."""

    def __init__(self, found: Decomposition, rng: random.Random, count: int = 3) -> None:
        self.found, self.rng, self.count = found, rng, count
        self.plan: ShardPlan = shard_plan(found, {}, Limits())

    def load(self, state: State) -> State:
        """The views, computed part by part; no row is in two of them."""
        task = LoadTask(self.plan, {name: self._shared(name, state) for name in self.plan.shared})
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
        task = ChangeTask(self.plan, shared, self._tables(came), self._tables(went), moved)
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
        """The sets that a part makes; what it counts is what it gives."""
        out = Slots(task.made)
        batches = list(task(iter(self._batches(given_slots(task), part))))
        *made, listed = [
            rows_from_spark(table, types)
            for table, types in zip(out.split(pa.Table.from_batches(batches)), task.made, strict=True)
        ]
        counters = dict(listed)
        assert counters[PART] == 1
        for number, rows in enumerate(made):
            assert len(plain(rows)) == len(rows) == counters.get(f"{ROWS}{number}", 0)
        if self.rng.random() < 0.2 and sum(map(len, made)) > 1:
            most = replace(task, most=sum(map(len, made)) - 1)
            last = list(most(iter(self._batches(given_slots(task), part))))[-1]
            assert (HELD_BACK, 1) in rows_from_spark(out.split(pa.Table.from_batches([last]))[-1], task.made[-1])
        return list(map(plain, made))

    def _batches(self, given: Slots, part: list[set[Row]]) -> list[pa.RecordBatch]:
        batches = [given.batch(len(part), [pa.array([True])], 1)]
        for member, (rows, types) in enumerate(zip(part, given.members, strict=False)):
            columns = [column.combine_chunks() for column in rows_for_spark(rows, types).columns]
            batches.append(given.batch(member, columns, len(rows)))
        return batches

    def _tables(self, rows: Mapping[str, set[Row]]) -> dict[str, pa.Table]:
        return {name: self._table(name, each) for name, each in rows.items() if each}

    def _table(self, name: str, rows: set[Row]) -> pa.Table:
        return rows_for_spark(rows, self.plan.types(name))

    def _shared(self, name: str, state: State) -> SharedRows:
        """The relation as rows that were there before, and what is different from them now."""
        rows = state[name]
        base = {row for row in rows if self.rng.random() < 0.8}
        return (
            (True, self._table(name, base)),
            (False, self._table(name, base - rows)),
            (True, self._table(name, rows - base)),
        )
