"""Tables and their indexes in raw memory, with descriptors for the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from upshot.core.errors import LimitError
from upshot.core.schema import Lattice
from upshot.engine.local.kernel import layout as L
from upshot.engine.local.kernel.interrupts import uninterrupted
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.memory import Account, Buffer
from upshot.engine.local.kernel.threads import WORKERS, side_by_side
from upshot.engine.local.storage.cells import Cells, is_sparse
from upshot.engine.local.storage.index import Index, growth, rehashed
from upshot.engine.local.storage.text_order import TextOrder

_FIRST = 16
_FULL = 0.7
"""The share of slots in use at which a set is rehashed into a larger one."""

_SLACK = 32
"""A set for n rows gets room for n / 32 more, so that the next rows do not rehash it."""

_LARGE = 1 << 23
"""Sets with at least this many slots grow by less than double, to limit the bytes per row."""

_FAR_AHEAD = 1 << 12
"""The maximum number of further keys for which an index reserves room."""

_LONG_LIST = 1 << 16
"""The memory of larger lists, in bytes, is released after a change."""

_LISTS = ((L.T_DEL, L.T_NDEL, L.T_CAPDEL), (L.T_RED, L.T_NRED, L.T_CAPRED), (L.T_INS, L.T_NINS, L.T_CAPINS))

_SPARSE = 64
"""A table with at least this many slots per row is emptied row by row, others as a whole."""

_PIECE = 1 << 20
"""Rows that are entered in one step."""

_MOST_ROWS = 2**31 - 2

Codes = NDArray[np.int64]


class Storage:
    """All tables and indexes of a database; their descriptors are in two buffers, by number."""

    def __init__(self) -> None:
        self.account = Account()
        """The memory of all tables and indexes."""
        self._tables = Buffer()
        self._indexes = Buffer()
        self._free_tables: list[int] = []
        self._free_indexes: list[int] = []
        self._table_count = 0
        self._index_count = 0
        self.words = self._tables.words()
        """The words of all table descriptors."""
        self.index_words = self._indexes.words()
        """The words of all index descriptors."""

    @property
    def tables(self) -> int:
        """The address of the table descriptors."""
        return self._tables.address

    @property
    def indexes(self) -> int:
        return self._indexes.address

    def create(self, arity: int, *, counted: bool = False) -> Table:
        if self._free_tables:
            number = self._free_tables.pop()
        else:
            number = self._table_count
            self._table_count += 1
            self._tables.reserve(_doubled(self._table_count * L.TABLE_WORDS * 8))
            self.words = self._tables.words()
        return Table(self, number, arity, counted=counted)

    def words_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The words of the table descriptors at these places."""
        return np.frombuffer(self.words, np.int64)[places]

    def index_word(self, number: int, field: int) -> int:
        return self.index_words[number * L.INDEX_WORDS + field]

    def set_index_word(self, number: int, field: int, value: int) -> None:
        self.index_words[number * L.INDEX_WORDS + field] = value

    def take_index_number(self) -> int:
        if self._free_indexes:
            return self._free_indexes.pop()
        self._index_count += 1
        self._indexes.reserve(_doubled(self._index_count * L.INDEX_WORDS * 8))
        self.index_words = self._indexes.words()
        return self._index_count - 1

    def drop(self, table: Table) -> None:
        """Release the table's memory and free its numbers."""
        for index in table.indexes.values():
            index.release()
            self._free_indexes.append(index.number)
        table.release()
        self._free_tables.append(table.number)


def places_of(tables: Iterable[Table], *fields: int) -> NDArray[np.int64]:
    """The places of some fields of each table among the words of all descriptors."""
    return np.array([table.number * L.TABLE_WORDS + field for table in tables for field in fields], np.int64)


class Table:
    """A set of rows of 64-bit codes; each row has state bits."""

    def __init__(self, storage: Storage, number: int, arity: int, *, counted: bool) -> None:
        self.storage, self.number, self.arity, self.counted = storage, number, arity, counted
        self.indexes: dict[tuple[int, ...], Index] = {}
        self.key_counts: dict[tuple[int, ...], tuple[int, int]] = {}
        """Estimated numbers of distinct values in columns without an index, each with the table's size at that time."""
        self.capacity = 0
        self._beside = 0
        self._order: TextOrder | None = None
        self.cells: Cells | None = None
        """The dense form, in place of rows, slots and chains (docs/decisions/0009)."""
        account = storage.account
        self._rows, self._flags, self._count, self._gain, self._free = (Buffer(account=account) for _ in range(5))
        self._lists = {field: Buffer(account=account) for field in (L.T_DEL, L.T_RED, L.T_INS)}
        self._slots = Buffer(8 * _FIRST, account)
        self._first = number * L.TABLE_WORDS
        for field in range(L.TABLE_WORDS):
            self.set(field, 0)
        self.set(L.T_ARITY, arity)
        self.set(L.T_SLOTS, self._slots.address)
        self.set(L.T_NSLOTS, _FIRST)
        self.set(L.T_INDEX, -1)

    def word(self, field: int) -> int:
        return self.storage.words[self._first + field]

    def set(self, field: int, value: int) -> None:
        self.storage.words[self._first + field] = value

    @property
    def size(self) -> int:
        """The rows in use: those of the state, and during a transaction those of either state."""
        return self.storage.words[self._first + L.T_LIVE]

    @property
    def is_untouched(self) -> bool:
        """Test whether the open change has not inserted, deleted or touched any row."""
        words, first = self.storage.words, self._first
        return not (words[first + L.T_NDEL] or words[first + L.T_NRED] or words[first + L.T_NINS])

    # ---- room ----------------------------------------------------------------------------------------------

    def grow(self) -> bool:
        """Enlarge all full parts (rows, slots, indexes, lists); return True if rows got new numbers."""
        for field, length, capacity in _LISTS:
            if self.word(length) >= self.word(capacity) and not (field == L.T_INS and self.word(L.T_PLAIN)):
                self.reserve_list(field, self.word(length) * 3 // 2 + _FIRST)
        if self.cells is not None:
            is_full = self.cells.take_full()
            if is_full:
                self._widen(self.cells)
            self._set_room()
            return is_full
        if self.word(L.T_USED) - self.word(L.T_NFREE) >= self.capacity:
            self._reserve_rows(max(self.capacity * (growth(self.capacity) + 1) // 2, _FIRST))
        if self.size >= int(self.word(L.T_NSLOTS) * _FULL):
            self._grow_slots(self._larger())
        self._make_room_for_keys()
        if self._order is not None:
            self._order.learn()
        self._set_room()
        return False

    def look_ahead(self) -> None:
        """Grow slots and indexes that the next few rows would fill up."""
        if self.cells is not None:
            return
        if self.size + self.size // _SLACK >= int(self.word(L.T_NSLOTS) * _FULL):
            self._grow_slots(self._larger())
        self._make_room_for_keys()
        self._set_room()

    def _make_room_for_keys(self) -> None:
        """Reserve room for keys in indexes. Every row counts against this room, even without a new key: little room
        would be used up every few rows."""
        ahead = min(self.word(L.T_USED) // 4 + 1, _FAR_AHEAD)
        for index in self.indexes.values():
            while index.room < ahead:
                index.grow_slots()

    def _larger(self) -> int:
        """The number of slots after the next growth."""
        slots = self.word(L.T_NSLOTS)
        return slots * growth(slots) if slots < _LARGE else slots * 8 // 5

    def make_room(self, least: int) -> None:
        """Grow until `least` further rows fit."""
        while self.word(L.T_ROOM) < least:
            rows = self.capacity - self.word(L.T_USED)
            if rows < least:
                self._reserve_rows(max(self.capacity * 3 // 2, self.capacity + least))
            if int(self.word(L.T_NSLOTS) * _FULL) - self.size < least:
                self._grow_slots(self._larger())
            self._set_room()

    def reserve(self, extra: int) -> None:
        """Reserve room for `extra` further rows; indexes grow with their keys."""
        words, first = self.storage.words, self._first
        needed = words[first + L.T_USED] + max(0, extra - words[first + L.T_NFREE])
        if needed > self.capacity:
            self._reserve_rows(max(needed, self.capacity * 3 // 2, _FIRST))
        rows = words[first + L.T_LIVE] + extra
        if rows > int(words[first + L.T_NSLOTS] * _FULL):
            self._grow_slots(max(int((rows + rows // _SLACK) / _FULL) + 1, self._larger()))
        if words[first + L.T_NINS] + extra > words[first + L.T_CAPINS]:
            self.reserve_list(L.T_INS, words[first + L.T_NINS] + extra)
        self._set_room()

    def _set_room(self) -> None:
        words, first = self.storage.words, self._first
        if self.cells is not None:
            words[first + L.T_ROOM] = words[first + L.T_CAPINS] - words[first + L.T_NINS]
            return
        room = min(
            self.capacity - words[first + L.T_USED] + words[first + L.T_NFREE],
            int(words[first + L.T_NSLOTS] * _FULL) - words[first + L.T_LIVE],
        )
        for index in self.indexes.values():
            room = min(room, index.room)
        if not words[first + L.T_PLAIN]:
            room = min(room, words[first + L.T_CAPINS] - words[first + L.T_NINS])
        words[first + L.T_ROOM] = room

    def reserve_list(self, field: int, capacity: int) -> None:
        """Reserve room for `capacity` row numbers in a list."""
        buffer = self._lists[field]
        if buffer.size >= 4 * capacity and self.storage.words[self._first + field]:
            return
        buffer.reserve(4 * capacity)
        self.set(field, buffer.address)
        self.set(field + 2, buffer.size // 4)

    def _reserve_rows(self, capacity: int) -> None:
        if capacity > _MOST_ROWS:
            raise MemoryError(f"a relation has at most {_MOST_ROWS} rows")
        account, beside = self.storage.account, self._beside * (capacity - self.capacity)
        account.check(beside)
        # Each address is stored at once, since the next buffer may fail to grow.
        with uninterrupted():
            for buffer, field, width in self._row_buffers():
                buffer.reserve(width * capacity)
                self.set(field, buffer.address)
            for index in self.indexes.values():
                index.reserve_rows(capacity)
            self.capacity = capacity
            account.used += beside

    def _trim_rows(self, capacity: int) -> None:
        """Release the room for rows beyond the capacity."""
        if capacity >= self.capacity:
            return
        with uninterrupted():
            for buffer, field, width in self._row_buffers():
                buffer.shrink(width * capacity)
                self.set(field, buffer.address)
            for index in self.indexes.values():
                index.trim_rows(capacity)
            self.storage.account.used += self._beside * (capacity - self.capacity)
            self.capacity = capacity

    def weigh(self, beside: int) -> None:
        """Charge the account for bytes that are used for every row outside of the table."""
        self.storage.account.used += (beside - self._beside) * self.capacity
        self._beside = beside

    def _row_buffers(self) -> list[tuple[Buffer, int, int]]:
        """The arrays with an entry for every row: memory, the field of its address, bytes per row.

        The free list is one of them, so that removing rows, especially in a rollback, never allocates memory. Its pages
        are not touched, and need no memory, before rows are removed.
        """
        buffers = [(self._rows, L.T_ROWS, 8 * self.arity), (self._flags, L.T_FLAGS, 1), (self._free, L.T_FREE, 4)]
        if self.counted:
            buffers += [(self._count, L.T_COUNT, 8), (self._gain, L.T_GAIN, 8)]
        return buffers

    def _grow_slots(self, count: int) -> None:
        with uninterrupted():
            self._slots = rehashed(self._slots, self.word(L.T_NSLOTS), count)
            self.set(L.T_SLOTS, self._slots.address)
            self.set(L.T_NSLOTS, count)

    # ---- indexes -------------------------------------------------------------------------------------------

    def index_on(self, columns: Sequence[int]) -> Index:
        """The index on these columns; it is built if there is none."""
        key = tuple(columns)
        if len(key) > L.MAX_INDEX_COLUMNS:
            raise LimitError(
                f"an index on {len(key)} columns is needed, at most {L.MAX_INDEX_COLUMNS} are possible",
                code="too-many-key-columns",
                help="use a narrower key",
            )
        index = self.indexes.get(key)
        if index is not None:
            return index
        index = Index(self.storage, key)
        if self.cells is None:
            index.reserve_rows(max(self.capacity, _FIRST))
            self._link_all(index)
        self.storage.set_index_word(index.number, L.X_MORE, self.word(L.T_INDEX))
        self.set(L.T_INDEX, index.number)
        self.set(L.T_NINDEX, len(self.indexes) + 1)
        self.indexes[key] = index
        self._set_room()
        return index

    def _link_all(self, index: Index) -> None:
        """Add every row to an empty index."""
        used, done = self.word(L.T_USED), 0
        MACHINE.expect(10 * used)
        while True:
            done = MACHINE.build_index(self.storage.tables, self.storage.indexes, self.number, index.number, done)
            if done == used:
                return
            index.grow_slots()

    def keys(self, columns: tuple[int, ...]) -> int | None:
        """The number of distinct values in columns, if it is known without reading rows."""
        if self.cells is not None:
            return self.cells.keys(columns, self.size)
        index = self.indexes.get(columns)
        return None if index is None else index.keys

    # ---- the dense form ------------------------------------------------------------------------------------

    @property
    def is_loaded_into_cells(self) -> bool:
        """Test whether all rows of a dense table are inserted and not listed: after a rollback they cannot be read."""
        return self.cells is not None and self.word(L.T_NINS) > 0 and self.word(L.T_INS) == 0

    def take_cells(self, cells: Cells, count: int) -> None:
        """Make cells with `count` rows, all inserted, the rows of an empty table that is being loaded."""
        self._install(cells)
        for field in (L.T_LIVE, L.T_NINS):
            self.set(field, count)
        self._set_room()

    def _install(self, cells: Cells) -> None:
        # Allocations first: after them nothing can fail.
        slots, *of_indexes = [Buffer(8 * _FIRST, self.storage.account) for _ in range(1 + len(self.indexes))]
        with uninterrupted():
            for buffer in (self._rows, self._flags, self._free):
                buffer.release()
            if self.cells is not None and self.cells is not cells:
                self.cells.release()
            self._slots.release()
            self._slots = slots
            for index, its_slots in zip(self.indexes.values(), of_indexes, strict=True):
                index.shed(its_slots)
            self.cells, self.capacity = cells, 0
            for field, value in (
                (L.T_ROWS, 0), (L.T_FREE, 0), (L.T_NFREE, 0), (L.T_SLOTS, self._slots.address), (L.T_NSLOTS, _FIRST),
                (L.T_FLAGS, cells.address), (L.T_USED, cells.size), (L.T_DENSE, cells.description),
            ):  # fmt: skip
                self.set(field, value)

    def _widen(self, cells: Cells) -> None:
        """Lay out the cells again with room for further rows, or leave the dense form if few are in use."""
        found = cells.widened(self.storage.account, self.size)
        if found is None:
            self.spread()
            return
        wider, moved = found
        lists = [(field, moved(self.places(field))) for field in self._lists if self._is_written(field)]
        with uninterrupted():
            try:
                self._install(wider)
            except BaseException:
                wider.release()
                raise
            for field, places in lists:
                self.set_places(field, places)

    def _is_written(self, field: int) -> bool:
        return bool(self.word(field) and self.word(field + 1))

    def spread_if_sparse(self) -> None:
        """Leave the dense form if few of the cells are in use; row numbers become invalid."""
        if self.cells is not None and is_sparse(self.cells.size, self.size):
            self.spread()

    def spread(self) -> None:
        """Leave the dense form for rows, slots and indexes. The lists get the new numbers."""
        cells = self.cells
        if cells is None:
            return
        used = cells.used(0xFF)
        count = len(used)
        lists = [
            (field, np.searchsorted(used, self.places(field)).astype(np.int32))
            for field in self._lists
            if self._is_written(field)
        ]
        try:
            # Allocations first: after the swap nothing can fail.
            for buffer, _, width in self._row_buffers():
                buffer.reserve(width * max(count, _FIRST))
            self._grow_slots_for(count)
            for columns, index in self.indexes.items():
                index.reserve_rows(max(count, _FIRST))
                while index.room <= min(count, self.keys(columns) or count):
                    index.grow_slots()
        except BaseException:
            self._install(cells)
            raise
        cells.decode(used, self._rows.view(np.int64, self.arity * count).reshape(count, self.arity))
        self._flags.view(np.uint8, count)[:] = cells.bits()[used]
        with uninterrupted():
            for field, places in lists:
                self.set_places(field, places)
            self.cells, self.capacity = None, max(count, _FIRST)
            for buffer, field, _ in self._row_buffers():
                self.set(field, buffer.address)
            self.set(L.T_DENSE, 0)
            self.set(L.T_USED, count)
            cells.release()
            self._fill_slots(count)
            for index in self.indexes.values():
                self._link_all(index)
            self._set_room()

    # ---- changes -------------------------------------------------------------------------------------------

    def stage(self, codes: Codes, *, insert: bool) -> None:
        """Insert or delete rows in the new state."""
        self.spread()
        count, codes = len(codes), np.ascontiguousarray(codes)
        MACHINE.expect(20 * count)
        if insert:
            self.reserve(count)
        self.reserve_list(L.T_RED, self.word(L.T_NRED) + count)
        done = 0
        while True:
            done = MACHINE.stage(
                self.storage.tables, self.storage.indexes, self.number, codes.ctypes.data, done, count, int(insert)
            )
            if done == count:
                return
            self.grow()

    def staged(self, codes: Codes, *, insert: bool) -> NDArray[np.int32]:
        """`stage` for distinct rows; return the numbers of the rows that it inserted or deleted."""
        self.spread()
        places = self.row_numbers(codes, L.NEW)
        changing = places < 0 if insert else places >= 0
        codes = codes[changing]
        self.stage(codes, insert=insert)
        return self.row_numbers(codes, L.NEW) if insert else places[changing]

    def stage_upsert(self, codes: Codes, key: tuple[int, ...]) -> None:
        """Insert each row and delete the other rows with its key."""
        self.spread()
        count = len(codes)
        codes = np.ascontiguousarray(codes)
        MACHINE.expect(40 * count)
        index = self.index_on(key)
        self.reserve(count)
        self.reserve_list(L.T_RED, self.word(L.T_NRED) + 2 * count)
        scratch = np.empty(max(1, len(key)), np.int64)
        done = 0
        while True:
            done = MACHINE.stage_upsert(
                self.storage.tables, self.storage.indexes, self.number, index.number,
                codes.ctypes.data, scratch.ctypes.data, done, count,
            )  # fmt: skip
            if done == count:
                return
            self.grow()

    def retract_all(self, *, as_view: bool) -> None:
        """Remove every row from the new state: as over-deleted (a view that is recomputed) or as touched (a base)."""
        field, bit = (L.T_DEL, L.DEL) if as_view else (L.T_RED, L.TOUCHED)
        MACHINE.expect(self.size)
        self.reserve_list(field, self.word(field + 1) + self.size)
        MACHINE.retract(self.storage.tables, self.number, field, bit)

    def begin_load(self) -> None:
        """Prepare for a load: an empty table need not list insertions, another lists all rows as deleted."""
        if self.size == 0 and not self.word(L.T_BEST):
            self.spread()
            for field in (L.T_USED, L.T_NFREE, L.T_INS, L.T_CAPINS):
                self.set(field, 0)
            self.set(L.T_PLAIN, 1)
            self._set_room()
        else:
            self.retract_all(as_view=True)

    def end_load(self) -> None:
        self.set(L.T_PLAIN, 0)
        if self.word(L.T_NINS) == 0:
            self._set_room()  # without insertions, nothing will be accepted
        self.finalize()

    def take_loaded(self) -> Codes:
        """Take the rows out of a table that is being loaded, as a copy."""
        rows = self.all_rows().copy()
        self._forget_loaded()
        return rows

    def _forget_loaded(self) -> None:
        self._slots.clear()
        for index in self.indexes.values():
            index.clear()
        for field in (L.T_USED, L.T_LIVE, L.T_NINS):
            self.set(field, 0)
        self._set_room()

    def reserve_plain(self, rows: int) -> None:
        """Reserve room for `rows` rows in total, to be written from `rows_address` on before `fill` enters them."""
        if rows > self.capacity:
            self._reserve_rows(max(rows, self.capacity * 3 // 2))

    @property
    def rows_address(self) -> int:
        return self._rows.address

    def fill(self, count: int) -> None:
        """Enter the first `count` rows, which are distinct, into an empty table that is being loaded. Room reserved for
        further rows is released."""
        self._trim_rows(count + count // _SLACK)
        self._grow_slots_for(count)
        with uninterrupted():
            self._flags.view(np.uint8, count)[:] = L.NEW
            self._fill_slots(count)
            for field in (L.T_USED, L.T_LIVE, L.T_NINS):
                self.set(field, count)
        try:
            for index in self.indexes.values():
                self._link_all(index)
        except BaseException:
            self._forget_loaded()  # rows missing in an index could not be removed from it
            raise
        self._set_room()

    def _grow_slots_for(self, count: int) -> None:
        slots = count * 3 // 2 + 1
        if slots > self.word(L.T_NSLOTS):
            self._grow_slots(slots)

    def _fill_slots(self, count: int) -> None:
        """Enter the first `count` rows, which are distinct, into empty slots."""
        pieces = [(first, min(first + _PIECE, count)) for first in range(0, count, _PIECE)]

        def enter(piece: tuple[int, int]) -> None:
            MACHINE.fill_slots(self.storage.tables, self.number, *piece)

        if MACHINE.is_compiled and len(pieces) > 1 and WORKERS > 1:
            side_by_side(enter, pieces)
        else:
            for piece in pieces:
                enter(piece)

    def settle(self) -> None:
        """Compute the net lists from the touched rows."""
        words, first = self.storage.words, self._first
        touched = words[first + L.T_NRED]
        if touched == 0:
            return
        MACHINE.expect(4 * touched)
        for field, length in ((L.T_DEL, L.T_NDEL), (L.T_INS, L.T_NINS)):
            self.reserve_list(field, words[first + length] + touched)
        MACHINE.settle(self.storage.tables, self.storage.indexes, self.number)

    def unsettle(self) -> None:
        """Turn the net lists back into touched rows, so that more rows can be staged."""
        self.bits()[self.places(L.T_RED)] |= np.uint8(L.TOUCHED)
        self.set(L.T_NDEL, 0)
        self.set(L.T_NINS, 0)
        self._set_room()

    def finalize(self) -> None:
        words, first = self.storage.words, self._first
        MACHINE.expect(2 * (words[first + L.T_NDEL] + words[first + L.T_NINS]))
        MACHINE.finalize(self.storage.tables, self.storage.indexes, self.number)
        if words[first + L.T_BEST]:
            self._set_room()

    def keep_best(self, lattice: Lattice, order: TextOrder | None) -> None:
        """Keep only the best row of each group; `order` ranks codes that do not have the order of their values."""
        self.spread()
        self._order = order
        self.set(L.T_GROUP, self.index_on(lattice.group(self.arity)).number)
        self.set(L.T_VALUE, lattice.column)
        self.set(L.T_ORDER, 0 if order is None else order.address)
        self.set(L.T_BEST, L.LEAST if lattice.function == "min" else L.GREATEST)

    def expect_accept(self) -> None:
        """Load the machine code for a large `accept`, which may fail, before the first table changes."""
        words, first = self.storage.words, self._first
        MACHINE.expect(4 * (words[first + L.T_NDEL] + words[first + L.T_NINS]))

    def accept(self) -> None:
        deleted, lists = self.word(L.T_NDEL), self._lists
        MACHINE.accept(self.storage.tables, self.storage.indexes, self.number)
        if lists[L.T_RED].size > _LONG_LIST:
            self._release_list(L.T_RED)
        if deleted == 0 and lists[L.T_DEL].size > _LONG_LIST:
            self._release_list(L.T_DEL)
        self._set_room()

    def _release_list(self, field: int) -> None:
        """Release the memory of a list that is no longer read."""
        self._lists[field].release()
        self.set(field, 0)
        self.set(field + 2, 0)

    def rollback(self) -> None:
        self.set(L.T_PLAIN, 0)
        changed = self.word(L.T_NDEL) + self.word(L.T_NRED) + self.word(L.T_NINS)
        MACHINE.expect(4 * changed)
        MACHINE.rollback(self.storage.tables, self.storage.indexes, self.number)
        self._set_room()

    @property
    def is_mostly_free(self) -> bool:
        """Test whether many row numbers are free, and more than half of all."""
        return self.word(L.T_NFREE) > max(_LONG_LIST, self.word(L.T_USED) // 2)

    def give_back(self) -> None:
        """Release the room after the last row in use. Freed rows can no longer be read by number."""
        MACHINE.drop_last_rows(self.storage.tables, self.number)
        self._trim_rows(max(self.word(L.T_USED) * 3 // 2, _LONG_LIST))
        self._set_room()

    def wipe(self) -> None:
        """Remove every row of a table that was empty before the transaction."""
        if self.word(L.T_NINS) * _SPARSE < self.word(L.T_NSLOTS):
            self.rollback()
            return
        self._slots.clear()
        for index in self.indexes.values():
            index.clear()
        for field in (L.T_USED, L.T_LIVE, L.T_NFREE, L.T_NINS, L.T_NDEL, L.T_NRED):
            self.set(field, 0)
        self._set_room()

    def add_shared(self, added: int, holes: Sequence[tuple[int, int]]) -> None:
        """After a parallel insertion, close the holes in the row numbers and count the rows."""
        for first, end in sorted(holes, reverse=True):
            MACHINE.close_holes(self.storage.tables, self.number, first, end)
        self.set(L.T_LIVE, self.size + added)
        self.set(L.T_NINS, self.word(L.T_NINS) + added)
        self._set_room()

    # ---- scratch: a table as a plain buffer of rows --------------------------------------------------------

    def grow_scratch(self) -> None:
        self._reserve_rows(max(1024, self.capacity * 2))
        self.set(L.T_ROOM, self.capacity - self.word(L.T_USED))

    def empty_scratch(self) -> None:
        """Drop the rows that a failed run has left."""
        self.set(L.T_USED, 0)
        self.set(L.T_ROOM, self.capacity)

    def take_scratch(self) -> Codes:
        """Take the rows out of the buffer, as a copy."""
        rows = self.all_rows().copy()
        self.empty_scratch()
        return rows

    def fill_scratch(self, rows: Codes) -> None:
        if len(rows) > self.capacity:
            self._reserve_rows(max(1024, len(rows)))
        self.set(L.T_USED, len(rows))
        self.all_rows()[:] = rows

    # ---- reading -------------------------------------------------------------------------------------------

    def listed(self, field: int, count: int | None = None) -> Codes:
        """The rows of a list, as a copy; with `count`, of a list that was accepted and not overwritten since."""
        count = self.word(field + 1) if count is None else count
        if count == 0:
            return np.empty((0, self.arity), np.int64)
        if self.word(field) == 0 and self.cells is not None:
            return self.cells.rows(0xFF)
        if self.word(field) == 0:
            return self.all_rows()[:count].copy()
        return self.rows_at(self._lists[field].view(np.int32, count))

    def places(self, field: int) -> NDArray[np.int32]:
        """The row numbers in a list, as a copy."""
        count = self.word(field + 1)
        if self.word(field) == 0 and self.cells is not None and count:
            return self.cells.used(0xFF)
        if self.word(field) == 0:
            return np.arange(count, dtype=np.int32)
        return self._lists[field].view(np.int32, count).copy()

    def set_places(self, field: int, places: NDArray[np.int32]) -> None:
        """Set the row numbers of a list."""
        if len(places):
            self.reserve_list(field, len(places))
            self._lists[field].view(np.int32, len(places))[:] = places
        self.set(field + 1, len(places))

    def rows_at(self, places: NDArray[np.int32]) -> Codes:
        """The rows with these numbers, as a copy."""
        if self.cells is not None:
            return self.cells.decode(places, np.empty((len(places), self.arity), np.int64))
        rows: Codes = self.all_rows()[places]
        return rows

    def codes_in(self, column: int) -> Codes:
        """The codes of the rows in a column, with repetitions."""
        if self.cells is not None:
            return self.cells.codes_in(column)
        codes: Codes = self.all_rows()[:, column][self.bits() != 0]
        return codes

    def all_rows(self) -> Codes:
        """All rows, in use or freed, over the table's own memory; not for a dense table."""
        assert self.cells is None, "a dense table has no rows in memory"
        used = self.word(L.T_USED)
        return self._rows.view(np.int64, used * self.arity).reshape(used, self.arity)

    def bits(self) -> NDArray[np.uint8]:
        return self.cells.bits() if self.cells is not None else self._flags.view(np.uint8, self.word(L.T_USED))

    def in_state(self, mask: int) -> Codes:
        """The rows of a state, as a copy."""
        if self.cells is not None:
            return self.cells.rows(mask)
        bits = self.bits()
        if len(bits) == self.size and bool(np.all(bits & mask)):
            return self.all_rows().copy()
        selected: Codes = self.all_rows()[(bits & mask) != 0]
        return selected

    def matching(self, columns: tuple[int, ...], key: Codes, mask: int = L.NEW) -> Codes:
        """The rows of a state that have these values in these columns."""
        index = self.index_on(columns[: L.MAX_INDEX_COLUMNS])
        room = 64
        while True:
            found = np.empty(room, np.int32)
            count = MACHINE.matching(
                self.storage.tables, self.storage.indexes, self.number, index.number,
                key.ctypes.data, mask, found.ctypes.data, room,
            )  # fmt: skip
            if count <= room:
                rows = self.rows_at(found[:count])
                return rows[np.all(rows[:, list(columns)] == key, axis=1)]
            room = count

    def row_numbers(self, codes: Codes, mask: int) -> NDArray[np.int32]:
        """For each row its number if it is in the state, else -1."""
        codes = np.ascontiguousarray(codes)
        found = np.empty(len(codes), np.int32)
        MACHINE.expect(10 * len(codes))
        MACHINE.find_rows(self.storage.tables, self.number, codes.ctypes.data, len(codes), found.ctypes.data, mask)
        return found

    def memory(self) -> int:
        """Bytes reserved, indexes included."""
        chains = [b for i in self.indexes.values() for b in (i.slots, i.following, i.previous)]
        return sum(buffer.size for buffer in (*self._own_buffers(), *chains)) + (self.cells.memory if self.cells else 0)

    def release(self) -> None:
        self.weigh(0)
        for buffer in self._own_buffers():
            buffer.release()
        if self.cells is not None:
            self.cells.release()

    def _own_buffers(self) -> tuple[Buffer, ...]:
        return (self._rows, self._flags, self._slots, self._count, self._gain, self._free, *self._lists.values())


def _doubled(size: int) -> int:
    """The next power of two, so that a growing buffer is rarely copied."""
    return 1 << max(10, (size - 1).bit_length())


def difference(rows: Codes, others: Codes) -> tuple[Codes, Codes]:
    """The rows without the others, and the others without the rows."""
    if not len(rows) or not len(others):
        return rows, others
    mine, theirs = ([tuple(row) for row in codes.tolist()] for codes in (rows, others))
    have, had = set(mine), set(theirs)
    return rows[[row not in had for row in mine]], others[[row not in have for row in theirs]]
