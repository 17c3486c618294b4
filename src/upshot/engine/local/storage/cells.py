"""The memory of the dense form: cells, and the numbers of codes (`kernel/cells.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Account, Buffer

_SPARSE = 16
"""With more cells per row, rows and slots need less memory."""

_MOST_CELLS = 2**31 - 2

_SLACK = 256
"""A load reserves room for one further line or place per this many."""

_WIDER = 8
"""A later layout reserves room for one further line or place per this many, so that the next one is rare."""

_FEWEST = 8
_MOST_BLOCKS = 256
"""The maximum number of blocks of a dense table: a lookup without the carried columns visits all of them."""
_MOST_SMALL_BLOCKS, _SMALL_BLOCK = 16, 32
"""The maximum number of small blocks, and the mean number of places below which blocks are small."""
_PIECE = 1 << 22
"""Cells that are read in one step."""

Codes = NDArray[np.int64]
Numbers = NDArray[np.int64]
Places = NDArray[np.int32]
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DenseColumns:
    """The columns of a dense table: `moving` determines the place, `carried` the block, the other ones the line."""

    arity: int
    moving: int
    carried: tuple[int, ...] = ()

    @property
    def pivots(self) -> tuple[int, ...]:
        return tuple(each for each in range(self.arity) if each != self.moving and each not in self.carried)


@dataclass(frozen=True, slots=True)
class Numbered:
    """The codes of blocks and lines, one row each, and of places; `owners` are the blocks of the lines; for each block,
    and for spare blocks without codes, its first place (`lows`), the end of the places in use (`ends`), and the end of
    all its places (`highs`). Places are in the order of blocks."""

    blocks: Codes
    lines: Codes
    owners: Numbers
    places: Codes
    lows: Numbers
    ends: Numbers
    highs: Numbers


def is_sparse(cells: int, rows: int) -> bool:
    """Test whether a table with this number of rows is smaller without cells."""
    return cells > _SPARSE * max(rows, _FEWEST)


def is_scattered(counts: Numbers) -> bool:
    """Test whether there are too many blocks, or too many small ones; `counts` are their numbers of places."""
    blocks = len(counts)
    return blocks > _MOST_BLOCKS or (blocks > _MOST_SMALL_BLOCKS and int(counts.sum()) < _SMALL_BLOCK * blocks)


def size_of(owners: Numbers, rooms: Numbers, slack: int = _SLACK) -> int | None:
    """The number of cells of lines for all places of their blocks, with spare lines; None if they are too many."""
    cells = int(rooms[owners].sum()) + int(_free(len(owners), slack) * rooms.max())
    return cells if cells <= _MOST_CELLS else None


def loaded_places(blocks: Codes, lines: Codes, owners: Numbers, places: Codes, counts: Numbers) -> Numbered:
    """Number the places of each block, which are in the order of blocks, for a load."""
    return _numbered_places(blocks, lines, owners, places, counts, _rooms_of(counts, blocks, _SLACK))


def _rooms_of(counts: Numbers, blocks: Codes, slack: int) -> Numbers:
    """The room of each block for its places, and that of spare blocks, each as large as the median."""
    rooms = _roomy(counts, slack)
    if not blocks.shape[1]:
        return rooms
    usual = max(1, int(np.median(rooms)) // _FEWEST * _FEWEST)
    return np.append(rooms, np.full(_free(len(blocks), slack), usual))


def _numbered_places(
    blocks: Codes, lines: Codes, owners: Numbers, places: Codes, counts: Numbers, rooms: Numbers
) -> Numbered:
    """Number the places of each block, which are in the order of blocks, with room after each block."""
    counts = np.append(counts, np.zeros(len(rooms) - len(counts), np.int64))
    highs = np.cumsum(rooms)
    spread = np.zeros(int(highs[-1]), np.int64)
    spread[ranges(highs - rooms, counts)] = places
    return Numbered(blocks, lines, owners, spread, highs - rooms, highs - rooms + counts, highs)


def ranges(firsts: Numbers, counts: Numbers) -> Numbers:
    """The concatenated ranges `first .. first + count`."""
    before = np.cumsum(counts) - counts
    return np.repeat(firsts - before, counts) + np.arange(int(counts.sum()))


def _roomy(codes: Numbers, slack: int) -> Numbers:
    """These numbers of codes with room for further ones, rounded up to multiples of eight: a line starts at a word."""
    return -(-(codes + np.maximum(codes // slack, _FEWEST)) // 8) * 8


def _free(codes: int, slack: int) -> int:
    """The number of spare lines or blocks for this number of them."""
    return int(_roomy(np.array([codes]), slack)[0]) - codes


class Cells:
    """Lines of cells; `starts` are the first cells of the lines and the end of the last one, `lows` the places of these
    first cells. `memory` has the cells; this object releases it."""

    def __init__(
        self, account: Account, shape: DenseColumns, numbered: Numbered, memory: Buffer, starts: Numbers, lows: Numbers,
        slack: int = _SLACK,
    ) -> None:  # fmt: skip
        self.shape = shape
        self._buffers = [memory]
        self._cells = memory
        self._distinct: dict[int, int] = {}
        try:
            lines, taken = len(numbered.lines), int(starts[-1])
            room = lines + (_free(lines, slack) if shape.pivots else 0)
            widest = int((numbered.highs - numbered.lows).max())
            self.size = min(taken + (room - lines) * widest, max(taken, _MOST_CELLS))
            memory.reserve(self.size + 8)
            memory.shrink(self.size + 8)
            self._words = self._buffer(8 * L.DENSE_WORDS, account)
            self._write(numbered, starts, lows, room, account)
        except BaseException:
            self.release()
            raise

    def _buffer(self, size: int, account: Account) -> Buffer:
        self._buffers.append(Buffer(size, account))
        return self._buffers[-1]

    def _of(self, numbers: Sequence[int] | Numbers, account: Account, room: int = 0) -> Buffer:
        """A buffer with these words and room for more."""
        buffer = self._buffer(8 * max(len(numbers), room, 1), account)
        buffer.view(np.int64, len(numbers))[:] = numbers
        return buffer

    def _write(self, numbered: Numbered, starts: Numbers, lows: Numbers, room: int, account: Account) -> None:
        shape, lines = self.shape, len(numbered.lines)
        self._starts, self._lows = self._of(starts, account, room + 2), self._of(lows, account, room)
        shift = max(3, (int(starts[-1]) // max(1, lines)).bit_length() - 1)
        firsts = np.arange((self.size >> shift) + 1) << shift
        self._first_lines = self._buffer(4 * len(firsts), account)
        self._first_lines.view(np.int32, len(firsts))[:] = np.searchsorted(starts[:-1], firsts, "right") - 1
        self._key, where = self._of([0] * shape.arity, account), [0] * (2 * shape.arity)
        for numbers, columns in ((L.D_BLOCKS, shape.carried), (L.D_LINES, shape.pivots), (L.D_PLACES, (shape.moving,))):
            for at, column in enumerate(columns):
                where[2 * column : 2 * column + 2] = numbers, at
        by_line = np.arange(lines)
        of_blocks = np.zeros((len(numbered.lows), L.BLOCK_WORDS), np.int64)
        for word, values in ((L.B_LOW, numbered.lows), (L.B_USED, numbered.ends), (L.B_HIGH, numbered.highs)):
            of_blocks[:, word] = values
        of_blocks[:, L.B_LINE] = lines
        np.minimum.at(of_blocks[:, L.B_LINE], numbered.owners, by_line)
        np.maximum.at(of_blocks[:, L.B_END], numbered.owners, by_line + 1)
        of_blocks[:, L.B_LINE] = np.minimum(of_blocks[:, L.B_LINE], of_blocks[:, L.B_END])
        for word, value in (
            (L.D_MOVING, shape.moving), (L.D_NEXT, int(starts[-1])), (L.D_TAIL, lines), (L.D_SHIFT, shift),
            (L.D_FIRST_LINES, self._first_lines.address), (L.D_STARTS, self._starts.address),
            (L.D_LOWS, self._lows.address), (L.D_BOUNDS, self._of(of_blocks.ravel(), account).address),
            (L.D_KEY, self._key.address), (L.D_WHERE, self._of(where, account).address),
        ):  # fmt: skip
            self._set(word, value)
        blocks = np.zeros(len(numbered.blocks), np.int64)
        owners = np.repeat(np.arange(len(of_blocks)), numbered.highs - numbered.lows)
        self._blocks = self._number(L.D_BLOCKS, shape.carried, (numbered.blocks, blocks), len(of_blocks), account)
        self._lines = self._number(L.D_LINES, shape.pivots, (numbered.lines, numbered.owners), room, account)
        self._places = self._number(L.D_PLACES, (shape.moving,), (numbered.places, owners), len(owners), account)
        self._set(L.D_PLACES + L.N_COUNT, int((numbered.ends - numbered.lows).sum()))
        MACHINE.expect(10 * (lines + len(owners)))
        MACHINE.number_codes(self._blocks.address, 0, len(blocks))
        MACHINE.number_codes(self._lines.address, 0, lines)
        for low, end in zip(numbered.lows.tolist(), numbered.ends.tolist(), strict=True):
            MACHINE.number_codes(self._places.address, low, end)

    def _number(
        self, first: int, columns: Sequence[int], codes: tuple[Codes, Numbers], room: int, account: Account
    ) -> _Numbers:
        """Write the description of numbered codes of some columns, each with its block; the slots are empty."""
        rows, owners = codes
        memory = self._of(rows.ravel(), account, room * len(columns))
        of = self._buffer(4 * max(room, 1), account)
        of.view(np.int32, len(owners))[:] = owners
        slots = self._buffer(8 * max(room, 1), account)
        for word, value in (
            (L.N_CODES, memory.address), (L.N_COUNT, len(rows)), (L.N_ROOM, room), (L.N_SLOTS, slots.address),
            (L.N_NSLOTS, 2 * max(room, 1)), (L.N_WIDTH, len(columns)),
            (L.N_COLUMNS, self._of(columns, account).address), (L.N_OWNERS, of.address),
        ):  # fmt: skip
            self._set(first + word, value)
        return _Numbers(self.description + 8 * first, room, len(columns), memory, of)

    @property
    def address(self) -> int:
        return self._cells.address

    @property
    def description(self) -> int:
        """The address of the words that describe the form."""
        return self._words.address

    @property
    def memory(self) -> int:
        return sum(buffer.size for buffer in self._buffers)

    def take_full(self) -> bool:
        """Test whether a row found no cell since the last call."""
        is_full = self._word(L.D_FULL) == 1
        self._set(L.D_FULL, 0)
        return is_full

    def keys(self, columns: Sequence[int], rows: int) -> int:
        """The approximate number of distinct values of the rows in some columns."""
        key, shape = set(columns), self.shape
        if key >= {*range(shape.arity)} - {shape.moving}:
            return rows if shape.moving in key else self._word(L.D_LINES + L.N_COUNT)
        if key == {shape.moving, *shape.carried}:
            return self._word(L.D_PLACES + L.N_COUNT)
        return min(rows, prod(self._distinct_in(column) for column in key))

    def _distinct_in(self, column: int) -> int:
        if column not in self._distinct:
            self._distinct[column] = len(np.unique(self._codes_of(column)))
        return self._distinct[column]

    def _codes_of(self, column: int) -> Codes:
        """The numbered codes of a column."""
        shape = self.shape
        if column == shape.moving:
            return self._places.codes()[:, 0]
        if column in shape.carried:
            return self._blocks.codes()[:, shape.carried.index(column)]
        return self._lines.codes()[: self._count, shape.pivots.index(column)]

    def _word(self, word: int) -> int:
        return int(self._words.view(np.int64, L.DENSE_WORDS)[word])

    def _set(self, word: int, value: int) -> None:
        self._words.view(np.int64, L.DENSE_WORDS)[word] = value

    def bits(self) -> NDArray[np.uint8]:
        """The state bits of every cell, over its own memory."""
        return self._cells.view(np.uint8, self.size)

    def used(self, mask: int) -> Places:
        """The numbers of the rows with one of the bits, in ascending order."""
        bits, found = self.bits(), list[Places]()
        for first in range(0, self.size, _PIECE):
            piece = np.flatnonzero(bits[first : first + _PIECE] & np.uint8(mask))
            found.append((piece + first).astype(np.int32))
        return np.concatenate(found)

    def rows(self, mask: int) -> Codes:
        """The rows with one of the bits, as a copy."""
        used = self.used(mask)
        return self.decode(used, np.empty((len(used), self.shape.arity), np.int64))

    def decode(self, places: Places, rows: Codes) -> Codes:
        """Write the rows with these numbers."""
        shape, codes = self.shape, [self._codes_of(column) for column in range(self.shape.arity)]
        owners = self._lines.owners()
        for first in range(0, len(places), _PIECE):
            part = slice(first, first + _PIECE)
            lines, beyond = self._lines_and_places(places[part])
            blocks = owners[lines]
            for column in range(shape.arity):
                numbers = beyond if column == shape.moving else blocks if column in shape.carried else lines
                rows[part, column] = codes[column][numbers]
        return rows

    @property
    def _count(self) -> int:
        """The number of lines."""
        return self._word(L.D_LINES + L.N_COUNT)

    def _spans(self) -> tuple[Numbers, Numbers]:
        """The first cells of the lines with the end of the last one, and the places of these first cells."""
        return self._starts.view(np.int64, self._count + 1), self._lows.view(np.int64, self._count)

    def _lines_and_places(self, rows: Places) -> tuple[Numbers, Numbers]:
        starts, lows = self._spans()
        lines = np.searchsorted(starts[:-1], rows, "right") - 1
        return lines, rows - starts[lines] + lows[lines]

    def codes_in(self, column: int) -> Codes:
        """The codes of the rows in a column, with repetitions."""
        lines, places = self._in_use()
        if column == self.shape.moving:
            return self._codes_of(column)[places]
        if column in self.shape.carried:
            return self._codes_of(column)[np.unique(self._lines.owners()[: self._count][lines])]
        return self._codes_of(column)[lines]

    def _in_use(self) -> tuple[Marks, Marks]:
        """The masks of the lines and of the places that have rows."""
        bits, (starts, lows) = self.bits(), self._spans()
        places = np.zeros(len(self._places.codes()) + _FEWEST, np.bool_)
        lengths = np.diff(starts)
        for line in np.argsort(-lengths).tolist():  # the longest first: then most others add nothing
            start, low, length = starts[line], lows[line], lengths[line]
            seen = places[low : low + length]
            if not seen.all():
                np.logical_or(seen, bits[start : start + length], out=seen)
        return np.bitwise_or.reduceat(bits, starts[:-1]) != 0, places[:-_FEWEST]

    def widened(self, account: Account, rows: int) -> tuple[Cells, Callable[[Places], Places]] | None:
        """The same rows in cells with room for further rows, including the one that found no cell, and a function from
        old to new row numbers; None if there would be too many cells, or too few rows in them."""
        shape, (lines, places) = self.shape, (np.flatnonzero(used) for used in self._in_use())
        key = self._key.view(np.int64, shape.arity)
        owners, of_places = self._lines.owners()[lines], self._places.owners()[places]
        kept, of = np.unique(owners, return_inverse=True)
        blocks = self._blocks.codes()[kept]
        is_same = np.all(blocks == key[[*shape.carried]], axis=1)
        own = int(is_same.argmax()) if is_same.any() else len(blocks)
        if own == len(blocks):
            blocks = np.concatenate([blocks, [key[[*shape.carried]]]])
        of_lines = _inserted(self._lines.codes()[lines], of, key[[*shape.pivots]], own)
        held = _inserted(self._places.codes()[places], np.searchsorted(kept, of_places), key[[shape.moving]], own)
        counts = np.bincount(held.owners, minlength=len(blocks))
        rooms = _rooms_of(counts, blocks, _WIDER)
        if shape.carried:  # many transactions may fill a new block
            rooms[own] = max(rooms[own], _roomy(2 * counts[own : own + 1], _WIDER)[0])
        size = size_of(of_lines.owners, rooms, _WIDER)
        if size is None or is_sparse(size, rows) or is_scattered(counts):
            return None
        numbered = _numbered_places(blocks, of_lines.codes, of_lines.owners, held.codes[:, 0], counts, rooms)
        starts = np.concatenate([[0], np.cumsum((numbered.highs - numbered.lows)[of_lines.owners])])
        wider = Cells(account, shape, numbered, Buffer(account=account), starts, numbered.lows[of_lines.owners], _WIDER)
        try:
            line_of, place_of = np.full(self._count, -1), np.full(len(self._places.codes()), -1)
            line_of[lines] = of_lines.positions[: len(lines)]
            place_of[places] = ranges(numbered.lows, numbered.ends - numbered.lows)[held.positions[: len(places)]]
            self._copy(wider, lines, line_of, place_of)
        except BaseException:
            wider.release()
            raise

        def moved(numbers: Places) -> Places:
            (starts, lows), (lines, places) = wider._spans(), self._lines_and_places(numbers)
            lines = line_of[lines]
            found: Places = (starts[lines] - lows[lines] + place_of[places]).astype(np.int32)
            return found

        return wider, moved

    def _copy(self, wider: Cells, lines: Numbers, line_of: Numbers, place_of: Numbers) -> None:
        """Copy the cells of lines to their lines and places in other cells."""
        (starts, lows), (others, other_lows) = self._spans(), wider._spans()
        old, new, ends = self.bits(), wider.bits(), starts[1:]
        first, last = _extent(self._places.owners(), np.flatnonzero(place_of >= 0))
        for line in lines.tolist():
            start, low, block = starts[line], lows[line], self._lines.owners()[line]
            at = others[line_of[line]] - other_lows[line_of[line]]
            if first[block] < 0:
                used = np.flatnonzero(old[start : ends[line]])
                new[at + place_of[low + used]] = old[start + used]
            else:  # places are moved together
                begin, end = max(low, first[block]), min(low + ends[line] - start, last[block] + 1)
                to = at + place_of[begin]
                new[to : to + end - begin] = old[start + begin - low : start + end - low]

    def release(self) -> None:
        for buffer in self._buffers:
            buffer.release()


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbered codes, one row each, and the block of each; `address` is that of their description."""

    address: int
    room: int
    width: int
    memory: Buffer
    of: Buffer

    def codes(self) -> Codes:
        return self.memory.view(np.int64, self.room * self.width).reshape(self.room, self.width)

    def owners(self) -> Places:
        return self.of.view(np.int32, self.room)


@dataclass(frozen=True, slots=True)
class _BlockOrder:
    """Codes sorted by their blocks, and their new positions."""

    codes: Codes
    owners: Numbers
    positions: Numbers


def _extent(owners: Places, places: Numbers) -> tuple[Numbers, Numbers]:
    """The first and the last of these places in each block; the first is -1 if other places are between them."""
    of = owners[places]
    counts = np.bincount(of, minlength=int(owners.max()) + 1)
    ends = np.cumsum(counts)
    first, last = np.full(len(counts), -1), np.full(len(counts), -1)
    first[counts > 0], last[counts > 0] = places[(ends - counts)[counts > 0]], places[(ends - 1)[counts > 0]]
    first[last - first >= counts] = -1
    return first, last


def _inserted(codes: Codes, owners: Numbers, key: Codes, owner: int) -> _BlockOrder:
    """Codes with those of a key added, sorted by their blocks."""
    if not np.any((owners == owner) & np.all(codes == key, axis=1)):
        codes, owners = np.concatenate([codes, [key]]), np.append(owners, owner)
    order = np.argsort(owners, kind="stable")
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return _BlockOrder(codes[order], owners[order], positions)
