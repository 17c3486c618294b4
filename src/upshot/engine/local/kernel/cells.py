"""The dense form of a binary table: one byte of state bits for every pair of numbered codes.

The codes of each column are numbered by a small hash set. A row's number is computed from the two numbers, so rows,
slots and chains of indexes need not exist: a row is in use if its cell is not 0. The rows that agree on one column are
the cells of a line, or one cell of each line.
"""

from __future__ import annotations

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.memory import finish, load1, load4, load8, mix, quotient, store1, store4, store8

# ---- numbers -------------------------------------------------------------------------------------------------


def numbers_of(dense: int, column: int) -> int:
    """The address of the words that describe the numbers of a column."""
    return dense + 8 * (L.D_NUMBERS + L.NUMBER_WORDS * column)


def number_of(numbers: int, code: int) -> int:
    """The number of the code, or `-1 - slot` with the slot where it would go."""
    slots, count, codes = load8(numbers, L.N_SLOTS), load8(numbers, L.N_NSLOTS), load8(numbers, L.N_CODES)
    at = (finish(mix(0, code)) * count) >> 31
    entry = load4(slots, at)
    while entry != 0:
        if load8(codes, entry - 1) == code:
            return entry - 1
        at += 1
        if at == count:
            at = 0
        entry = load4(slots, at)
    return -1 - at


def give_number(numbers: int, code: int) -> int:
    """The number of the code, which gets the next one if it has none; -1 if none is left."""
    number = number_of(numbers, code)
    if number >= 0:
        return number
    count = load8(numbers, L.N_COUNT)
    if count == load8(numbers, L.N_ROOM):
        return -1
    store8(load8(numbers, L.N_CODES), count, code)
    store4(load8(numbers, L.N_SLOTS), -1 - number, count + 1)
    store8(numbers, L.N_COUNT, count + 1)
    return count


def number_codes(numbers: int) -> None:
    """Enter the codes, which are distinct, into empty slots."""
    for i in range(load8(numbers, L.N_COUNT)):
        slot = -1 - number_of(numbers, load8(load8(numbers, L.N_CODES), i))
        store4(load8(numbers, L.N_SLOTS), slot, i + 1)


# ---- rows ----------------------------------------------------------------------------------------------------


def find_cell(table: int, key: int) -> int:
    """The row equal to the words at `key`, or `-1 - cell` with its cell, L.NO_CELL if a code has no number."""
    dense = load8(table, L.T_DENSE)
    leading = load8(dense, L.D_LEADING)
    line = number_of(numbers_of(dense, leading), load8(key, leading))
    place = number_of(numbers_of(dense, 1 - leading), load8(key, 1 - leading))
    if line < 0 or place < 0:
        return -1 - L.NO_CELL
    row = line * load8(dense, L.D_STRIDE) + place
    return row if load1(load8(table, L.T_FLAGS), row) != 0 else -1 - row


def add_cell(table: int, key: int, cell: int, bits: int) -> int:
    """A new row with these bits; -1 if one of its codes finds no number."""
    if cell == L.NO_CELL:
        dense = load8(table, L.T_DENSE)
        leading = load8(dense, L.D_LEADING)
        line = give_number(numbers_of(dense, leading), load8(key, leading))
        place = give_number(numbers_of(dense, 1 - leading), load8(key, 1 - leading))
        if line < 0 or place < 0:
            store8(dense, L.D_FULL, 1)
            return -1
        cell = line * load8(dense, L.D_STRIDE) + place
    store1(load8(table, L.T_FLAGS), cell, bits)
    store8(table, L.T_LIVE, load8(table, L.T_LIVE) + 1)
    return cell


def remove_cell(table: int, row: int) -> None:
    store1(load8(table, L.T_FLAGS), row, 0)
    store8(table, L.T_LIVE, load8(table, L.T_LIVE) - 1)


def code_at(table: int, row: int, column: int) -> int:
    """The code that the row has in a column."""
    dense = load8(table, L.T_DENSE)
    stride = load8(dense, L.D_STRIDE)
    number = quotient(row, stride)
    if column != load8(dense, L.D_LEADING):
        number = row - number * stride
    return load8(load8(numbers_of(dense, column), L.N_CODES), number)


def accept_cells(table: int) -> None:
    """Let every row, all of them in the new state only, be in both; eight at a time."""
    flags = load8(table, L.T_FLAGS)
    for i in range((load8(table, L.T_USED) + 7) >> 3):
        word = load8(flags, i)
        if word != 0:
            store8(flags, i, word | (word >> 1))


# ---- rows that agree on some columns -------------------------------------------------------------------------


def first_cell(table: int, index: int, key: int) -> int:
    """The first cell that a row with these codes in the columns of the index can have, -1 if there is none."""
    dense = load8(table, L.T_DENSE)
    cell = 0
    for i in range(load8(index, L.X_NCOLS)):
        column = load8(index, L.X_COLS + i)
        number = number_of(numbers_of(dense, column), load8(key, i))
        if number < 0:
            return -1
        cell += number * load8(dense, L.D_STRIDE) if column == load8(dense, L.D_LEADING) else number
    return cell


def step_of_cells(table: int, index: int) -> int:
    """The distance between two cells that agree on the columns of the index."""
    dense = load8(table, L.T_DENSE)
    is_across = load8(index, L.X_NCOLS) == 1 and load8(index, L.X_COLS) != load8(dense, L.D_LEADING)
    return load8(dense, L.D_STRIDE) if is_across else 1


def end_of_cells(table: int, index: int, cell: int) -> int:
    """The end of the cells that agree with one on the columns of the index."""
    columns = load8(index, L.X_NCOLS)
    if columns != 1:
        return cell + 1 if columns == 2 else load8(table, L.T_USED)
    dense = load8(table, L.T_DENSE)
    leading, stride = load8(dense, L.D_LEADING), load8(dense, L.D_STRIDE)
    if load8(index, L.X_COLS) != leading:
        return load8(numbers_of(dense, leading), L.N_COUNT) * stride
    return quotient(cell, stride) * stride + load8(numbers_of(dense, 1 - leading), L.N_COUNT)


def skip_empty(flags: int, cell: int, end: int) -> int:
    """The first cell from this one on that is not 0, or the end; eight at a time where all are."""
    while cell < end:
        if (cell & 7) == 0 and load8(flags, cell >> 3) == 0:
            cell += 8
        elif load1(flags, cell) == 0:
            cell += 1
        else:
            return cell
    return end


def next_cell(flags: int, cell: int, step: int, end: int, mask: int) -> int:
    """The first cell from this one on, in steps, that has the bits of the mask, or -1."""
    while cell < end:
        if step == 1:
            cell = skip_empty(flags, cell, end)
            if cell == end:
                return -1
        if (load1(flags, cell) & mask) == mask:
            return cell
        cell += step
    return -1


def matching_cells(table: int, index: int, key: int, mask: int, found: int, room: int) -> int:
    """As `matching`, of a dense table."""
    cell, count = first_cell(table, index, key), 0
    if cell < 0:
        return 0
    flags, step, end = load8(table, L.T_FLAGS), step_of_cells(table, index), end_of_cells(table, index, cell)
    cell = next_cell(flags, cell, step, end, mask)
    while cell >= 0:
        if count < room:
            store4(found, count, cell)
        count += 1
        cell = next_cell(flags, cell + step, step, end, mask)
    return count


INNER = (
    numbers_of, number_of, give_number, find_cell, add_cell, remove_cell, code_at, accept_cells, first_cell,
    step_of_cells, end_of_cells, skip_empty, next_cell, matching_cells,
)  # fmt: skip
ENTRIES = (number_codes,)
