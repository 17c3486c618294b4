"""Growing slots, and indexes that chain rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.interrupts import uninterrupted
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Buffer
from upshot.engine.local.kernel.threads import WORKERS, side_by_side

if TYPE_CHECKING:
    from upshot.engine.local.storage.storage import Storage

_FIRST = 16

_SMALL = 1 << 14
"""Sets with fewer slots grow fourfold: the fixed cost of a growth is larger than that of its bytes."""

_PIECE = 1 << 20
"""Slots rehashed at a time."""


class Index:
    """Chains of the rows that agree on some columns."""

    def __init__(self, storage: Storage, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self.number = storage.take_index_number()
        account = storage.account
        self.following, self.previous = Buffer(account=account), Buffer(account=account)
        self.slots = Buffer(8 * _FIRST, account)
        self._storage = storage
        for field, value in ((L.X_NSLOTS, _FIRST), (L.X_NKEYS, 0), (L.X_NCOLS, len(columns)), (L.X_MORE, -1)):
            storage.set_index_word(self.number, field, value)
        for i, column in enumerate(columns):
            storage.set_index_word(self.number, L.X_COLS + i, column)
        storage.set_index_word(self.number, L.X_SLOTS, self.slots.address)

    @property
    def keys(self) -> int:
        return self._storage.index_word(self.number, L.X_NKEYS)

    @property
    def room(self) -> int:
        """The number of new keys that fit before the slots must grow."""
        words, first = self._storage.index_words, self.number * L.INDEX_WORDS
        return words[first + L.X_NSLOTS] * 2 // 3 - words[first + L.X_NKEYS]

    def reserve_rows(self, capacity: int) -> None:
        try:
            self.following.reserve(4 * capacity)
            self.previous.reserve(4 * capacity)
        finally:
            self._set_chains()  # the first may have moved before the second failed to grow

    def trim_rows(self, capacity: int) -> None:
        """Release the room for rows beyond the capacity."""
        self.following.shrink(4 * capacity)
        self.previous.shrink(4 * capacity)
        self._set_chains()

    def _set_chains(self) -> None:
        self._storage.set_index_word(self.number, L.X_NEXT, self.following.address)
        self._storage.set_index_word(self.number, L.X_PREV, self.previous.address)

    def grow_slots(self) -> None:
        count = self._storage.index_word(self.number, L.X_NSLOTS)
        larger = count * growth(count)
        with uninterrupted():
            self.slots = rehashed(self.slots, count, larger)
            self._storage.set_index_word(self.number, L.X_NSLOTS, larger)
            self._storage.set_index_word(self.number, L.X_SLOTS, self.slots.address)

    def shed(self, slots: Buffer) -> None:
        """Drop all rows and release the memory, except for the slots of an empty index: a dense table has no chains."""
        self.following.release()
        self.previous.release()
        self._set_chains()
        self.slots.release()
        self.slots = slots
        for field, value in ((L.X_SLOTS, self.slots.address), (L.X_NSLOTS, _FIRST), (L.X_NKEYS, 0)):
            self._storage.set_index_word(self.number, field, value)

    def clear(self) -> None:
        """Drop all rows."""
        self.slots.clear()
        self._storage.set_index_word(self.number, L.X_NKEYS, 0)

    def release(self) -> None:
        for buffer in (self.following, self.previous, self.slots):
            buffer.release()


def growth(count: int) -> int:
    """The factor by which a number of slots or rows grows."""
    return 4 if count < _SMALL else 2


def rehashed(old: Buffer, old_count: int, new_count: int) -> Buffer:
    """The entries in new slots. The old slots are released piece by piece, to reduce the peak memory of a load."""
    new = old.successor(8 * new_count)
    MACHINE.expect(old_count)

    def move(first: int) -> None:
        end = min(first + _PIECE, old_count)
        MACHINE.rehash(old.address, first, end, new.address, new_count)
        old.forget(8 * first, 8 * end)

    pieces = range(0, old_count, _PIECE)
    if MACHINE.is_compiled and len(pieces) > 1 and WORKERS > 1:
        side_by_side(move, pieces)
    else:
        for first in pieces:
            move(first)
    old.release()
    return new
