"""The dense form of a table: one byte of state bits for each place in the span of a line.

Each combination of values of all columns but one has a line, each value of the remaining column a place, numbered block
by block. The number of a row is computed from its line and its place, so rows, slots and chains of indexes are not
stored: a row exists if its cell is not 0. The cells of a line are the rows that agree on its columns; rows that agree
on the remaining column have one cell in each line of a block.
"""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.memory import finish, load1, load4, load8, mix, store1, store4, store8

# ---- numbers -------------------------------------------------------------------------------------------------


def place_in(index: int, column: int) -> int:
    """The place of a column in the key of an index, or -1; index 0 means all columns."""
    if index == 0:
        return column
    for i in range(load8(index, L.X_NCOLS)):
        if load8(index, L.X_COLS + i) == column:
            return i
    return -1


def has_columns(numbers: int, index: int) -> int:
    """Test whether an index has all columns of these numbers."""
    for i in range(load8(numbers, L.N_WIDTH)):
        if place_in(index, load8(load8(numbers, L.N_COLUMNS), i)) < 0:
            return 0
    return 1


def has_codes(numbers: int, number: int, index: int, key: int) -> int:
    """Test whether the numbered codes equal those of the key, in the columns of the index."""
    width = load8(numbers, L.N_WIDTH)
    codes, columns = load8(numbers, L.N_CODES), load8(numbers, L.N_COLUMNS)
    for i in range(width):
        at = place_in(index, load8(columns, i))
        if at >= 0 and load8(codes, number * width + i) != load8(key, at):
            return 0
    return 1


def number_of_one(numbers: int, owner: int, code: int) -> int:
    """`number_of` for codes of one column."""
    codes, owners = load8(numbers, L.N_CODES), load8(numbers, L.N_OWNERS)
    slots, count = load8(numbers, L.N_SLOTS), load8(numbers, L.N_NSLOTS)
    at = (finish(mix(owner, code)) * count) >> 31
    entry = load4(slots, at)
    while entry != 0:
        if load8(codes, entry - 1) == code and load4(owners, entry - 1) == owner:
            return entry - 1
        at += 1
        if at == count:
            at = 0
        entry = load4(slots, at)
    return -1 - at


def number_of(numbers: int, owner: int, index: int, key: int) -> int:
    """The number of the key's codes in a block, or `-1 - slot` with the slot for a new number."""
    if load8(numbers, L.N_WIDTH) == 1:
        code = load8(key, place_in(index, load8(load8(numbers, L.N_COLUMNS), 0)))
        return number_of_one(numbers, owner, code)
    columns, owners = load8(numbers, L.N_COLUMNS), load8(numbers, L.N_OWNERS)
    slots, count = load8(numbers, L.N_SLOTS), load8(numbers, L.N_NSLOTS)
    state = owner
    for i in range(load8(numbers, L.N_WIDTH)):
        state = mix(state, load8(key, place_in(index, load8(columns, i))))
    at = (finish(state) * count) >> 31
    entry = load4(slots, at)
    while entry != 0:
        if load4(owners, entry - 1) == owner and has_codes(numbers, entry - 1, index, key) == 1:
            return entry - 1
        at += 1
        if at == count:
            at = 0
        entry = load4(slots, at)
    return -1 - at


def enter_number(numbers: int, number: int, owner: int, slot: int, key: int) -> None:
    """Assign an unused number to the codes of the row at `key`."""
    width = load8(numbers, L.N_WIDTH)
    for i in range(width):
        store8(load8(numbers, L.N_CODES), number * width + i, load8(key, load8(load8(numbers, L.N_COLUMNS), i)))
    store4(load8(numbers, L.N_OWNERS), number, owner)
    store4(load8(numbers, L.N_SLOTS), slot, number + 1)
    store8(numbers, L.N_COUNT, load8(numbers, L.N_COUNT) + 1)


def number_codes(numbers: int, first: int, end: int) -> None:
    """Enter the codes with these numbers into slots; they are distinct."""
    width, codes = load8(numbers, L.N_WIDTH), load8(numbers, L.N_CODES)
    slots, count = load8(numbers, L.N_SLOTS), load8(numbers, L.N_NSLOTS)
    for number in range(first, end):
        state = load4(load8(numbers, L.N_OWNERS), number)
        for i in range(width):
            state = mix(state, load8(codes, number * width + i))
        at = (finish(state) * count) >> 31
        while load4(slots, at) != 0:
            at += 1
            if at == count:
                at = 0
        store4(slots, at, number + 1)


def block_of(dense: int, index: int, key: int) -> int:
    """The block with the codes of the key, or a negative number."""
    if load8(dense, L.D_BLOCKS + L.N_WIDTH) == 0:
        return 0
    return number_of(dense + 8 * L.D_BLOCKS, 0, index, key)


def bounds_of(dense: int, block: int) -> int:
    """The address of the words that bound a block."""
    return load8(dense, L.D_BOUNDS) + 8 * L.BLOCK_WORDS * block


# ---- rows ----------------------------------------------------------------------------------------------------


def cell_of(dense: int, line: int, place: int) -> int:
    """The cell of a line for a place, or -1 if the place is outside its span."""
    starts, low = load8(dense, L.D_STARTS), load8(load8(dense, L.D_LOWS), line)
    cell = load8(starts, line) + place - low
    return cell if place >= low and cell < load8(starts, line + 1) else -1


def line_at(dense: int, row: int) -> int:
    """The line of a row."""
    line, starts = load4(load8(dense, L.D_FIRST_LINES), row >> load8(dense, L.D_SHIFT)), load8(dense, L.D_STARTS)
    while load8(starts, line + 1) <= row:
        line += 1
    return line


def place_at(dense: int, line: int, row: int) -> int:
    """The place of a row in its line."""
    return row - load8(load8(dense, L.D_STARTS), line) + load8(load8(dense, L.D_LOWS), line)


def find_cell(table: int, key: int) -> int:
    """The row equal to the words at `key`, or `-1 - cell` with its cell, L.NO_CELL if it has none."""
    dense = load8(table, L.T_DENSE)
    block = block_of(dense, 0, key)
    if block < 0:
        return -1 - L.NO_CELL
    line = number_of(dense + 8 * L.D_LINES, block, 0, key)
    place = number_of(dense + 8 * L.D_PLACES, block, 0, key)
    row = cell_of(dense, line, place) if line >= 0 and place >= 0 else -1
    if row < 0:
        return -1 - L.NO_CELL
    return row if load1(load8(table, L.T_FLAGS), row) != 0 else -1 - row


def add_cell(table: int, key: int, cell: int, bits: int) -> int:
    """Add a row with these bits; return its cell. -1 if there is none: then the row is written to D_KEY."""
    if cell == L.NO_CELL:
        dense = load8(table, L.T_DENSE)
        cell = new_cell(dense, key, load8(table, L.T_USED))
        if cell < 0:
            for i in range(load8(table, L.T_ARITY)):
                store8(load8(dense, L.D_KEY), i, load8(key, i))
            store8(dense, L.D_FULL, 1)
            return -1
    store1(load8(table, L.T_FLAGS), cell, bits)
    store8(table, L.T_LIVE, load8(table, L.T_LIVE) + 1)
    return cell


def new_cell(dense: int, key: int, size: int) -> int:
    """The cell of a row with a code that has no number yet; -1 if there is no room."""
    block = block_of(dense, 0, key)
    if block < 0:
        slot, block = -1 - block, load8(dense, L.D_BLOCKS + L.N_COUNT)
        if block == load8(dense, L.D_BLOCKS + L.N_ROOM):
            return -1
        enter_number(dense + 8 * L.D_BLOCKS, block, 0, slot, key)
    places, bounds = dense + 8 * L.D_PLACES, bounds_of(dense, block)
    place = number_of(places, block, 0, key)
    if place < 0:
        slot, place = -1 - place, load8(bounds, L.B_USED)
        if place == load8(bounds, L.B_HIGH):
            return -1
        enter_number(places, place, block, slot, key)
        store8(bounds, L.B_USED, place + 1)
    line = number_of(dense + 8 * L.D_LINES, block, 0, key)
    if line < 0:
        line = new_line(dense, block, -1 - line, key, size)
        if line < 0:
            return -1
    return cell_of(dense, line, place)


def new_line(dense: int, block: int, slot: int, key: int, size: int) -> int:
    """Append a line for all places of a block; -1 if there is no room."""
    lines, bounds = dense + 8 * L.D_LINES, bounds_of(dense, block)
    line, start = load8(lines, L.N_COUNT), load8(dense, L.D_NEXT)
    end = start + load8(bounds, L.B_HIGH) - load8(bounds, L.B_LOW)
    if line == load8(lines, L.N_ROOM) or end > size:
        return -1
    enter_number(lines, line, block, slot, key)
    store8(load8(dense, L.D_STARTS), line, start)
    store8(load8(dense, L.D_LOWS), line, load8(bounds, L.B_LOW))
    store8(load8(dense, L.D_STARTS), line + 1, end)
    store8(dense, L.D_NEXT, end)
    shift = load8(dense, L.D_SHIFT)
    for piece in range((start + (1 << shift) - 1) >> shift, (end + (1 << shift) - 1) >> shift):
        store4(load8(dense, L.D_FIRST_LINES), piece, line)
    return line


def remove_cell(table: int, row: int) -> None:
    store1(load8(table, L.T_FLAGS), row, 0)
    store8(table, L.T_LIVE, load8(table, L.T_LIVE) - 1)


def code_in(dense: int, line: int, place: int, column: int) -> int:
    """The code of a column in the row of a line and a place."""
    where = load8(dense, L.D_WHERE) + 16 * column
    numbers, at = dense + 8 * load8(where, 0), load8(where, 1)
    number = place
    if load8(where, 0) == L.D_LINES:
        number = line
    elif load8(where, 0) == L.D_BLOCKS:
        number = load4(load8(dense, L.D_LINES + L.N_OWNERS), line)
    return load8(load8(numbers, L.N_CODES), number * load8(numbers, L.N_WIDTH) + at)


def accept_cells(table: int) -> None:
    """Add every row to the old state, eight at a time; all rows are in the new state only."""
    flags = load8(table, L.T_FLAGS)
    for i in range((load8(table, L.T_USED) + 7) >> 3):
        word = load8(flags, i)
        if word != 0:
            store8(flags, i, word | (word >> 1))


# ---- rows that agree on some columns -------------------------------------------------------------------------


def skip_empty(flags: int, cell: int, end: int) -> int:
    """The first cell from this one on that is not 0, or the end; zeros are skipped eight at a time."""
    while cell < end:
        if (cell & 7) == 0 and load8(flags, cell >> 3) == 0:
            cell += 8
        elif load1(flags, cell) == 0:
            cell += 1
        else:
            return cell
    return end


def next_cell(flags: int, cell: int, end: int, mask: int) -> int:
    """The first cell from this one on that has the bits of the mask, or -1."""
    while cell < end:
        cell = skip_empty(flags, cell, end)
        if cell >= end:
            return -1
        if (load1(flags, cell) & mask) == mask:
            return cell
        cell += 1
    return -1


def next_across(dense: int, flags: int, line: int, end: int, place: int, mask: int) -> int:
    """The first cell for a place in the lines from this one on that has the bits of the mask, or -1."""
    starts, lows = load8(dense, L.D_STARTS), load8(dense, L.D_LOWS)
    start = load8(starts, line)
    while line < end:
        following, low = load8(starts, line + 1), load8(lows, line)
        cell = start + place - low
        if place >= low and cell < following and (load1(flags, cell) & mask) == mask:
            return cell
        start = following
        line += 1
    return -1


def next_in_lines(table: int, block: int, line: int, end: int, place: int, index: int, key: int, mask: int) -> int:
    """The first row, in the lines of a block from this one on, that has the codes of the key and, if it is not
    negative, the place; or -1."""
    dense, flags = load8(table, L.T_DENSE), load8(table, L.T_FLAGS)
    lines, starts = dense + 8 * L.D_LINES, load8(dense, L.D_STARTS)
    while line < end:
        if load4(load8(lines, L.N_OWNERS), line) == block and has_codes(lines, line, index, key) == 1:
            if place >= 0:
                row = next_across(dense, flags, line, line + 1, place, mask)
            else:
                row = next_cell(flags, load8(starts, line), load8(starts, line + 1), mask)
            if row >= 0:
                return row
        line += 1
    return -1


def first_from(table: int, block: int, line: int, place: int, index: int, key: int, mask: int) -> int:
    """The first row of a block, from a line on, that matches the key; lines added after the layout come last."""
    dense = load8(table, L.T_DENSE)
    end, tail = load8(bounds_of(dense, block), L.B_END), load8(dense, L.D_TAIL)
    count = load8(dense, L.D_LINES + L.N_COUNT)
    is_across = place >= 0 and has_any(dense + 8 * L.D_LINES, index) == 0
    while True:
        if line >= end and line < tail:
            line = tail
        if line >= tail:
            end = count
        if is_across:
            row = next_across(dense, load8(table, L.T_FLAGS), line, end, place, mask)
        else:
            row = next_in_lines(table, block, line, end, place, index, key, mask)
        if row >= 0 or end == count:
            return row
        line = end


def has_any(numbers: int, index: int) -> int:
    """Test whether an index has any column of these numbers."""
    for i in range(load8(numbers, L.N_WIDTH)):
        if place_in(index, load8(load8(numbers, L.N_COLUMNS), i)) >= 0:
            return 1
    return 0


def first_in_block(table: int, block: int, index: int, key: int, mask: int) -> int:
    """The first row of a block with the bits that matches the key on the columns of the index, or -1."""
    dense, flags, place = load8(table, L.T_DENSE), load8(table, L.T_FLAGS), -1
    if place_in(index, load8(dense, L.D_MOVING)) >= 0:
        place = number_of(dense + 8 * L.D_PLACES, block, index, key)
        if place < 0:
            return -1
    if has_columns(dense + 8 * L.D_LINES, index) == 0:
        return first_from(table, block, load8(bounds_of(dense, block), L.B_LINE), place, index, key, mask)
    line = number_of(dense + 8 * L.D_LINES, block, index, key)
    if line < 0:
        return -1
    if place >= 0:
        return next_across(dense, flags, line, line + 1, place, mask)
    starts = load8(dense, L.D_STARTS)
    return next_cell(flags, load8(starts, line), load8(starts, line + 1), mask)


def first_in_blocks(table: int, block: int, index: int, key: int, mask: int) -> int:
    """The first row of this or a later block with the bits that matches the key, or -1."""
    blocks = load8(table, L.T_DENSE) + 8 * L.D_BLOCKS
    while block < load8(blocks, L.N_COUNT):
        if has_codes(blocks, block, index, key) == 1:
            row = first_in_block(table, block, index, key, mask)
            if row >= 0:
                return row
        block += 1
    return -1


def first_match(table: int, index: int, key: int, mask: int) -> int:
    """The first row with the bits of the mask that matches the key on the columns of the index, or -1."""
    dense = load8(table, L.T_DENSE)
    if has_columns(dense + 8 * L.D_BLOCKS, index) == 0:
        return first_in_blocks(table, 0, index, key, mask)
    block = block_of(dense, index, key)
    return first_in_block(table, block, index, key, mask) if block >= 0 else -1


def next_match(table: int, index: int, key: int, row: int, mask: int) -> int:
    """The next row after a row that matches the key, or -1."""
    dense, flags, place, found = load8(table, L.T_DENSE), load8(table, L.T_FLAGS), -1, -1
    line = line_at(dense, row)
    if place_in(index, load8(dense, L.D_MOVING)) >= 0:
        place = place_at(dense, line, row)
    else:
        found = next_cell(flags, row + 1, load8(load8(dense, L.D_STARTS), line + 1), mask)
    if found >= 0:
        return found
    block = load4(load8(dense, L.D_LINES + L.N_OWNERS), line)
    if has_columns(dense + 8 * L.D_LINES, index) == 0:
        found = first_from(table, block, line + 1, place, index, key, mask)
    if found >= 0 or has_columns(dense + 8 * L.D_BLOCKS, index) == 1:
        return found
    return first_in_blocks(table, block + 1, index, key, mask)


def matching_cells(table: int, index: int, key: int, mask: int, found: int, room: int) -> int:
    """`matching` for a dense table."""
    row, count = first_match(table, index, key, mask), 0
    while row >= 0:
        if count < room:
            store4(found, count, row)
        count += 1
        row = next_match(table, index, key, row, mask)
    return count


ENTRIES = (number_codes,)
