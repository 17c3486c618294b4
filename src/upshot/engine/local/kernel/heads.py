"""Apply derived heads: they wait in a block while their memory is prefetched, then change the table."""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.best_rows import improve
from upshot.engine.local.kernel.memory import finish, load1, load8, mix, prefetch, store1, store8
from upshot.engine.local.kernel.sets import add_row, append, equal_words, find_tagged
from upshot.engine.local.kernel.sharing import insert_shared

_ROW = (1 << 32) - 1


def push(code: int, at: int, regs: int, block: int, place: int, width: int, slots: int, count: int) -> None:
    """Append the derived head to the block and prefetch its slot. Words: registers."""
    key = block + 8 * (L.BLOCK + place * width)
    state = 0
    for i in range(width):
        word = load8(regs, load8(code, at + i))
        store8(key, i, word)
        state = mix(state, word)
    tag = finish(state)
    store8(block, place, tag)
    prefetch(slots, (tag * count) >> 31)


def flush(tables: int, indexes: int, state: int) -> int:
    """Apply the plan's action to all heads in the block; L.DONE, or L.GROW if some are left."""
    number, kind = load8(state, L.S_HEAD), load8(state, L.S_EMIT)
    table = tables + 8 * L.TABLE_WORDS * number
    pending, block = load8(state, L.S_PENDING), load8(state, L.S_BLOCK)
    if kind >= L.RETURN:
        done = return_all(table, block, pending, L.NEW if kind == L.RETURN else L.PROVEN, state)
        return end_flush(table, block, pending, done, number, state)
    call_rows(table, block, pending)
    if load8(state, L.S_SHARED) == 1:
        done = insert_shared(table, block, pending, state)
    elif kind == L.INSERT and load8(table, L.T_PLAIN) == 1:
        done = insert_all(table, indexes, block, pending, state)
    else:
        done = apply_all(table, indexes, block, pending, kind, state)
    return end_flush(table, block, pending, done, number, state)


def end_flush(table: int, block: int, pending: int, done: int, number: int, state: int) -> int:
    """Move the remaining heads to the start of the block."""
    store8(state, L.S_DERIVED, load8(state, L.S_DERIVED) + done)
    if done < pending:
        width = load8(table, L.T_ARITY)
        for i in range(done, pending):
            store8(block, i - done, load8(block, i))
            for word in range(width):
                store8(block, L.BLOCK + (i - done) * width + word, load8(block, L.BLOCK + i * width + word))
    store8(state, L.S_PENDING, pending - done)
    store8(state, L.S_DETAIL, number)
    store8(state, L.S_STUCK, 0 if done == pending else 1)
    return L.DONE if done == pending else L.GROW


def return_all(table: int, block: int, pending: int, bit: int, state: int) -> int:
    """Set the bit of over-deleted rows, by number: they are rederived or proven."""
    changed, done = 0, 0
    while done < pending:
        applied = bring_back(table, load8(block, done), bit)
        if applied < 0:
            break
        changed += applied
        done += 1
    store8(state, L.S_CHANGED, load8(state, L.S_CHANGED) + changed)
    return done


def bring_back(table: int, row: int, bit: int) -> int:
    """Set the bit of an over-deleted row: 1 if it was not set, 0 if it was, -1 if the list must grow first."""
    flags = load8(table, L.T_FLAGS)
    bits = load1(flags, row)
    if not (bits & L.DEL) or (bits & bit):
        return 0
    if load8(table, L.T_NRED) >= load8(table, L.T_CAPRED):
        return -1
    store1(flags, row, bits | bit)
    append(table, L.T_RED, row)
    return 1


def apply_all(table: int, indexes: int, block: int, pending: int, kind: int, state: int) -> int:
    """Apply the heads of the block; return the number applied before the table had to grow."""
    width = load8(table, L.T_ARITY)
    changed, done = 0, 0
    while done < pending:
        applied = apply(table, indexes, block + 8 * (L.BLOCK + done * width), load8(block, done), kind)
        if applied < 0:
            break
        changed += applied
        done += 1
    store8(state, L.S_CHANGED, load8(state, L.S_CHANGED) + changed)
    return done


def insert_all(table: int, indexes: int, block: int, pending: int, state: int) -> int:
    """`apply_all` for insertions into a table with all rows in the new state: the bits of a row are not read."""
    width = load8(table, L.T_ARITY)
    slots, count, rows = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS), load8(table, L.T_ROWS)
    room, changed, done = load8(table, L.T_ROOM), 0, 0
    while done < pending:
        key, tag = block + 8 * (L.BLOCK + done * width), load8(block, done)
        at = (tag * count) >> 31
        entry = load8(slots, at)
        while entry != 0:
            if (entry >> 32) == tag and equal_words(rows + 8 * ((entry & _ROW) - 1) * width, key, width) == 1:
                break
            at += 1
            if at == count:
                at = 0
            entry = load8(slots, at)
        if entry == 0:
            if changed == room:
                break
            add_row(table, indexes, key, tag, at, L.NEW)
            changed += 1
        done += 1
    store8(table, L.T_ROOM, room - changed)
    store8(table, L.T_NINS, load8(table, L.T_NINS) + changed)
    store8(state, L.S_CHANGED, load8(state, L.S_CHANGED) + changed)
    return done


def call_rows(table: int, block: int, pending: int) -> None:
    """Prefetch the rows with which the block's heads will probably be compared."""
    slots, count = load8(table, L.T_SLOTS), load8(table, L.T_NSLOTS)
    rows, flags, width = load8(table, L.T_ROWS), load8(table, L.T_FLAGS), load8(table, L.T_ARITY)
    plain = load8(table, L.T_PLAIN)
    for i in range(pending):
        tag = load8(block, i)
        entry = load8(slots, (tag * count) >> 31)
        if (entry >> 32) == tag:
            row = (entry & _ROW) - 1
            prefetch(rows, row * width)
            if plain == 0:
                prefetch(flags, row >> 3)


def apply(table: int, indexes: int, key: int, tag: int, kind: int) -> int:
    """1 if the head changed the table, 0 if it was known, -1 if the table must grow first."""
    row = find_tagged(table, key, tag)
    if kind == L.INSERT and load8(table, L.T_BEST) != 0:
        return improve(table, indexes, key, tag, row)
    if kind == L.INSERT:
        return apply_insert(table, indexes, key, tag, row)
    if kind >= L.GAIN:
        return apply_count(table, indexes, key, tag, row, 1 if kind == L.GAIN else -1)
    if row < 0:
        return 0
    flags = load8(table, L.T_FLAGS)
    bits = load1(flags, row)
    if kind == L.DELETE:
        if not (bits & L.OLD) or (bits & L.DEL):
            return 0
        if load8(table, L.T_NDEL) >= load8(table, L.T_CAPDEL):
            return -1
        store1(flags, row, (bits | L.DEL) & ~L.NEW)
        append(table, L.T_DEL, row)
        return 1
    return bring_back(table, row, L.NEW if kind == L.REDERIVE else L.PROVEN)


def apply_insert(table: int, indexes: int, key: int, tag: int, row: int) -> int:
    """Insert the row into the new state."""
    flags = load8(table, L.T_FLAGS)
    if row >= 0 and (load1(flags, row) & L.NEW):
        return 0
    if load8(table, L.T_ROOM) <= 0:
        return -1
    if row >= 0:
        store1(flags, row, load1(flags, row) | L.NEW)
    else:
        row = add_row(table, indexes, key, tag, -1 - row, L.NEW)
        if row < 0:
            return -1
    append(table, L.T_INS, row)
    store8(table, L.T_ROOM, load8(table, L.T_ROOM) - 1)
    return 1


def apply_count(table: int, indexes: int, key: int, tag: int, row: int, sign: int) -> int:
    """Add or subtract one derivation of the row."""
    if load8(table, L.T_ROOM) <= 0 or load8(table, L.T_NRED) >= load8(table, L.T_CAPRED):
        return -1
    flags = load8(table, L.T_FLAGS)
    if row < 0:
        row = add_row(table, indexes, key, tag, -1 - row, L.TOUCHED)
        store8(table, L.T_ROOM, load8(table, L.T_ROOM) - 1)
        append(table, L.T_RED, row)
    elif not (load1(flags, row) & L.TOUCHED):
        store1(flags, row, load1(flags, row) | L.TOUCHED)
        append(table, L.T_RED, row)
    gain = load8(table, L.T_GAIN)
    store8(gain, row, load8(gain, row) + sign)
    return 1
