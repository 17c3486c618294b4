"""The kernel's sets and indexes: find, add and remove rows; stage, settle, accept and undo changes."""

from __future__ import annotations

from upshot.engine.local.layout import (
    DEL,
    INDEX_WORDS,
    NEW,
    OLD,
    T_ARITY,
    T_CAPRED,
    T_COUNT,
    T_DEL,
    T_FLAGS,
    T_FREE,
    T_GAIN,
    T_HI,
    T_INDEX,
    T_INS,
    T_LIVE,
    T_LO,
    T_NDEL,
    T_NFREE,
    T_NINS,
    T_NRED,
    T_NSLOTS,
    T_RED,
    T_ROOM,
    T_ROWS,
    T_SLOTS,
    T_USED,
    TABLE_WORDS,
    TOUCHED,
    X_COLS,
    X_MORE,
    X_NCOLS,
    X_NEXT,
    X_NKEYS,
    X_NSLOTS,
    X_PREV,
    X_SLOTS,
)  # fmt: skip
from upshot.engine.local.memory import finish, load1, load4, load8, mix, store1, store4, store8

_ROW = (1 << 32) - 1


# ---- slots -------------------------------------------------------------------------------------------------


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
    """The row equal to the words at `key`, or `-1 - slot` with the slot where it would go."""
    return find_tagged(table, key, tag_of(key, load8(table, T_ARITY)))


def find_tagged(table: int, key: int, tag: int) -> int:
    width = load8(table, T_ARITY)
    slots, count, rows = load8(table, T_SLOTS), load8(table, T_NSLOTS), load8(table, T_ROWS)
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
    """Shift later entries of the run back so that no probe stops early at the hole."""
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
    """The entries of a range of the old slots, in the new ones."""
    for i in range(first, end):
        entry = load8(old, i)
        if entry != 0:
            at = ((entry >> 32) * new_count) >> 31
            while load8(new, at) != 0:
                at += 1
                if at == new_count:
                    at = 0
            store8(new, at, entry)


# ---- indexes -----------------------------------------------------------------------------------------------


def row_key_tag(table: int, index: int, row: int) -> int:
    base = load8(table, T_ROWS) + 8 * row * load8(table, T_ARITY)
    state = 0
    for i in range(load8(index, X_NCOLS)):
        state = mix(state, load8(base, load8(index, X_COLS + i)))
    return finish(state)


def same_key(table: int, index: int, row: int, other: int) -> int:
    width = load8(table, T_ARITY)
    rows = load8(table, T_ROWS)
    for i in range(load8(index, X_NCOLS)):
        column = load8(index, X_COLS + i)
        if load8(rows, row * width + column) != load8(rows, other * width + column):
            return 0
    return 1


def slot_of_row(table: int, index: int, row: int) -> int:
    """The slot whose chain holds rows with this row's key, or `-1 - slot` for a new chain."""
    slots, count = load8(index, X_SLOTS), load8(index, X_NSLOTS)
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
    slots, count = load8(index, X_SLOTS), load8(index, X_NSLOTS)
    columns = load8(index, X_NCOLS)
    width, rows = load8(table, T_ARITY), load8(table, T_ROWS)
    tag = tag_of(key, columns)
    at = (tag * count) >> 31
    entry = load8(slots, at)
    while entry != 0:
        if (entry >> 32) == tag:
            row = (entry & _ROW) - 1
            same = 1
            for i in range(columns):
                if load8(rows, row * width + load8(index, X_COLS + i)) != load8(key, i):
                    same = 0
            if same == 1:
                return row
        at += 1
        if at == count:
            at = 0
        entry = load8(slots, at)
    return -1


def link(table: int, index: int, row: int) -> None:
    """Put the row at the head of its chain."""
    slots = load8(index, X_SLOTS)
    following, previous = load8(index, X_NEXT), load8(index, X_PREV)
    slot = slot_of_row(table, index, row)
    head = -1
    if slot < 0:
        slot = -1 - slot
        tag = row_key_tag(table, index, row)
        store8(index, X_NKEYS, load8(index, X_NKEYS) + 1)
    else:
        entry = load8(slots, slot)
        tag = entry >> 32
        head = (entry & _ROW) - 1
        store4(previous, head, row)
    store4(following, row, head)
    store4(previous, row, -1)
    store8(slots, slot, (tag << 32) | (row + 1))


def unlink(table: int, index: int, row: int) -> None:
    following, previous = load8(index, X_NEXT), load8(index, X_PREV)
    after, before = load4(following, row), load4(previous, row)
    if after >= 0:
        store4(previous, after, before)
    if before >= 0:
        store4(following, before, after)
        return
    slots = load8(index, X_SLOTS)
    slot = slot_of_row(table, index, row)
    if after >= 0:
        store8(slots, slot, ((load8(slots, slot) >> 32) << 32) | (after + 1))
    else:
        close_gap(slots, load8(index, X_NSLOTS), slot)
        store8(index, X_NKEYS, load8(index, X_NKEYS) - 1)


# ---- rows --------------------------------------------------------------------------------------------------


def append(table: int, field: int, row: int) -> None:
    """One more row in the list whose address, length and capacity stand from `field` on; there is room."""
    length = load8(table, field + 1)
    store4(load8(table, field), length, row)
    store8(table, field + 1, length + 1)


def add_row(table: int, indexes: int, key: int, tag: int, slot: int, bits: int) -> int:
    """A new row in slot, storage and every index; the table has room."""
    width = load8(table, T_ARITY)
    free = load8(table, T_NFREE)
    if free > 0:
        row = load4(load8(table, T_FREE), free - 1)
        store8(table, T_NFREE, free - 1)
    else:
        row = load8(table, T_USED)
        store8(table, T_USED, row + 1)
    rows = load8(table, T_ROWS)
    for i in range(width):
        store8(rows, row * width + i, load8(key, i))
    store1(load8(table, T_FLAGS), row, bits)
    store8(load8(table, T_SLOTS), slot, (tag << 32) | (row + 1))
    store8(table, T_LIVE, load8(table, T_LIVE) + 1)
    index = load8(table, T_INDEX)
    while index >= 0:
        described = indexes + 8 * INDEX_WORDS * index
        link(table, described, row)
        index = load8(described, X_MORE)
    return row


def remove_row(table: int, indexes: int, row: int) -> None:
    """Take the row out of slots and indexes and keep its place for another; the free list has room for every row."""
    width = load8(table, T_ARITY)
    slots, count = load8(table, T_SLOTS), load8(table, T_NSLOTS)
    index = load8(table, T_INDEX)
    while index >= 0:
        described = indexes + 8 * INDEX_WORDS * index
        unlink(table, described, row)
        index = load8(described, X_MORE)
    at = (tag_of(load8(table, T_ROWS) + 8 * row * width, width) * count) >> 31
    while (load8(slots, at) & _ROW) != row + 1:
        at += 1
        if at == count:
            at = 0
    close_gap(slots, count, at)
    store1(load8(table, T_FLAGS), row, 0)
    free = load8(table, T_NFREE)
    store4(load8(table, T_FREE), free, row)
    store8(table, T_NFREE, free + 1)
    store8(table, T_LIVE, load8(table, T_LIVE) - 1)


# ---- changes -----------------------------------------------------------------------------------------------


def stage(tables: int, indexes: int, number: int, keys: int, first: int, count: int, insert: int) -> int:
    """Insert or delete the rows at `keys` in the new state, from `first` on; the answer is how many are done (stops to grow)."""
    table = tables + 8 * TABLE_WORDS * number
    width = load8(table, T_ARITY)
    for i in range(first, count):
        if load8(table, T_ROOM) <= 0 or load8(table, T_NRED) >= load8(table, T_CAPRED):
            return i
        key = keys + 8 * i * width
        tag = tag_of(key, width)
        row = find_tagged(table, key, tag)
        flags = load8(table, T_FLAGS)
        if row < 0:
            if insert == 1:
                append(table, T_RED, add_row(table, indexes, key, tag, -1 - row, NEW | TOUCHED))
                store8(table, T_ROOM, load8(table, T_ROOM) - 1)
            continue
        bits = load1(flags, row)
        if (insert == 1) == ((bits & NEW) != 0):
            continue
        if not (bits & TOUCHED):
            append(table, T_RED, row)
        store1(flags, row, (bits ^ NEW) | TOUCHED)
    return count


def stage_upsert(
    tables: int, indexes: int, number: int, index: int, keys: int, scratch: int, first: int, count: int
) -> int:
    """For each row at `keys`: rows with the same key leave the new state, the row enters it; how many are done (stops to grow)."""
    table = tables + 8 * TABLE_WORDS * number
    described = indexes + 8 * INDEX_WORDS * index
    width = load8(table, T_ARITY)
    following = load8(described, X_NEXT)
    for i in range(first, count):
        key = keys + 8 * i * width
        for column in range(load8(described, X_NCOLS)):
            store8(scratch, column, load8(key, load8(described, X_COLS + column)))
        row = chain_start(table, described, scratch)
        while row >= 0:
            bits = load1(load8(table, T_FLAGS), row)
            if (bits & NEW) and equal_words(load8(table, T_ROWS) + 8 * row * width, key, width) == 0:
                if load8(table, T_NRED) >= load8(table, T_CAPRED):
                    return i
                if not (bits & TOUCHED):
                    append(table, T_RED, row)
                store1(load8(table, T_FLAGS), row, (bits | TOUCHED) & ~NEW)
            row = load4(following, row)
        if stage(tables, indexes, number, keys, i, i + 1, 1) == i:
            return i
    return count


def key_conflicts(tables: int, indexes: int, number: int, index: int, found: int, room: int) -> int:
    """Pairs of rows of the new state with equal indexed columns, the first of them inserted; how many were written."""
    table = tables + 8 * TABLE_WORDS * number
    described = indexes + 8 * INDEX_WORDS * index
    flags, following = load8(table, T_FLAGS), load8(described, X_NEXT)
    slots = load8(described, X_SLOTS)
    count = 0
    for i in range(load8(table, T_NINS)):
        row = load4(load8(table, T_INS), i)
        other = (load8(slots, slot_of_row(table, described, row)) & _ROW) - 1
        while other >= 0 and count < room:
            if other != row and (load1(flags, other) & NEW):
                store4(found, 2 * count, row)
                store4(found, 2 * count + 1, other)
                count += 1
                other = -1
            else:
                other = load4(following, other)
    return count


def settle(tables: int, indexes: int, number: int) -> int:
    """From the touched rows, the net lists: left the state, entered it, or never were in either (freed at once)."""
    table = tables + 8 * TABLE_WORDS * number
    flags = load8(table, T_FLAGS)
    counted = load8(table, T_COUNT)
    touched, length = load8(table, T_RED), load8(table, T_NRED)
    kept = 0
    for i in range(length):
        row = load4(touched, i)
        bits = load1(flags, row) & ~TOUCHED
        if counted != 0:
            total = load8(counted, row) + load8(load8(table, T_GAIN), row)
            bits = (bits | NEW) if total > 0 else (bits & ~NEW)
        if not (bits & OLD) and not (bits & NEW):
            if counted != 0:
                store8(load8(table, T_GAIN), row, 0)
            remove_row(table, indexes, row)
            continue
        store1(flags, row, bits)
        store4(touched, kept, row)
        kept += 1
        if (bits & OLD) and not (bits & NEW):
            append(table, T_DEL, row)
        elif not (bits & OLD):
            append(table, T_INS, row)
    store8(table, T_NRED, kept)
    return kept


def finalize(tables: int, number: int) -> None:
    """Narrow the lists of over-deleted and inserted rows to the net deletions and insertions."""
    table = tables + 8 * TABLE_WORDS * number
    flags = load8(table, T_FLAGS)
    listed, length, kept = load8(table, T_DEL), load8(table, T_NDEL), 0
    for i in range(length):
        row = load4(listed, i)
        bits = load1(flags, row) & ~DEL
        store1(flags, row, bits)
        if not (bits & NEW):
            store4(listed, kept, row)
            kept += 1
    store8(table, T_NDEL, kept)
    listed, length, kept = load8(table, T_INS), load8(table, T_NINS), 0
    for i in range(length):
        row = load4(listed, i)
        if not (load1(flags, row) & OLD):
            store4(listed, kept, row)
            kept += 1
    store8(table, T_NINS, kept)
    if load8(table, T_COUNT) == 0:
        store8(table, T_NRED, 0)


def clear_lists(table: int) -> None:
    store8(table, T_NDEL, 0)
    store8(table, T_NRED, 0)
    store8(table, T_NINS, 0)
    store8(table, T_LO, 0)
    store8(table, T_HI, 0)


def accept(tables: int, indexes: int, number: int) -> None:
    """The new state becomes the state."""
    table = tables + 8 * TABLE_WORDS * number
    flags = load8(table, T_FLAGS)
    counted = load8(table, T_COUNT)
    if counted != 0:
        gained = load8(table, T_GAIN)
        for i in range(load8(table, T_NRED)):
            row = load4(load8(table, T_RED), i)
            store8(counted, row, load8(counted, row) + load8(gained, row))
            store8(gained, row, 0)
    for i in range(load8(table, T_NINS)):
        store1(flags, load4(load8(table, T_INS), i), OLD | NEW)
    for i in range(load8(table, T_NDEL)):
        remove_row(table, indexes, load4(load8(table, T_DEL), i))
    clear_lists(table)


def restore(table: int, indexes: int, field: int) -> None:
    """Every row of the list as it was before the transaction."""
    flags = load8(table, T_FLAGS)
    for i in range(load8(table, field + 1)):
        row = load4(load8(table, field), i)
        bits = load1(flags, row)
        if load8(table, T_COUNT) != 0:
            store8(load8(table, T_GAIN), row, 0)
        if bits & OLD:
            store1(flags, row, OLD | NEW)
        elif bits != 0:
            remove_row(table, indexes, row)


def rollback(tables: int, indexes: int, number: int) -> None:
    """The state before the transaction, from whatever point its changes had reached."""
    table = tables + 8 * TABLE_WORDS * number
    restore(table, indexes, T_RED)
    restore(table, indexes, T_DEL)
    restore(table, indexes, T_INS)
    clear_lists(table)


def build_index(tables: int, indexes: int, number: int, index: int, first: int) -> int:
    """Link every row in use from `first` on; the answer is how far it came (stops to grow)."""
    table = tables + 8 * TABLE_WORDS * number
    described = indexes + 8 * INDEX_WORDS * index
    flags = load8(table, T_FLAGS)
    limit = load8(described, X_NSLOTS) * 2 // 3
    used = load8(table, T_USED)
    for row in range(first, used):
        if load8(described, X_NKEYS) >= limit:
            return row
        if load1(flags, row) != 0:
            link(table, described, row)
    return used


def retract(tables: int, number: int, field: int, bit: int) -> None:
    """Take every row out of the new state and list it, marked with the bit; the list has room for all of them."""
    table = tables + 8 * TABLE_WORDS * number
    flags = load8(table, T_FLAGS)
    for row in range(load8(table, T_USED)):
        bits = load1(flags, row)
        if bits & NEW:
            if not (bits & bit):
                append(table, field, row)
            store1(flags, row, (bits | bit) & ~NEW)


def matching(tables: int, indexes: int, number: int, index: int, key: int, mask: int, found: int, room: int) -> int:
    """Write the rows whose indexed columns equal the words at `key` and that are in the state; how many there are."""
    table = tables + 8 * TABLE_WORDS * number
    described = indexes + 8 * INDEX_WORDS * index
    flags, following = load8(table, T_FLAGS), load8(described, X_NEXT)
    row = chain_start(table, described, key)
    count = 0
    while row >= 0:
        if (load1(flags, row) & mask) == mask:
            if count < room:
                store4(found, count, row)
            count += 1
        row = load4(following, row)
    return count


def find_rows(tables: int, number: int, keys: int, count: int, found: int, mask: int) -> None:
    """For each row at `keys` the row number it has in the state, or -1."""
    table = tables + 8 * TABLE_WORDS * number
    width = load8(table, T_ARITY)
    flags = load8(table, T_FLAGS)
    for i in range(count):
        row = find(table, keys + 8 * i * width)
        if row >= 0 and (load1(flags, row) & mask) != mask:
            row = -1
        store4(found, i, row if row >= 0 else -1)


INNER = (
    tag_of, equal_words, find, find_tagged, close_gap, row_key_tag, same_key, slot_of_row, chain_start, link, unlink, append, add_row,
    remove_row, clear_lists, restore, stage,
)  # fmt: skip
ENTRIES = (
    rehash, stage, stage_upsert, key_conflicts, settle, finalize, accept, rollback, build_index, retract, matching, find_rows,
)  # fmt: skip
