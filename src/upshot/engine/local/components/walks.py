"""Load a closure by walks: the rows of the rules without recursion are grouped by their kept columns, and each group is
completed over the edges, on all processors, before rows are entered into the table."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upshot.engine.local.components.runner import Runner
from upshot.engine.local.kernel import walks as K
from upshot.engine.local.kernel.interrupts import uninterrupted
from upshot.engine.local.kernel.layout import NEW
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Buffer
from upshot.engine.local.kernel.threads import side_by_side
from upshot.engine.local.storage.cells import (
    Cells,
    DenseColumns,
    Numbered,
    is_scattered,
    loaded_places,
    ranges,
    size_of,
)
from upshot.engine.local.storage.storage import Table
from upshot.engine.time_limit import check_time
from upshot.engine.work import ViewWork
from upshot.plan.walks import Edges, Walk

Codes = NDArray[np.int64]
Numbers = NDArray[np.int64]

_SLICE = 1 << 26
"""Edges that a worker follows between two checks of the clock and of interrupts."""

_QUOTA = 1 << 20
"""The maximum number of rows that a worker writes between two checks."""

_UNLIMITED = 1 << 40

_SAMPLE = 64
"""The maximum number of walks in the sample that estimates the density."""

_FULL = 0.75
"""If the spans of reached nodes need more than this share of the cells for all nodes, lines get cells for all nodes:
then they have room for new rows."""

_WORTH_SHARING = 1 << 14
"""The minimum number of seeds for walks that workers share. With fewer, the rows have the same order in every run."""


def load_by_walks(walk: Walk, tables: Mapping[str, Table], runner: Runner, work: ViewWork) -> None:
    """Complete a table that has the rows of the rules without recursion, and no lists."""
    table = tables[walk.view]
    seeds = table.take_loaded()
    plan = _plan(walk, seeds, lambda name: seeds if name == walk.view else tables[name].in_state(NEW))
    _walks(plan, table, runner).run(work)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The numbers of lines, one per walk, and of places, the nodes; `arrays` are the inputs of all walks, by the word
    of the kernel."""

    walk: Walk
    shape: DenseColumns
    numbered: Numbered
    arrays: Mapping[int, NDArray[Any]]

    @property
    def walks(self) -> int:
        return len(self.numbered.lines)

    def longest(self) -> int:
        """The number of cells if each line has one for each node that its walk can reach."""
        numbered = self.numbered
        return int((numbered.highs - numbered.lows)[numbered.owners].sum())

    def part(self, chosen: Numbers) -> _Plan:
        """Some of the walks."""
        arrays, numbered = self.arrays, self.numbered
        starts, ends = arrays[K.W_STARTS][chosen], arrays[K.W_STARTS][chosen + 1]
        parts = {
            **arrays,
            K.W_STARTS: np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64),
            K.W_SEEDS: arrays[K.W_SEEDS][ranges(starts, ends - starts)],
            **{word: arrays[word][chosen] for word in (K.W_KEPT, K.W_LOWS, K.W_HIGHS)},
        }
        fewer = replace(numbered, lines=numbered.lines[chosen], owners=numbered.owners[chosen])
        return _Plan(self.walk, self.shape, fewer, parts)


def _plan(walk: Walk, seeds: Codes, rows_of: Callable[[str], Codes]) -> _Plan:
    """Group the seeds by the kept columns, in the order of blocks, and number the values that walks can reach."""
    shape = DenseColumns(seeds.shape[1], walk.moving, walk.carried)
    kept = [seeds[:, column] for column in (*shape.carried, *shape.pivots)]
    order, first_seeds = _groups(kept)
    lines = seeds[order[first_seeds]]
    is_first = _changes([lines[:, column] for column in shape.carried], len(lines))
    owners = np.cumsum(is_first) - 1
    blocks = lines[is_first][:, list(shape.carried)]
    of_seeds = np.repeat(owners, np.diff(np.append(first_seeds, len(seeds))))
    edges = [_edges_of(each, rows_of(each.relation), blocks) for each in walk.edges]
    sources, targets, of_edges = (np.concatenate(columns) for columns in zip(*edges, strict=True))
    nodes = _Nodes(len(blocks))
    targets, starts = nodes.number([targets, seeds[order, walk.moving]], [of_edges, of_seeds])
    numbered = loaded_places(blocks, lines[:, list(shape.pivots)], owners, nodes.codes, nodes.counts)
    places = ranges(numbered.lows, numbered.ends - numbered.lows)
    sources, is_reached = nodes.find(sources, of_edges)
    sources, targets = places[sources[is_reached]], places[targets[is_reached]]
    by_source = np.argsort(sources, kind="stable")
    found = np.cumsum(np.bincount(sources, minlength=len(numbered.places)))
    return _Plan(
        walk,
        shape,
        numbered,
        {
            K.W_STARTS: np.append(first_seeds, len(seeds)).astype(np.int64),
            K.W_SEEDS: places[starts].astype(np.int32),
            K.W_KEPT: np.ascontiguousarray(lines[:, list(walk.kept)]),
            K.W_FIRST: np.concatenate([[0], found]).astype(np.int64),
            K.W_TARGETS: targets[by_source].astype(np.int32),
            K.W_CODES: numbered.places,
            K.W_LOWS: numbered.lows[owners],
            K.W_HIGHS: numbered.highs[owners],
        },
    )


def _walks(plan: _Plan, table: Table, runner: Runner) -> _Walks:
    """The walks; they write into cells if a sample shows that rows need few cells each."""
    numbered = plan.numbered
    counts = (numbered.ends - numbered.lows)[: len(numbered.blocks)]
    cells, count = size_of(numbered.owners, numbered.highs - numbered.lows), min(_SAMPLE, plan.walks)
    if cells is not None and not is_scattered(counts):
        sample = plan.part(np.sort(np.random.default_rng(0).choice(plan.walks, count, replace=False)))
        rows, used = _DenseWalks(sample, table, runner).sample()
        if cells * count <= runner.most_cells * plan.walks * rows:
            return _DenseWalks(plan, table, runner, is_full=used > _FULL * sample.longest())
    return _Walks(plan, table, runner)


def _groups(columns: Sequence[Codes]) -> tuple[Numbers, Numbers]:
    """The order of rows by some columns, and the places in it where groups begin."""
    order = np.lexsort(columns[::-1])
    return order, np.flatnonzero(_changes([column[order] for column in columns], len(order)))


def _changes(columns: Sequence[Codes], count: int) -> NDArray[np.bool_]:
    """For sorted rows, whether each row differs from the one before; True for the first row."""
    found = np.zeros(count, np.bool_)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def _edges_of(edges: Edges, rows: Codes, blocks: Codes) -> tuple[Codes, Codes, Numbers]:
    """The sources, targets and blocks of the edges; edges without a block are left out."""
    of = np.zeros(len(rows), np.int64)
    if edges.carried:
        both = np.concatenate([blocks, rows[:, list(edges.carried)]])
        order, firsts = _groups([both[:, column] for column in range(both.shape[1])])
        group = np.empty(len(both), np.int64)
        group[order] = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(both))))
        block_of = np.full(len(firsts), -1)
        block_of[group[: len(blocks)]] = np.arange(len(blocks))
        of = block_of[group[len(blocks) :]]
        rows, of = rows[of >= 0], of[of >= 0]
    return rows[:, edges.source], rows[:, edges.target], of


class _Nodes:
    """The sorted values of each block: their codes, and their number per block."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks

    def number(self, columns: list[Codes], of: list[Numbers]) -> list[Numbers]:
        """Number the values of columns, given the block of each."""
        self._values, places = _numbered(columns)
        if self._blocks == 1:
            self.codes, self.counts = self._values, np.array([len(self._values)])
            return places
        self._pairs, found = _numbered([self._pair(*each) for each in zip(places, of, strict=True)])
        blocks, values = np.divmod(self._pairs, len(self._values))
        self.codes, self.counts = self._values[values], np.bincount(blocks, minlength=self._blocks)
        return found

    def find(self, column: Codes, of: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """The numbers of values, and a mask of the values that have one."""
        places, is_value = _places(self._values, column)
        if self._blocks == 1:
            return places, is_value
        found, is_pair = _places(self._pairs, self._pair(places, of))
        return found, is_value & is_pair

    def _pair(self, places: Numbers, of: Numbers) -> Numbers:
        return of * len(self._values) + places


def _numbered(columns: list[Codes]) -> tuple[Codes, list[NDArray[np.int64]]]:
    """The distinct values of columns, and the columns with the place of each value among them."""
    values = np.concatenate(columns)
    least, most = int(values.min()), int(values.max())
    if most - least < 8 * len(values):
        present = np.zeros(most - least + 1, np.int64)
        present[values - least] = 1
        nodes = np.flatnonzero(present) + least
        places = np.cumsum(present) - 1
        return nodes, [places[column - least] for column in columns]
    nodes, inverse = np.unique(values, return_inverse=True)
    ends = np.cumsum([len(column) for column in columns])
    return nodes, np.split(inverse, ends[:-1])


def _places(nodes: Codes, values: Codes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The place of each value among the sorted nodes, and a mask of the values that are among them."""
    places = np.minimum(np.searchsorted(nodes, values), len(nodes) - 1)
    return places, nodes[places] == values


class _Walks:
    """Workers that walk, each with its own marks, queue and part of the table's rows."""

    def __init__(self, plan: _Plan, table: Table, runner: Runner) -> None:
        self._plan, self._walk, self._table, self._runner = plan, plan.walk, table, runner
        numbered = plan.numbered
        self._width = 8 * plan.shape.arity
        self._most = int((numbered.ends - numbered.lows).max())
        self._shared = np.zeros(K.SHARED_WORDS, np.int64)
        for word, array in plan.arrays.items():
            self._shared[word] = array.ctypes.data
        self._shared[K.W_WALKS], self._shared[K.W_MOST] = plan.walks, self._most
        self._shared[K.W_ARITY], self._shared[K.W_COLUMN] = plan.shape.arity, plan.shape.moving
        is_shared = MACHINE.is_compiled and len(plan.arrays[K.W_SEEDS]) >= _WORTH_SHARING
        self._workers = np.zeros((runner.workers if is_shared else 1, K.WORKER_WORDS), np.int64)
        self._memory = [(Buffer(len(numbered.places) + 8), Buffer(4 * self._most + 8)) for _ in self._workers]
        for words, (seen, queue) in zip(self._workers, self._memory, strict=True):
            words[K.K_SEEN], words[K.K_QUEUE] = seen.address, queue.address

    def run(self, work: ViewWork) -> None:
        try:
            done = self._completed()
            self._table.fill(done)
        finally:
            self.release()
        self._count(work, done)

    def release(self) -> None:
        for buffer in (each for pair in self._memory for each in pair):
            buffer.release()

    def _completed(self) -> int:
        """Complete all walks; return the number of rows."""
        done, is_done = 0, False
        while not is_done:
            check_time(done)
            quota = self._quota(done)
            self._make_room(done + quota * len(self._workers))
            with uninterrupted():
                is_done = self._slice(done, quota)
                done = self._gathered(done)
            if self._runner.progress is not None:
                self._runner.progress(self._walk.view, done)
            self._runner.check_rounds(1 + int(self._workers[:, K.K_ROUNDS].max()), [(self._walk.view, self._table)])
        check_time(done)
        return done

    def _make_room(self, rows: int) -> None:
        self._table.reserve_plain(rows)

    def _quota(self, done: int) -> int:
        """The number of rows that each worker may write next: not many more than exist, so that a small closure needs
        little memory. A walk writes at most one row per node."""
        known = max(len(self._plan.arrays[K.W_SEEDS]), done)
        return max(min(known, _QUOTA), 2 * self._most)

    def _slice(self, done: int, quota: int) -> bool:
        """Run all workers until all walks are complete or their quotas are used up; return whether all are complete."""
        for number, words in enumerate(self._workers):
            words[K.K_ROWS] = self._table.rows_address + self._width * (done + number * quota)
            words[K.K_ROOM], words[K.K_BUDGET] = quota, _SLICE
        shared = self._shared.ctypes.data
        addresses = [words.ctypes.data for words in self._workers]
        return all(side_by_side(lambda address: MACHINE.walk(shared, address), addresses))

    def _gathered(self, done: int) -> int:
        """Close the gaps between the rows of the workers; return the number of rows."""
        rows = self._table.rows_address
        for number, words in enumerate(self._workers):
            written = int(words[K.K_WRITTEN])
            if number and written:
                ctypes.memmove(rows + self._width * done, int(words[K.K_ROWS]), self._width * written)
            done += written
        return done

    def _count(self, work: ViewWork, rows: int) -> None:
        seeds, matched = len(self._plan.arrays[K.W_SEEDS]), int(self._workers[:, K.K_MATCHED].sum())
        work.probed += rows
        work.matched += matched
        work.derived += matched
        work.filtered += matched - (rows - seeds)
        work.inserted += rows
        work.rounds += int(self._workers[:, K.K_ROUNDS].max()) - 1  # the first is that of the seeds
        work.decision = str(self._walk)


class _DenseWalks(_Walks):
    """Walks that copy their marks into cells: each has a line for the span of the nodes that it has reached, or for all
    that it can reach."""

    def __init__(self, plan: _Plan, table: Table, runner: Runner, *, is_full: bool = False) -> None:
        super().__init__(plan, table, runner)
        self._shared[K.W_FULL] = is_full

    def run(self, work: ViewWork) -> None:
        account, numbered = self._table.storage.account, self._plan.numbered
        memory = Buffer(self._plan.longest() + 16 * self._plan.walks, account)  # a span may be rounded at both ends
        try:
            lines, done = self._marked(memory.address)
            order = np.argsort(lines[:, 0])
            numbered = replace(numbered, lines=numbered.lines[order], owners=numbered.owners[order])
            starts = np.append(lines[order, 0], self._shared[K.W_TAKEN])
            cells = Cells(account, self._plan.shape, numbered, memory, starts, lines[order, 1])
        except BaseException:
            memory.release()
            raise
        try:
            with uninterrupted():
                self._table.take_cells(cells, done)
        except BaseException:
            if self._table.cells is not cells:
                cells.release()
            raise
        self._table.spread_if_sparse()
        self._count(work, done)

    def sample(self) -> tuple[int, int]:
        """The numbers of rows and of cells that they would need; nothing is stored."""
        return self._marked(0)[1], int(self._shared[K.W_TAKEN])

    def _marked(self, cells: int) -> tuple[Codes, int]:
        """Mark the rows in zeroed cells, if `cells` is not 0; return the first cell and node of each walk, and the
        number of rows."""
        lines = np.zeros((self._plan.walks, 2), np.int64)
        self._shared[K.W_CELLS], self._shared[K.W_LINES] = cells, lines.ctypes.data
        try:
            return lines, self._completed()
        finally:
            self.release()

    def _make_room(self, rows: int) -> None:
        """Nothing: the cells are reserved."""

    def _quota(self, done: int) -> int:
        return _UNLIMITED

    def _gathered(self, done: int) -> int:
        return done + int(self._workers[:, K.K_WRITTEN].sum())
