"""The kernel's changes: rows staged in the new state, net lists, accept and rollback."""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.cells import accept_cells, matching_cells
from upshot.engine.local.kernel.memory import load1, load4, load8, store1, store4, store8
from upshot.engine.local.kernel.sets import (
    add_row,
    append,
    chain_start,
    equal_words,
    find,
    find_tagged,
    link,
    list_end,
    listed,
    remove_row,
    slot_of_row,
    tag_of,
)

_ROW = (1 << 32) - 1


def stage(tables: int, indexes: int, number: int, keys: int, first: int, count: int, insert: int) -> int:
    """Insert or delete the rows at `keys` in the new state, from `first` on; return how many are done (fewer than
    `count` if the table must grow)."""
    table = tables + 8 * L.TABLE_WORDS * number
    width = load8(table, L.T_ARITY)
    for i in range(first, count):
        if load8(table, L.T_ROOM) <= 0 or load8(table, L.T_NRED) >= load8(table, L.T_CAPRED):
            return i
        key = keys + 8 * i * width
        tag = tag_of(key, width)
        row = find_tagged(table, key, tag)
        flags = load8(table, L.T_FLAGS)
        if row < 0:
            if insert == 1:
                append(table, L.T_RED, add_row(table, indexes, key, tag, -1 - row, L.NEW | L.TOUCHED))
                store8(table, L.T_ROOM, load8(table, L.T_ROOM) - 1)
            continue
        bits = load1(flags, row)
        if (insert == 1) == ((bits & L.NEW) != 0):
            continue
        if not (bits & L.TOUCHED):
            append(table, L.T_RED, row)
        store1(flags, row, (bits ^ L.NEW) | L.TOUCHED)
    return count


def stage_upsert(
    tables: int, indexes: int, number: int, index: int, keys: int, scratch: int, first: int, count: int
) -> int:
    """For each row at `keys`, delete other rows with the same key from the new state and insert the row; return how
    many are done (fewer than `count` if the table must grow)."""
    table = tables + 8 * L.TABLE_WORDS * number
    described = indexes + 8 * L.INDEX_WORDS * index
    width = load8(table, L.T_ARITY)
    following = load8(described, L.X_NEXT)
    for i in range(first, count):
        key = keys + 8 * i * width
        for column in range(load8(described, L.X_NCOLS)):
            store8(scratch, column, load8(key, load8(described, L.X_COLS + column)))
        row = chain_start(table, described, scratch)
        while row >= 0:
            bits = load1(load8(table, L.T_FLAGS), row)
            if (bits & L.NEW) and equal_words(load8(table, L.T_ROWS) + 8 * row * width, key, width) == 0:
                if load8(table, L.T_NRED) >= load8(table, L.T_CAPRED):
                    return i
                if not (bits & L.TOUCHED):
                    append(table, L.T_RED, row)
                store1(load8(table, L.T_FLAGS), row, (bits | L.TOUCHED) & ~L.NEW)
            row = load4(following, row)
        if stage(tables, indexes, number, keys, i, i + 1, 1) == i:
            return i
    return count


def key_conflicts(tables: int, indexes: int, number: int, index: int, found: int, room: int) -> int:
    """Write pairs of rows of the new state with equal indexed columns, the first of them inserted; return their
    number."""
    table = tables + 8 * L.TABLE_WORDS * number
    described = indexes + 8 * L.INDEX_WORDS * index
    flags, following = load8(table, L.T_FLAGS), load8(described, L.X_NEXT)
    slots = load8(described, L.X_SLOTS)
    count = 0
    for i in range(load8(table, L.T_NINS)):
        row = listed(table, L.T_INS, i)
        other = (load8(slots, slot_of_row(table, described, row)) & _ROW) - 1
        while other >= 0 and count < room:
            if other != row and (load1(flags, other) & L.NEW):
                store4(found, 2 * count, row)
                store4(found, 2 * count + 1, other)
                count += 1
                other = -1
            else:
                other = load4(following, other)
    return count


def settle(tables: int, indexes: int, number: int) -> int:
    """Compute the net lists of deleted and inserted rows from the touched rows; rows in neither state are freed."""
    table = tables + 8 * L.TABLE_WORDS * number
    flags = load8(table, L.T_FLAGS)
    counted = load8(table, L.T_COUNT)
    touched, length = load8(table, L.T_RED), load8(table, L.T_NRED)
    kept = 0
    for i in range(length):
        row = load4(touched, i)
        bits = load1(flags, row) & ~L.TOUCHED
        if counted != 0:
            total = load8(counted, row) + load8(load8(table, L.T_GAIN), row)
            bits = (bits | L.NEW) if total > 0 else (bits & ~L.NEW)
        if not (bits & L.OLD) and not (bits & L.NEW):
            if counted != 0:
                store8(load8(table, L.T_GAIN), row, 0)
            remove_row(table, indexes, row)
            continue
        store1(flags, row, bits)
        store4(touched, kept, row)
        kept += 1
        if (bits & L.OLD) and not (bits & L.NEW):
            append(table, L.T_DEL, row)
        elif not (bits & L.OLD):
            append(table, L.T_INS, row)
    store8(table, L.T_NRED, kept)
    return kept


def finalize(tables: int, indexes: int, number: int) -> None:
    """Reduce the lists of over-deleted and inserted rows to the net deletions and insertions; new rows that a better
    one has replaced are freed."""
    table = tables + 8 * L.TABLE_WORDS * number
    flags = load8(table, L.T_FLAGS)
    rows, length, kept = load8(table, L.T_DEL), load8(table, L.T_NDEL), 0
    for i in range(length):
        row = load4(rows, i)
        bits = load1(flags, row) & ~L.DEL
        store1(flags, row, bits)
        if not (bits & L.NEW):
            store4(rows, kept, row)
            kept += 1
    store8(table, L.T_NDEL, kept)
    rows, length, kept = load8(table, L.T_INS), load8(table, L.T_NINS), 0
    if rows != 0:
        for i in range(length):
            row = load4(rows, i)
            bits = load1(flags, row)
            if bits & L.OLD:
                continue
            if bits & L.NEW:
                store4(rows, kept, row)
                kept += 1
            else:
                remove_row(table, indexes, row)
        store8(table, L.T_NINS, kept)
    if load8(table, L.T_COUNT) == 0:
        store8(table, L.T_NRED, 0)


def clear_lists(table: int) -> None:
    store8(table, L.T_NDEL, 0)
    store8(table, L.T_NRED, 0)
    store8(table, L.T_NINS, 0)
    store8(table, L.T_LO, 0)
    store8(table, L.T_HI, 0)


def accept(tables: int, indexes: int, number: int) -> None:
    """Make the new state the current one."""
    table = tables + 8 * L.TABLE_WORDS * number
    flags = load8(table, L.T_FLAGS)
    counted = load8(table, L.T_COUNT)
    if counted != 0:
        gained = load8(table, L.T_GAIN)
        for i in range(load8(table, L.T_NRED)):
            row = load4(load8(table, L.T_RED), i)
            store8(counted, row, load8(counted, row) + load8(gained, row))
            store8(gained, row, 0)
    if load8(table, L.T_DENSE) != 0 and load8(table, L.T_INS) == 0 and load8(table, L.T_NINS) != 0:
        accept_cells(table)
    else:
        for i in range(load8(table, L.T_NINS)):
            store1(flags, listed(table, L.T_INS, i), L.OLD | L.NEW)
    for i in range(load8(table, L.T_NDEL)):
        remove_row(table, indexes, listed(table, L.T_DEL, i))
    clear_lists(table)


def restore(table: int, indexes: int, field: int) -> None:
    """Restore every row of the list to the state before the transaction."""
    flags = load8(table, L.T_FLAGS)
    for i in range(list_end(table, field)):
        row = listed(table, field, i)
        bits = load1(flags, row)
        if load8(table, L.T_COUNT) != 0:
            store8(load8(table, L.T_GAIN), row, 0)
        if bits & L.OLD:
            store1(flags, row, L.OLD | L.NEW)
        elif bits != 0:
            remove_row(table, indexes, row)


def rollback(tables: int, indexes: int, number: int) -> None:
    """Restore the state before the transaction, at any point of its changes."""
    table = tables + 8 * L.TABLE_WORDS * number
    restore(table, indexes, L.T_RED)
    restore(table, indexes, L.T_DEL)
    restore(table, indexes, L.T_INS)
    clear_lists(table)


def drop_last_rows(tables: int, number: int) -> None:
    """Drop the free row numbers after the last row in use."""
    table = tables + 8 * L.TABLE_WORDS * number
    flags, used = load8(table, L.T_FLAGS), load8(table, L.T_USED)
    while used > 0 and load1(flags, used - 1) == 0:
        used -= 1
    free, kept = load8(table, L.T_FREE), 0
    for i in range(load8(table, L.T_NFREE)):
        row = load4(free, i)
        if row < used:
            store4(free, kept, row)
            kept += 1
    store8(table, L.T_USED, used)
    store8(table, L.T_NFREE, kept)


def build_index(tables: int, indexes: int, number: int, index: int, first: int) -> int:
    """Link every row in use from `first` on; return the next row (not the last one if the index must grow)."""
    table = tables + 8 * L.TABLE_WORDS * number
    described = indexes + 8 * L.INDEX_WORDS * index
    flags = load8(table, L.T_FLAGS)
    limit = load8(described, L.X_NSLOTS) * 2 // 3
    used = load8(table, L.T_USED)
    for row in range(first, used):
        if load8(described, L.X_NKEYS) >= limit:
            return row
        if load1(flags, row) != 0:
            link(table, described, row)
    return used


def retract(tables: int, number: int, field: int, bit: int) -> None:
    """Remove every row from the new state, mark it with the bit and list it; the list has room for all rows."""
    table = tables + 8 * L.TABLE_WORDS * number
    flags = load8(table, L.T_FLAGS)
    for row in range(load8(table, L.T_USED)):
        bits = load1(flags, row)
        if bits & L.NEW:
            if not (bits & bit):
                append(table, field, row)
            store1(flags, row, (bits | bit) & ~L.NEW)


def matching(tables: int, indexes: int, number: int, index: int, key: int, mask: int, found: int, room: int) -> int:
    """Write the rows of the state whose indexed columns equal the words at `key`; return their number."""
    table = tables + 8 * L.TABLE_WORDS * number
    described = indexes + 8 * L.INDEX_WORDS * index
    if load8(table, L.T_DENSE) != 0:
        return matching_cells(table, described, key, mask, found, room)
    flags, following = load8(table, L.T_FLAGS), load8(described, L.X_NEXT)
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
    """For each row at `keys`, write its number if it is in the state, else -1."""
    table = tables + 8 * L.TABLE_WORDS * number
    width = load8(table, L.T_ARITY)
    flags = load8(table, L.T_FLAGS)
    for i in range(count):
        row = find(table, keys + 8 * i * width)
        if row >= 0 and (load1(flags, row) & mask) != mask:
            row = -1
        store4(found, i, row if row >= 0 else -1)


ENTRIES = (
    stage, stage_upsert, key_conflicts, settle, finalize, accept, rollback, drop_last_rows, build_index, retract,
    matching, find_rows,
)  # fmt: skip
