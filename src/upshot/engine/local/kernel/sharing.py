"""Parallel insertion into one table: a slot is claimed by one atomic step after its row has been written.

Only while a view is loaded into an empty table without indexes, so that only slots and rows are written. A worker takes
row numbers from its own chunks; at the end the remaining gaps are closed, so that the numbers have no holes.
"""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.memory import compare_swap, fetch_add, load1, load8, store1, store8
from upshot.engine.local.kernel.sets import equal_words, tag_of

_ROW = (1 << 32) - 1


def insert_shared(table: int, block: int, pending: int, state: int) -> int:
    """Insert the heads of the block; return the number inserted before the worker's quota of rows was used up."""
    width = load8(table, L.T_ARITY)
    done, changed = 0, 0
    while done < pending:
        answer = claim(table, block + 8 * (L.BLOCK + done * width), load8(block, done), width, state)
        if answer < 0:
            break
        changed += answer
        done += 1
    store8(state, L.S_CHANGED, load8(state, L.S_CHANGED) + changed)
    return done


def claim(table: int, key: int, tag: int, width: int, state: int) -> int:
    """1 if this worker inserted the row, 0 if it existed, -1 if the worker has no row number left."""
    slots, count, rows = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS), load8(table, L.T_ROWS)
    at = (tag * count) >> 31
    while True:
        entry = load8(slots, at)
        if entry == 0:
            row = next_row(table, state)
            if row < 0:
                return -1
            for i in range(width):
                store8(rows, row * width + i, load8(key, i))
            store1(load8(table, L.T_FLAGS), row, L.NEW)
            if compare_swap(slots, at, 0, (tag << 32) | (row + 1)) == 0:
                store8(state, L.S_NEXT, row + 1)
                return 1
        elif (entry >> 32) == tag and equal_words(rows + 8 * ((entry & _ROW) - 1) * width, key, width) == 1:
            return 0
        else:
            at += 1
            if at == count:
                at = 0


def next_row(table: int, state: int) -> int:
    """The worker's next row number, from a new chunk if necessary; -1 if its quota is used up."""
    row = load8(state, L.S_NEXT)
    if row < load8(state, L.S_LIMIT):
        return row
    quota = load8(state, L.S_QUOTA)
    if quota < L.CHUNK:
        return -1
    store8(state, L.S_QUOTA, quota - L.CHUNK)
    row = fetch_add(table, L.T_USED, L.CHUNK)
    store8(state, L.S_NEXT, row)
    store8(state, L.S_LIMIT, row + L.CHUNK)
    return row


def close_holes(tables: int, number: int, first: int, end: int) -> None:
    """Fill unused row numbers with the last rows; called with the highest hole first."""
    table = tables + 8 * L.TABLE_WORDS * number
    width, rows, flags = load8(table, L.T_ARITY), load8(table, L.T_ROWS), load8(table, L.T_FLAGS)
    slots, count = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS)
    used = load8(table, L.T_USED)
    for hole in range(first, end):
        store1(flags, hole, 0)
    hole = first
    while hole < end and hole < used:
        used -= 1
        if used < end:
            continue
        at = (tag_of(rows + 8 * used * width, width) * count) >> 31
        while (load8(slots, at) & _ROW) != used + 1:
            at += 1
            if at == count:
                at = 0
        store8(slots, at, ((load8(slots, at) >> 32) << 32) | (hole + 1))
        for i in range(width):
            store8(rows, hole * width + i, load8(rows, used * width + i))
        store1(flags, hole, load1(flags, used))
        store1(flags, used, 0)
        hole += 1
    store8(table, L.T_USED, used)


ENTRIES = (close_holes,)
