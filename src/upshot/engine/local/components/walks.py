"""Loads a closure by walks: the rows that rules without recursion give are grouped by the column that stays, and each
group is completed over the edges, on all processors, before any row is entered into the table."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
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
from upshot.engine.local.storage.cells import Cells, size_of
from upshot.engine.local.storage.storage import Table
from upshot.engine.time_limit import check_time
from upshot.engine.work import ViewWork
from upshot.plan.walks import Walk

Codes = NDArray[np.int64]

_SLICE = 1 << 26
"""Edges that a worker follows between two looks at the clock and at interrupts."""

_QUOTA = 1 << 20
"""The most rows that a worker writes between two."""

_UNLIMITED = 1 << 40

_SAMPLE = 64
_SAMPLED_CELLS = 1 << 26
"""The most walks, and the most cells for them, from which the density of all is estimated."""

_WORTH_SHARING = 1 << 14
"""The fewest edges for which walks are shared between workers. Below it the rows have the same order in every run."""


def load_by_walks(walk: Walk, tables: Mapping[str, Table], runner: Runner, work: ViewWork) -> None:
    """Complete a table that holds the rows of the rules without recursion, and lists nothing."""
    table = tables[walk.view]
    seeds = table.take_loaded()
    moving = 1 - walk.pivot
    edges = [
        (seeds if each.relation == walk.view else tables[each.relation].in_state(NEW))[:, [each.source, each.target]]
        for each in walk.edges
    ]
    sources, targets = np.concatenate(edges).T
    nodes, (targets, starts) = _numbered([targets, seeds[:, moving]])
    sources, is_reached = _places(nodes, sources)
    order = np.argsort(seeds[:, walk.pivot], kind="stable")
    pivots, first_seeds = np.unique(seeds[order, walk.pivot], return_index=True)
    sources, targets = sources[is_reached], targets[is_reached]
    by_source = np.argsort(sources, kind="stable")
    arrays: dict[int, NDArray[Any]] = {
        K.W_STARTS: np.append(first_seeds, len(seeds)).astype(np.int64),
        K.W_SEEDS: starts[order].astype(np.int32),
        K.W_PIVOTS: pivots,
        K.W_FIRST: np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=len(nodes)))]).astype(np.int64),
        K.W_TARGETS: targets[by_source].astype(np.int32),
        K.W_CODES: nodes,
    }
    walks = _DenseWalks if _is_dense(walk, table, runner, arrays) else _Walks
    walks(walk, table, runner, arrays).run(work)


def _is_dense(walk: Walk, table: Table, runner: Runner, arrays: Mapping[int, NDArray[Any]]) -> bool:
    """Test whether rows take few cells each, as some of the walks tell that are made for it."""
    pivots, nodes = len(arrays[K.W_PIVOTS]), len(arrays[K.W_CODES])
    cells = size_of(pivots, nodes)
    if cells is None:
        return False
    count = max(1, min(_SAMPLE, pivots, _SAMPLED_CELLS // nodes))
    sample = np.sort(np.random.default_rng(0).choice(pivots, count, replace=False))
    starts, ends = arrays[K.W_STARTS][sample], arrays[K.W_STARTS][sample + 1]
    parts = {
        **arrays,
        K.W_STARTS: np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64),
        K.W_SEEDS: np.concatenate([arrays[K.W_SEEDS][a:b] for a, b in zip(starts, ends, strict=True)]),
        K.W_PIVOTS: arrays[K.W_PIVOTS][sample],
    }
    return cells * count <= runner.most_cells * pivots * _DenseWalks(walk, table, runner, parts).sample()


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
    """The place of each value among the nodes, which are in order, and which values are among them."""
    places = np.minimum(np.searchsorted(nodes, values), len(nodes) - 1)
    return places, nodes[places] == values


class _Walks:
    """Workers that walk, each with marks, a queue and a part of the table's rows of its own."""

    def __init__(self, walk: Walk, table: Table, runner: Runner, arrays: Mapping[int, NDArray[Any]]) -> None:
        self._walk, self._table, self._runner, self._arrays = walk, table, runner, arrays
        self._nodes = len(arrays[K.W_CODES])
        self._shared = np.zeros(K.SHARED_WORDS, np.int64)
        for word, array in arrays.items():
            self._shared[word] = array.ctypes.data
        self._shared[K.W_WALKS], self._shared[K.W_NODES] = len(arrays[K.W_PIVOTS]), self._nodes
        self._shared[K.W_COLUMN] = walk.pivot
        is_shared = MACHINE.is_compiled and len(arrays[K.W_SEEDS]) >= _WORTH_SHARING
        self._workers = np.zeros((runner.workers if is_shared else 1, K.WORKER_WORDS), np.int64)
        marks = 0 if isinstance(self, _DenseWalks) else self._nodes + 8
        self._memory = [(Buffer(marks), Buffer(4 * self._nodes + 8)) for _ in self._workers]
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
        """Walk until there is nothing left; how many rows there are."""
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
        """Rows that each worker may write next: little more than there are, so that a small closure takes little room.
        A walk writes at most a row a node."""
        known = max(len(self._arrays[K.W_SEEDS]), done)
        return max(min(known, _QUOTA), 2 * self._nodes)

    def _slice(self, done: int, quota: int) -> bool:
        """Let all workers walk until there is nothing left, or the rows they may write are written."""
        for number, words in enumerate(self._workers):
            words[K.K_ROWS] = self._table.rows_address + 16 * (done + number * quota)
            words[K.K_ROOM], words[K.K_BUDGET] = quota, _SLICE
        shared = self._shared.ctypes.data
        addresses = [words.ctypes.data for words in self._workers]
        return all(side_by_side(lambda address: MACHINE.walk(shared, address), addresses))

    def _gathered(self, done: int) -> int:
        """Close the gaps between what the workers wrote; the number of rows there are."""
        rows = self._table.rows_address
        for number, words in enumerate(self._workers):
            written = int(words[K.K_WRITTEN])
            if number and written:
                ctypes.memmove(rows + 16 * done, int(words[K.K_ROWS]), 16 * written)
            done += written
        return done

    def _count(self, work: ViewWork, rows: int) -> None:
        seeds, matched = len(self._arrays[K.W_SEEDS]), int(self._workers[:, K.K_MATCHED].sum())
        work.probed += rows
        work.matched += matched
        work.derived += matched
        work.filtered += matched - (rows - seeds)
        work.inserted += rows
        work.rounds += int(self._workers[:, K.K_ROUNDS].max()) - 1  # the first is that of the seeds
        work.decision = str(self._walk)


class _DenseWalks(_Walks):
    """Walks whose marks are the rows: each walk has a line of cells."""

    def run(self, work: ViewWork) -> None:
        pivot, arrays = self._walk.pivot, self._arrays
        codes = (arrays[K.W_PIVOTS], arrays[K.W_CODES])
        cells = Cells(self._table.storage.account, pivot, codes if pivot == 0 else codes[::-1])
        try:
            done = self._marked(cells.address, cells.stride)
            with uninterrupted():
                self._table.take_cells(cells, done)
        except BaseException:
            if self._table.cells is not cells:
                cells.release()
            raise
        self._table.spread_if_sparse()
        self._count(work, done)

    def sample(self) -> int:
        """The number of rows, of which nothing is kept."""
        marks = Buffer(self._nodes * len(self._arrays[K.W_PIVOTS]) + 8)
        try:
            return self._marked(marks.address, self._nodes)
        finally:
            marks.release()

    def _marked(self, address: int, stride: int) -> int:
        """Mark the rows in zeroed cells; how many there are."""
        self._shared[K.W_CELLS], self._shared[K.W_STRIDE] = address, stride
        try:
            return self._completed()
        finally:
            self.release()

    def _make_room(self, rows: int) -> None:
        """Every row has its cell."""

    def _quota(self, done: int) -> int:
        return _UNLIMITED

    def _gathered(self, done: int) -> int:
        return done + int(self._workers[:, K.K_WRITTEN].sum())
