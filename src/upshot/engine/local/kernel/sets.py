"""The kernel's sets: rows, the slots that find them, the indexes that chain them.

A set is a table of rows and open-addressing slots with entries `tag << 32 | row + 1`, linearly probed from `tag * slots
>> 31`. Home positions have the order of tags, so a table is rehashed by one sequential pass without reading rows, and a
deletion shifts later entries back without reading rows either. An index has the same slots, each with the first row of
a chain.
"""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.cells import add_cell, find_cell, remove_cell
from upshot.engine.local.kernel.memory import compare_swap, finish, load4, load8, mix, store1, store4, store8

_ROW = (1 << 32) - 1


# ---- slots ---------------------------------------------------------------------------------------------------


def tag_of(key: int, width: int) -> int:
    """The tag of the `width` words at `key`."""
    state = 0
    for i in range(width):
        state = mix(state, load8(key, i))
    return finish(state)


def equal_words(a: int, b: int, width: int) -> int:
    for i in range(width):
        if load8(a, i) != load8(b, i):
            return 0
    return 1


def find(table: int, key: int) -> int:
    """The row equal to the words at `key`, or `-1 - slot` with the slot (dense: the cell) for a new row."""
    if load8(table, L.T_DENSE) != 0:
        return find_cell(table, key)
    return find_tagged(table, key, tag_of(key, load8(table, L.T_ARITY)))


def find_tagged(table: int, key: int, tag: int) -> int:
    if load8(table, L.T_DENSE) != 0:
        return find_cell(table, key)
    width = load8(table, L.T_ARITY)
    slots, count, rows = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS), load8(table, L.T_ROWS)
    at = (tag * count) >> 31
    entry = load8(slots, at)
    while entry != 0:
        if (entry >> 32) == tag:
            row = (entry & _ROW) - 1
            if equal_words(rows + 8 * row * width, key, width) == 1:
                return row
        at += 1
        if at == count:
            at = 0
        entry = load8(slots, at)
    return -1 - at


def close_gap(slots: int, count: int, hole: int) -> None:
    """Shift later entries of the run back, so that no probe stops at the hole."""
    at = hole + 1
    if at == count:
        at = 0
    entry = load8(slots, at)
    while entry != 0:
        home = ((entry >> 32) * count) >> 31
        distance_home = at - home
        if distance_home < 0:
            distance_home += count
        distance_hole = at - hole
        if distance_hole < 0:
            distance_hole += count
        if distance_home >= distance_hole:
            store8(slots, hole, entry)
            hole = at
        at += 1
        if at == count:
            at = 0
        entry = load8(slots, at)
    store8(slots, hole, 0)


def rehash(old: int, first: int, end: int, new: int, new_count: int) -> None:
    """Move the entries of a range of the old slots to the new ones; other ranges may be moved in parallel."""
    for i in range(first, end):
        entry = load8(old, i)
        if entry != 0:
            at = ((entry >> 32) * new_count) >> 31
            while load8(new, at) != 0 or compare_swap(new, at, 0, entry) != 0:
                at += 1
                if at == new_count:
                    at = 0


# ---- indexes -------------------------------------------------------------------------------------------------


def row_key_tag(table: int, index: int, row: int) -> int:
    base = load8(table, L.T_ROWS) + 8 * row * load8(table, L.T_ARITY)
    state = 0
    for i in range(load8(index, L.X_NCOLS)):
        state = mix(state, load8(base, load8(index, L.X_COLS + i)))
    return finish(state)


def same_key(table: int, index: int, row: int, other: int) -> int:
    width = load8(table, L.T_ARITY)
    rows = load8(table, L.T_ROWS)
    for i in range(load8(index, L.X_NCOLS)):
        column = load8(index, L.X_COLS + i)
        if load8(rows, row * width + column) != load8(rows, other * width + column):
            return 0
    return 1


def slot_of_row(table: int, index: int, row: int) -> int:
    """The slot of the chain with this row's key, or `-1 - slot` for a new chain."""
    slots, count = load8(index, L.X_SLOTS), load8(index, L.X_NSLOTS)
    tag = row_key_tag(table, index, row)
    at = (tag * count) >> 31
    entry = load8(slots, at)
    while entry != 0:
        if (entry >> 32) == tag and same_key(table, index, row, (entry & _ROW) - 1) == 1:
            return at
        at += 1
        if at == count:
            at = 0
        entry = load8(slots, at)
    return -1 - at


def chain_start(table: int, index: int, key: int) -> int:
    """The first row whose indexed columns equal the words at `key`, or -1."""
    slots, count = load8(index, L.X_SLOTS), load8(index, L.X_NSLOTS)
    columns = load8(index, L.X_NCOLS)
    width, rows = load8(table, L.T_ARITY), load8(table, L.T_ROWS)
    tag = tag_of(key, columns)
    at = (tag * count) >> 31
    entry = load8(slots, at)
    while entry != 0:
        if (entry >> 32) == tag:
            row = (entry & _ROW) - 1
            same = 1
            for i in range(columns):
                if load8(rows, row * width + load8(index, L.X_COLS + i)) != load8(key, i):
                    same = 0
            if same == 1:
                return row
        at += 1
        if at == count:
            at = 0
        entry = load8(slots, at)
    return -1


def link(table: int, index: int, row: int) -> None:
    """Insert the row at the head of its chain."""
    slots = load8(index, L.X_SLOTS)
    following, previous = load8(index, L.X_NEXT), load8(index, L.X_PREV)
    slot = slot_of_row(table, index, row)
    head = -1
    if slot < 0:
        slot = -1 - slot
        tag = row_key_tag(table, index, row)
        store8(index, L.X_NKEYS, load8(index, L.X_NKEYS) + 1)
    else:
        entry = load8(slots, slot)
        tag = entry >> 32
        head = (entry & _ROW) - 1
        store4(previous, head, row)
    store4(following, row, head)
    store4(previous, row, -1)
    store8(slots, slot, (tag << 32) | (row + 1))


def unlink(table: int, index: int, row: int) -> None:
    following, previous = load8(index, L.X_NEXT), load8(index, L.X_PREV)
    after, before = load4(following, row), load4(previous, row)
    if after >= 0:
        store4(previous, after, before)
    if before >= 0:
        store4(following, before, after)
        return
    slots = load8(index, L.X_SLOTS)
    slot = slot_of_row(table, index, row)
    if after >= 0:
        store8(slots, slot, ((load8(slots, slot) >> 32) << 32) | (after + 1))
    else:
        close_gap(slots, load8(index, L.X_NSLOTS), slot)
        store8(index, L.X_NKEYS, load8(index, L.X_NKEYS) - 1)


# ---- rows ----------------------------------------------------------------------------------------------------


def append(table: int, field: int, row: int) -> None:
    """Append a row to the list whose address, length and capacity are the words from `field` on; it has room."""
    length = load8(table, field + 1)
    store4(load8(table, field), length, row)
    store8(table, field + 1, length + 1)


def listed(table: int, field: int, i: int) -> int:
    """The i-th row of a list."""
    rows = load8(table, field)
    return i if rows == 0 else load4(rows, i)


def list_end(table: int, field: int) -> int:
    """The end of the positions in a list. The list of all row numbers of a dense table covers every cell."""
    length = load8(table, field + 1)
    if length != 0 and load8(table, field) == 0 and load8(table, L.T_DENSE) != 0:
        return load8(table, L.T_USED)
    return length


def add_row(table: int, indexes: int, key: int, tag: int, slot: int, bits: int) -> int:
    """Add a row to slots, storage and every index of a table with room; return its number. -1 if a dense table has no
    free number for one of its codes."""
    if load8(table, L.T_DENSE) != 0:
        return add_cell(table, key, slot, bits)
    width = load8(table, L.T_ARITY)
    free = load8(table, L.T_NFREE)
    if free > 0:
        row = load4(load8(table, L.T_FREE), free - 1)
        store8(table, L.T_NFREE, free - 1)
    else:
        row = load8(table, L.T_USED)
        store8(table, L.T_USED, row + 1)
    rows = load8(table, L.T_ROWS)
    for i in range(width):
        store8(rows, row * width + i, load8(key, i))
    store1(load8(table, L.T_FLAGS), row, bits)
    store8(load8(table, L.T_SLOTS), slot, (tag << 32) | (row + 1))
    store8(table, L.T_LIVE, load8(table, L.T_LIVE) + 1)
    index = load8(table, L.T_INDEX)
    while index >= 0:
        described = indexes + 8 * L.INDEX_WORDS * index
        link(table, described, row)
        index = load8(described, L.X_MORE)
    return row


def remove_row(table: int, indexes: int, row: int) -> None:
    """Remove the row from slots and indexes and free its number; the free list has room for every row."""
    if load8(table, L.T_DENSE) != 0:
        remove_cell(table, row)
        return
    width = load8(table, L.T_ARITY)
    slots, count = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS)
    index = load8(table, L.T_INDEX)
    while index >= 0:
        described = indexes + 8 * L.INDEX_WORDS * index
        unlink(table, described, row)
        index = load8(described, L.X_MORE)
    at = (tag_of(load8(table, L.T_ROWS) + 8 * row * width, width) * count) >> 31
    while (load8(slots, at) & _ROW) != row + 1:
        at += 1
        if at == count:
            at = 0
    close_gap(slots, count, at)
    store1(load8(table, L.T_FLAGS), row, 0)
    free = load8(table, L.T_NFREE)
    store4(load8(table, L.T_FREE), free, row)
    store8(table, L.T_NFREE, free + 1)
    store8(table, L.T_LIVE, load8(table, L.T_LIVE) - 1)


ENTRIES = (rehash,)
