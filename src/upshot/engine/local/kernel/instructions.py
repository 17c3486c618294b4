"""The kernel's instructions, one function each; the result is the next place, negative if it is reached by going
back."""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.arithmetic import arithmetic, compare
from upshot.engine.local.kernel.cells import code_in, first_match, line_at, next_match, place_at, skip_empty
from upshot.engine.local.kernel.heads import flush, push
from upshot.engine.local.kernel.memory import load1, load4, load8, store8
from upshot.engine.local.kernel.sets import chain_start, find

KEY = 0
"""Word 0 of the scratch area: the candidate row for a lookup. The registers follow it."""


def go_back(code: int, pc: int) -> int:
    return -load8(code, pc + 1)


def list_address(table: int, source: int) -> int:
    """The address of the driving list; 0 if all row numbers drive."""
    if source == L.FROM_DEL:
        return load8(table, L.T_DEL)
    if source == L.FROM_RED:
        return load8(table, L.T_RED)
    return load8(table, L.T_INS) if source == L.FROM_INS else 0


def drive(code: int, pc: int, fresh: int, tables: int, regs: int, state: int) -> int:
    """Words: level, table, source, mask and value of the bits, number of loads and checks, (column, register) pairs."""
    position = load8(state, L.S_POSITION)
    end = load8(state, L.S_END)
    source = load8(code, pc + 5)
    if source == L.FROM_UNIT:
        store8(state, L.S_POSITION, 1)
        return load8(code, pc + 2) if position < end else 0
    table = tables + 8 * L.TABLE_WORDS * load8(code, pc + 4)
    flags, mask, value = load8(table, L.T_FLAGS), load8(code, pc + 6), load8(code, pc + 7)
    rows, dense = list_address(table, source), load8(table, L.T_DENSE)
    while position < end:
        row = position
        if rows != 0:
            row = load4(rows, position)
        elif dense != 0:
            row = position = skip_empty(flags, position, end)
            if row == end:
                break
        position += 1
        if source != L.FROM_BUFFER and (load1(flags, row) & mask) != value:
            continue
        if take_row(code, pc + 8, table, row, regs) == 1:
            store8(state, L.S_POSITION, position)
            store8(state, L.S_ROW, row)
            return load8(code, pc + 2)
    store8(state, L.S_POSITION, position)
    return 0


def take_row(code: int, at: int, table: int, row: int, regs: int) -> int:
    """Load the row's columns into registers, then compare columns with registers; 1 if all are equal."""
    if load8(table, L.T_DENSE) != 0:
        return take_cell(code, at, table, row, regs)
    return take_stored(code, at, table, row, regs)


def take_cell(code: int, at: int, table: int, row: int, regs: int) -> int:
    """`take_row` for a dense table."""
    dense = load8(table, L.T_DENSE)
    line = line_at(dense, row)
    place = place_at(dense, line, row)
    loads, checks = load8(code, at), load8(code, at + 1)
    at += 2
    for _ in range(loads):
        store8(regs, load8(code, at + 1), code_in(dense, line, place, load8(code, at)))
        at += 2
    for _ in range(checks):
        if code_in(dense, line, place, load8(code, at)) != load8(regs, load8(code, at + 1)):
            return 0
        at += 2
    return 1


def take_stored(code: int, at: int, table: int, row: int, regs: int) -> int:
    """`take_row` for a table with rows."""
    base = load8(table, L.T_ROWS) + 8 * row * load8(table, L.T_ARITY)
    loads, checks = load8(code, at), load8(code, at + 1)
    at += 2
    for _ in range(loads):
        store8(regs, load8(code, at + 1), load8(base, load8(code, at)))
        at += 2
    for _ in range(checks):
        if load8(base, load8(code, at)) != load8(regs, load8(code, at + 1)):
            return 0
        at += 2
    return 1


def gather_key(code: int, pc: int, regs: int) -> None:
    """Copy the key of a probe from registers."""
    for i in range(load8(code, pc + 7)):
        store8(regs, KEY + i, load8(regs, load8(code, pc + 9 + i)))


def start_probe(code: int, pc: int, table: int, index: int, regs: int, state: int) -> int:
    """The first row of the key's chain."""
    gather_key(code, pc, regs)
    store8(state, L.S_PROBED, load8(state, L.S_PROBED) + 1)
    return chain_start(table, index, regs)


def probe(code: int, pc: int, fresh: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """Words: level, table, index, mask, key length, place of loads; then the key's registers."""
    table = tables + 8 * L.TABLE_WORDS * load8(code, pc + 4)
    index = indexes + 8 * L.INDEX_WORDS * load8(code, pc + 5)
    if load8(table, L.T_DENSE) != 0:
        return probe_cells(code, pc, fresh, table, index, regs, cursors, state)
    mask = load8(code, pc + 6)
    flags, following = load8(table, L.T_FLAGS), load8(index, L.X_NEXT)
    level = load8(code, pc + 3)
    again = fresh == 0
    row = load4(following, load8(cursors, level)) if again else start_probe(code, pc, table, index, regs, state)
    loads = load8(code, pc + 8)
    while row >= 0:
        if (load1(flags, row) & mask) == mask and take_stored(code, loads, table, row, regs) == 1:
            store8(cursors, level, row)
            store8(state, L.S_MATCHED, load8(state, L.S_MATCHED) + 1)
            return load8(code, pc + 2)
        row = load4(following, row)
    return go_back(code, pc)


def probe_cells(code: int, pc: int, fresh: int, table: int, index: int, regs: int, cursors: int, state: int) -> int:
    """`probe` for a dense table: the cells of a line, or one cell of each line."""
    level, mask, loads = load8(code, pc + 3), load8(code, pc + 6), load8(code, pc + 8)
    gather_key(code, pc, regs)
    if fresh == 0:
        row = next_match(table, index, regs, load8(cursors, level), mask)
    else:
        store8(state, L.S_PROBED, load8(state, L.S_PROBED) + 1)
        row = first_match(table, index, regs, mask)
    while row >= 0:
        if take_cell(code, loads, table, row, regs) == 1:
            store8(cursors, level, row)
            store8(state, L.S_MATCHED, load8(state, L.S_MATCHED) + 1)
            return load8(code, pc + 2)
        row = next_match(table, index, regs, row, mask)
    return go_back(code, pc)


def scan(code: int, pc: int, fresh: int, tables: int, regs: int, cursors: int, state: int) -> int:
    """Every row in the state; words: level, table, mask, then loads and checks."""
    table = tables + 8 * L.TABLE_WORDS * load8(code, pc + 4)
    mask, level = load8(code, pc + 5), load8(code, pc + 3)
    flags, used, dense = load8(table, L.T_FLAGS), load8(table, L.T_USED), load8(table, L.T_DENSE)
    row = 0
    if fresh == 0:
        row = load8(cursors, level) + 1
    while row < used:
        if dense != 0:
            row = skip_empty(flags, row, used)
            if row == used:
                break
        if (load1(flags, row) & mask) == mask and take_row(code, pc + 6, table, row, regs) == 1:
            store8(cursors, level, row)
            store8(state, L.S_MATCHED, load8(state, L.S_MATCHED) + 1)
            return load8(code, pc + 2)
        row += 1
    return go_back(code, pc)


def gather(code: int, at: int, regs: int) -> None:
    """Copy the candidate row from registers. Words: count, registers."""
    for i in range(load8(code, at)):
        store8(regs, KEY + i, load8(regs, load8(code, at + 1 + i)))


def member(code: int, pc: int, wanted: int, tables: int, regs: int, state: int) -> int:
    """Test whether the row is in the state. Words: table, mask, count, registers."""
    table = tables + 8 * L.TABLE_WORDS * load8(code, pc + 3)
    mask = load8(code, pc + 4)
    gather(code, pc + 5, regs)
    store8(state, L.S_PROBED, load8(state, L.S_PROBED) + 1)
    row = find(table, regs)
    found = 0
    if row >= 0 and (load1(load8(table, L.T_FLAGS), row) & mask) == mask:
        found = 1
    return load8(code, pc + 2) if found == wanted else go_back(code, pc)


def emit(code: int, pc: int, tables: int, indexes: int, regs: int, state: int) -> int:
    """Words: count, registers."""
    if load8(state, L.S_PENDING) == L.BLOCK and flush(tables, indexes, state) != L.DONE:
        return suspend(state, L.GROW, load8(state, L.S_HEAD), pc)
    head = tables + 8 * L.TABLE_WORDS * load8(state, L.S_HEAD)
    pending = load8(state, L.S_PENDING)
    slots, count = load8(head, L.T_SLOTS), load8(head, L.T_NSLOTS)
    push(code, pc + 4, regs, load8(state, L.S_BLOCK), pending, load8(code, pc + 3), slots, count)
    store8(state, L.S_PENDING, pending + 1)
    return go_back(code, pc)


def emit_row(code: int, pc: int, tables: int, indexes: int, state: int) -> int:
    """The head is the driving row."""
    if load8(state, L.S_PENDING) == L.BLOCK and flush(tables, indexes, state) != L.DONE:
        return suspend(state, L.GROW, load8(state, L.S_HEAD), pc)
    pending = load8(state, L.S_PENDING)
    store8(load8(state, L.S_BLOCK), pending, load8(state, L.S_ROW))
    store8(state, L.S_PENDING, pending + 1)
    return go_back(code, pc)


def probe_emit(code: int, pc: int, fresh: int, tables: int, indexes: int, regs: int, cursors: int, state: int) -> int:
    """A probe that emits a head for each match, in one loop. Words: as for a probe, with the place of the emitted
    registers in the word before the loads. For a dense table, a match continues with the emitting instruction."""
    table = tables + 8 * L.TABLE_WORDS * load8(code, pc + 4)
    index = indexes + 8 * L.INDEX_WORDS * load8(code, pc + 5)
    if load8(table, L.T_DENSE) != 0:
        return probe_cells(code, pc, fresh, table, index, regs, cursors, state)
    head = tables + 8 * L.TABLE_WORDS * load8(state, L.S_HEAD)
    mask, level, loads = load8(code, pc + 6), load8(code, pc + 3), load8(code, pc + 8)
    flags, following = load8(table, L.T_FLAGS), load8(index, L.X_NEXT)
    slots, count = load8(head, L.T_SLOTS), load8(head, L.T_NSLOTS)
    emitted, block, pending = load8(code, loads - 1), load8(state, L.S_BLOCK), load8(state, L.S_PENDING)
    width = load8(code, emitted)
    again = fresh == 0
    row = load4(following, load8(cursors, level)) if again else start_probe(code, pc, table, index, regs, state)
    matched = 0
    while row >= 0:
        if (load1(flags, row) & mask) == mask and take_stored(code, loads, table, row, regs) == 1:
            matched += 1
            push(code, emitted + 1, regs, block, pending, width, slots, count)
            pending += 1
            if pending == L.BLOCK:
                store8(state, L.S_PENDING, pending)
                if flush(tables, indexes, state) != L.DONE:
                    store8(cursors, level, row)
                    store8(state, L.S_MATCHED, load8(state, L.S_MATCHED) + matched)
                    return suspend(state, L.GROW, load8(state, L.S_HEAD), -pc)
                pending = 0
        row = load4(following, row)
    store8(state, L.S_PENDING, pending)
    store8(state, L.S_MATCHED, load8(state, L.S_MATCHED) + matched)
    return go_back(code, pc)


def emit_buffer(code: int, pc: int, tables: int, regs: int, state: int) -> int:
    """Write registers to the buffer of a step that Python computes."""
    number = load8(code, pc + 3)
    table = tables + 8 * L.TABLE_WORDS * number
    if load8(table, L.T_ROOM) <= 0:
        return suspend(state, L.GROW, number, pc)
    used, arity = load8(table, L.T_USED), load8(table, L.T_ARITY)
    row = load8(table, L.T_ROWS) + 8 * used * arity
    for i in range(arity):
        store8(row, i, load8(regs, load8(code, pc + 5 + i)))
    store8(table, L.T_USED, used + 1)
    store8(table, L.T_ROOM, load8(table, L.T_ROOM) - 1)
    return go_back(code, pc)


def suspend(state: int, result: int, detail: int, pc: int) -> int:
    """Stop here; the next call of the kernel starts this instruction again."""
    store8(state, L.S_RESULT, result)
    store8(state, L.S_DETAIL, detail)
    store8(state, L.S_PC, pc)
    return 0


def calculate(code: int, pc: int, regs: int, state: int) -> int:
    """Words: operation, target, left, right."""
    left, right = load8(regs, load8(code, pc + 5)), load8(regs, load8(code, pc + 6))
    target = regs + 8 * load8(code, pc + 4)
    failed = arithmetic(load8(code, pc + 3), left, right, target)
    if failed != L.DONE:
        return suspend(state, failed, pc, pc)
    return load8(code, pc + 2)


def fits(code: int, pc: int, op: int, regs: int, state: int) -> int:
    """Test that a value for a column is not the code of NULL (words: that code, register), or that a decimal has no
    more digits than the column declares (words: the power of ten that bounds it, register); a value that is too long
    becomes the detail."""
    value, bound = load8(regs, load8(code, pc + 4)), load8(code, pc + 3)
    if op == L.I_RESERVED:
        return suspend(state, L.RESERVED, pc, pc) if value == bound else load8(code, pc + 2)
    if value >= bound or value <= -bound:
        return suspend(state, L.TOO_LONG, value, pc)
    return load8(code, pc + 2)


def test(code: int, pc: int, op: int, regs: int) -> int:
    """Comparisons and NULL tests of registers; the first word of a NULL test is the code of NULL."""
    first = load8(regs, load8(code, pc + 4))
    if op == L.I_COMPARE:
        holds = compare(load8(code, pc + 3), first, load8(regs, load8(code, pc + 5)))
    elif op == L.I_NOT_NULL:
        holds = 1 if first != load8(code, pc + 3) else 0
    elif op == L.I_IS_NULL:
        holds = 1 if first == load8(code, pc + 3) else 0
    elif op == L.I_SKIP_NULL:
        return load8(code, pc + 5) if first == load8(code, pc + 3) else load8(code, pc + 2)
    else:
        store8(regs, load8(code, pc + 3), first)
        holds = 1
    return load8(code, pc + 2) if holds == 1 else go_back(code, pc)
