"""The memory of the dense form: cells, and the numbers of the codes of both columns (`kernel/cells.py`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Account, Buffer, store8

_SPARSE = 16
"""With more cells a row than this many, rows and slots take no more memory."""

_MOST_CELLS = 2**31 - 2

_SLACK = 256
"""Cells that a load makes have room for one more code in so many."""

_WIDER = 8
"""The same where cells are laid out anew: the next time must be far away."""

_FEWEST = 8
_PIECE = 1 << 22
"""Cells that are read at a time."""

Codes = NDArray[np.int64]
Places = NDArray[np.int32]


def is_sparse(cells: int, rows: int) -> bool:
    """Test whether a table with so many rows is smaller without cells."""
    return cells > _SPARSE * max(rows, _FEWEST)


def size_of(lines: int, places: int, slack: int = _SLACK) -> int | None:
    """The cells for these numbers of codes, with room for further ones; None if they are too many to be numbered."""
    cells = _roomy(lines, slack) * _roomy(places, slack)
    return cells if cells <= _MOST_CELLS else None


def _roomy(codes: int, slack: int) -> int:
    """A multiple of eight, so that a line starts at a word."""
    return -(-(codes + max(codes // slack, _FEWEST)) // 8) * 8


class Cells:
    """Lines of cells, one line for each code of the `leading` column; `codes` are the codes of both columns."""

    def __init__(self, account: Account, leading: int, codes: tuple[Codes, Codes], slack: int = _SLACK) -> None:
        self.leading = leading
        rooms = [_roomy(len(each), slack) for each in codes]
        self.stride = rooms[1 - leading]
        self.size = rooms[0] * rooms[1]
        self._buffers: list[Buffer] = []
        try:
            self._cells, self._words = self._buffer(self.size + 8, account), self._buffer(8 * L.DENSE_WORDS, account)
            for word, value in ((L.D_STRIDE, self.stride), (L.D_LEADING, leading), (L.D_FULL, 0)):
                store8(self._words.address, word, value)
            self._codes = [
                self._numbered(each, *pair, account) for each, pair in enumerate(zip(codes, rooms, strict=True))
            ]
        except BaseException:
            self.release()
            raise

    def _buffer(self, size: int, account: Account) -> Buffer:
        self._buffers.append(Buffer(size, account))
        return self._buffers[-1]

    def _numbered(self, column: int, codes: Codes, room: int, account: Account) -> Buffer:
        """Number the codes of a column in their order."""
        memory, slots = self._buffer(8 * room, account), self._buffer(8 * room, account)
        memory.view(np.int64, len(codes))[:] = codes
        first = L.D_NUMBERS + L.NUMBER_WORDS * column
        for word, value in (
            (L.N_CODES, memory.address), (L.N_COUNT, len(codes)), (L.N_ROOM, room), (L.N_SLOTS, slots.address),
            (L.N_NSLOTS, 2 * room),
        ):  # fmt: skip
            store8(self._words.address, first + word, value)
        MACHINE.expect(10 * len(codes))
        MACHINE.number_codes(self._words.address + 8 * first)
        return memory

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
        """Test whether a code found no number since this was last asked."""
        is_full = self._word(L.D_FULL) == 1
        store8(self._words.address, L.D_FULL, 0)
        return is_full

    def keys(self, column: int) -> int:
        """The numbered codes of a column."""
        return self._word(L.D_NUMBERS + L.NUMBER_WORDS * column + L.N_COUNT)

    def _word(self, word: int) -> int:
        return int(self._words.view(np.int64, L.DENSE_WORDS)[word])

    def bits(self) -> NDArray[np.uint8]:
        """The state bits of every cell, over its own memory."""
        return self._cells.view(np.uint8, self.size)

    def used(self, mask: int) -> Places:
        """The numbers of the rows that have one of the bits, in ascending order."""
        bits, found = self.bits(), list[Places]()
        for first in range(0, self.size, _PIECE):
            piece = np.flatnonzero(bits[first : first + _PIECE] & np.uint8(mask))
            found.append((piece + first).astype(np.int32))
        return np.concatenate(found)

    def rows(self, mask: int) -> Codes:
        """The rows that have one of the bits, as a copy."""
        used = self.used(mask)
        return self.decode(used, np.empty((len(used), 2), np.int64))

    def decode(self, places: Places, rows: Codes) -> Codes:
        """Write the rows with these numbers."""
        codes = [self._codes[column].view(np.int64, self.keys(column)) for column in (0, 1)]
        for first in range(0, len(places), _PIECE):
            lines, beyond = np.divmod(places[first : first + _PIECE], self.stride)
            rows[first : first + _PIECE, self.leading] = codes[self.leading][lines]
            rows[first : first + _PIECE, 1 - self.leading] = codes[1 - self.leading][beyond]
        return rows

    def codes_in(self, column: int) -> Codes:
        """The distinct codes that rows have in a column."""
        return self._codes[column].view(np.int64, self.keys(column))[self._numbers_in(column)]

    def _numbers_in(self, column: int) -> NDArray[np.int64]:
        """The numbers of the codes that rows have in a column."""
        lines = self.bits().reshape(-1, self.stride)
        if column == self.leading:
            return np.flatnonzero(lines.any(axis=1))
        return np.flatnonzero(lines.any(axis=0))

    def widened(self, account: Account, rows: int) -> Cells | None:
        """The same rows in cells with room for further codes; None if they would be too many or too sparse."""
        lines, beyond = self._numbers_in(self.leading), self._numbers_in(1 - self.leading)
        size = size_of(len(lines), len(beyond), _WIDER)
        if size is None or is_sparse(size, rows):
            return None
        ordered = (self.codes_in(0), self.codes_in(1))
        wider = Cells(account, self.leading, ordered, _WIDER)
        old, new = self.bits().reshape(-1, self.stride), wider.bits().reshape(-1, wider.stride)
        for number, line in enumerate(lines):
            new[number, : len(beyond)] = old[line, beyond]
        return wider

    def moved(self, places: Places, other: Cells) -> Places:
        """The numbers that rows have in the cells made by `widened`."""
        lines, beyond = np.divmod(places, self.stride)
        lines = np.searchsorted(self._numbers_in(self.leading), lines)
        beyond = np.searchsorted(self._numbers_in(1 - self.leading), beyond)
        return (lines * other.stride + beyond).astype(np.int32)

    def release(self) -> None:
        for buffer in self._buffers:
            buffer.release()
