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
from upshot.engine.local.kernel.threads import pool
from upshot.engine.local.storage.storage import Table
from upshot.engine.time_limit import check_time
from upshot.engine.work import ViewWork
from upshot.plan.walks import Walk

Codes = NDArray[np.int64]

_SLICE = 1 << 26
"""Edges that a worker follows between two looks at the clock and at interrupts."""

_QUOTA = 1 << 20
"""The most rows that a worker writes between two."""

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
    nodes, (sources, targets, starts) = _numbered([sources, targets, seeds[:, moving]])
    order = np.argsort(seeds[:, walk.pivot], kind="stable")
    pivots, first_seeds = np.unique(seeds[order, walk.pivot], return_index=True)
    by_source = np.argsort(sources, kind="stable")
    arrays: dict[int, NDArray[Any]] = {
        K.W_STARTS: np.append(first_seeds, len(seeds)).astype(np.int64),
        K.W_SEEDS: starts[order].astype(np.int32),
        K.W_PIVOTS: pivots,
        K.W_FIRST: np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=len(nodes)))]).astype(np.int64),
        K.W_TARGETS: targets[by_source].astype(np.int32),
        K.W_CODES: nodes,
    }
    _Walks(walk, table, runner, arrays).run(work)


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
        self._memory = [(Buffer(self._nodes + 8), Buffer(4 * self._nodes + 8)) for _ in self._workers]
        for words, (seen, queue) in zip(self._workers, self._memory, strict=True):
            words[K.K_SEEN], words[K.K_QUEUE] = seen.address, queue.address

    def run(self, work: ViewWork) -> None:
        table = self._table
        done, is_done = 0, False
        try:
            while not is_done:
                check_time(done)
                quota = self._quota(done)
                table.reserve_plain(done + quota * len(self._workers))
                with uninterrupted():
                    is_done = self._slice(done, quota)
                    done = self._gathered(done, quota)
                if self._runner.progress is not None:
                    self._runner.progress(self._walk.view, done)
                self._runner.check_rounds(1 + int(self._workers[:, K.K_ROUNDS].max()), [(self._walk.view, table)])
            table.fill(done)
        finally:
            for buffer in (each for pair in self._memory for each in pair):
                buffer.release()
        self._count(work, done)

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
        others = [pool().submit(MACHINE.walk, shared, address) for address in addresses[1:]]
        results = [MACHINE.walk(shared, addresses[0]), *(other.result() for other in others)]
        return all(results)

    def _gathered(self, done: int, quota: int) -> int:
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
