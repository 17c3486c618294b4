"""Tables that keep the best row of each group: a head is inserted if no row of its group is as good."""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.memory import finish, load1, load4, load8, mix, store1, store8
from upshot.engine.local.kernel.sets import add_row, append

_ROW = (1 << 32) - 1


def best_of_group(table: int, index: int, key: int) -> int:
    """The row of the new state that agrees with the row at `key` on the columns of the index, or -1."""
    slots, count, columns = load8(index, L.X_SLOTS), load8(index, L.X_NSLOTS), load8(index, L.X_NCOLS)
    width, rows = load8(table, L.T_ARITY), load8(table, L.T_ROWS)
    state = 0
    for i in range(columns):
        state = mix(state, load8(key, load8(index, L.X_COLS + i)))
    tag = finish(state)
    at = (tag * count) >> 31
    entry = load8(slots, at)
    while entry != 0:
        if (entry >> 32) == tag:
            row = (entry & _ROW) - 1
            same = 1
            for i in range(columns):
                column = load8(index, L.X_COLS + i)
                if load8(rows, row * width + column) != load8(key, column):
                    same = 0
            if same == 1:
                flags, following = load8(table, L.T_FLAGS), load8(index, L.X_NEXT)
                while row >= 0 and not (load1(flags, row) & L.NEW):
                    row = load4(following, row)
                return row
        at += 1
        if at == count:
            at = 0
        entry = load8(slots, at)
    return -1


def is_better(table: int, one: int, other: int) -> int:
    """1 if the first value is better than the second in the table's order, 0 if not, -1 if one of them has no rank
    yet."""
    order = load8(table, L.T_ORDER)
    if order != 0:
        ranks, count = load8(order, 0), load8(order, 1)
        if one >= count or other >= count:
            return -1
        one, other = load8(ranks, one), load8(ranks, other)
        if one == 0 or other == 0:
            return -1
    if load8(table, L.T_BEST) == L.LEAST:
        return 1 if one < other else 0
    return 1 if one > other else 0


def improve(table: int, indexes: int, key: int, tag: int, row: int) -> int:
    """`apply_insert` for a row that replaces the row of its group. A replaced row of the old state is listed as
    deleted; one inserted in the same transaction stays, in no state, until `finalize`."""
    if load8(table, L.T_ROOM) <= 0:
        return -1
    width, flags = load8(table, L.T_ARITY), load8(table, L.T_FLAGS)
    current = best_of_group(table, indexes + 8 * L.INDEX_WORDS * load8(table, L.T_GROUP), key)
    if current >= 0:
        column = load8(table, L.T_VALUE)
        one, other = load8(key, column), load8(load8(table, L.T_ROWS), current * width + column)
        if one == other:
            return 0
        better = is_better(table, one, other)
        if better <= 0:
            return better
        bits = load1(flags, current)
        if (bits & L.OLD) and not (bits & L.DEL):
            if load8(table, L.T_NDEL) >= load8(table, L.T_CAPDEL):
                return -1
            append(table, L.T_DEL, current)
        store1(flags, current, (L.OLD | L.DEL) if bits & L.OLD else L.TOUCHED)
    if row >= 0:
        store1(flags, row, load1(flags, row) | L.NEW)
    else:
        row = add_row(table, indexes, key, tag, -1 - row, L.NEW)
    append(table, L.T_INS, row)
    store8(table, L.T_ROOM, load8(table, L.T_ROOM) - 1)
    return 1
