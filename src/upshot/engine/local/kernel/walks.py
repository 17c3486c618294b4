"""Closures by walks: for each combination of values of the kept columns, the values that the moving column reaches.

A walk marks reached nodes in one byte each, so that known rows are recognized without reading the table, and writes its
rows in sequence. Rows of different walks differ in the kept columns: the slots of the table are filled at the end,
without comparing rows. Workers take the next walk from a shared counter.
"""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.memory import (
    compare_swap,
    fetch_add,
    load1,
    load4,
    load8,
    prefetch,
    store1,
    store4,
    store8,
)
from upshot.engine.local.kernel.sets import tag_of

_AHEAD = 24
"""Rows between the one whose slot is fetched and the one whose slot is filled."""

# Words shared by all workers.
(
    W_NEXT, W_WALKS, W_STARTS, W_SEEDS, W_KEPT, W_FIRST, W_TARGETS, W_CODES, W_MOST, W_ARITY, W_COLUMN, W_LOWS, W_HIGHS,
    W_CELLS, W_TAKEN, W_LINES, W_FULL,
) = range(17)  # fmt: skip
"""The next walk, and the number of walks; the start of the seeds of each walk; the seeds; the kept values, by walk; the
start of the edges of each node; their targets; the value of each node; the maximum number of nodes of a walk; the
number of columns of a row, and the moving column; for each walk the first node that it can reach, and the end. For a
dense table W_CELLS is the address of the cells, of which W_TAKEN are in use, and W_LINES has for each walk its first
cell and the node of that cell; if W_CELLS is 0 and W_LINES is not, rows are only counted. W_FULL is 1 if a walk has a
cell for each node that it can reach, 0 if only for the span of reached nodes."""
SHARED_WORDS = 17

# Words of each worker.
K_SEEN, K_QUEUE, K_ROWS, K_ROOM, K_BUDGET, K_WRITTEN, K_MATCHED, K_ROUNDS = range(8)
WORKER_WORDS = 8


def walk(shared: int, worker: int) -> int:
    """Run walks until none is left (1), or until the next one may not fit or the budget of steps is spent (0)."""
    rows, room, width = load8(worker, K_ROWS), load8(worker, K_ROOM), 8 * load8(shared, W_ARITY)
    most, budget = load8(shared, W_MOST), load8(worker, K_BUDGET)
    written, matched, rounds = 0, 0, load8(worker, K_ROUNDS)
    is_done = 0
    while is_done == 0 and room - written >= most and matched <= budget:
        number = fetch_add(shared, W_NEXT, 1)
        if number >= load8(shared, W_WALKS):
            is_done = 1
        else:
            length = begin_walk(shared, worker, number)
            at, end, levels = 0, length, 1
            first, targets = load8(shared, W_FIRST), load8(shared, W_TARGETS)
            seen, queue = load8(worker, K_SEEN), load8(worker, K_QUEUE)
            while at < length:
                if at == end:
                    end = length
                    levels += 1
                node = load4(queue, at)
                at += 1
                start, stop = load8(first, node), load8(first, node + 1)
                matched += stop - start
                for i in range(start, stop):
                    target = load4(targets, i)
                    if load1(seen, target) == 0:
                        store1(seen, target, L.NEW)
                        store4(queue, length, target)
                        length += 1
            if load8(shared, W_LINES) != 0:
                end_line(shared, seen, number)
            else:
                end_walk(shared, worker, number, rows + width * written, length)
            written += length
            if levels > rounds:
                rounds = levels
    store8(worker, K_WRITTEN, written)
    store8(worker, K_MATCHED, load8(worker, K_MATCHED) + matched)
    store8(worker, K_ROUNDS, rounds)
    return is_done


def begin_walk(shared: int, worker: int, number: int) -> int:
    """Mark and queue the nodes that the walk starts with; return their number."""
    seen, queue = load8(worker, K_SEEN), load8(worker, K_QUEUE)
    starts, seeds = load8(shared, W_STARTS), load8(shared, W_SEEDS)
    start, stop = load8(starts, number), load8(starts, number + 1)
    for i in range(start, stop):
        node = load4(seeds, i)
        store1(seen, node, L.NEW)
        store4(queue, i - start, node)
    return stop - start


def end_walk(shared: int, worker: int, number: int, rows: int, length: int) -> None:
    """Write a row for each node of the queue, and clear the marks."""
    seen, queue, codes = load8(worker, K_SEEN), load8(worker, K_QUEUE), load8(shared, W_CODES)
    column, width = load8(shared, W_COLUMN), load8(shared, W_ARITY)
    kept = load8(shared, W_KEPT) + 8 * number * (width - 1)
    for i in range(length):
        node = load4(queue, i)
        store1(seen, node, 0)
        for other in range(column):
            store8(rows, width * i + other, load8(kept, other))
        store8(rows, width * i + column, load8(codes, node))
        for other in range(column + 1, width):
            store8(rows, width * i + other, load8(kept, other - 1))


def end_line(shared: int, seen: int, number: int) -> None:
    """Copy the marks to newly taken cells and clear them, eight nodes at a time."""
    low, high = load8(load8(shared, W_LOWS), number) >> 3, (load8(load8(shared, W_HIGHS), number) + 7) >> 3
    if load8(shared, W_FULL) == 0:
        while load8(seen, low) == 0:
            low += 1
        while load8(seen, high - 1) == 0:
            high -= 1
    start = fetch_add(shared, W_TAKEN, 8 * (high - low))
    cells, line = load8(shared, W_CELLS), load8(shared, W_LINES) + 16 * number
    store8(line, 0, start)
    store8(line, 1, 8 * low)
    if cells != 0:
        for i in range(high - low):
            store8(cells + start, i, load8(seen, low + i))
    for i in range(low, high):
        store8(seen, i, 0)


def fill_slots(tables: int, number: int, first: int, end: int) -> None:
    """Enter distinct rows that are not in the table; other ranges may be entered in parallel."""
    table = tables + 8 * L.TABLE_WORDS * number
    width, rows = load8(table, L.T_ARITY), load8(table, L.T_ROWS)
    slots, count = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS)
    for row in range(first, end):
        if row + _AHEAD < end:
            prefetch(slots, (tag_of(rows + 8 * (row + _AHEAD) * width, width) * count) >> 31)
        tag = tag_of(rows + 8 * row * width, width)
        entry = (tag << 32) | (row + 1)
        at = (tag * count) >> 31
        while load8(slots, at) != 0 or compare_swap(slots, at, 0, entry) != 0:
            at += 1
            if at == count:
                at = 0


ENTRIES = (walk, fill_slots)
