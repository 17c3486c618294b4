"""Raw memory: growable buffers, and the loads and stores of the kernel.

The kernel knows a buffer only by its address, so that one kernel signature fits every database. The access functions
below are plain Python over ctypes; `compiled.py` compiles the same functions to machine code.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from upshot.engine.limits import BudgetExceeded

Item = TypeVar("Item", bound=np.generic)

_SMALL = 1 << 18
"""Smaller buffers are NumPy arrays; larger ones are pages that the operating system can move without copying."""

_HUGE = 4 << 20
_MOVABLE = sys.platform.startswith("linux")


class Account:
    """The number of bytes in use, and a limit. An allocation beyond the limit is refused before it is made."""

    __slots__ = ("limit", "used")

    def __init__(self) -> None:
        self.limit: int | None = None
        self.used = 0

    def check(self, more: int) -> None:
        """Raise `BudgetExceeded` if `more` bytes would exceed the limit."""
        if self.limit is not None and self.used + more > self.limit:
            raise BudgetExceeded(self.used + more, self.limit)


class Buffer:
    """Zeroed memory of at least the reserved size. Growing keeps the contents but may change `address`."""

    __slots__ = ("_account", "_array", "_pages", "address", "size")

    def __init__(self, size: int = 0, account: Account | None = None) -> None:
        self._account = account or Account()
        self._array: NDArray[np.uint8] | None = None
        self._pages: mmap.mmap | None = None
        self.address = 0
        self.size = 0
        if size:
            self.reserve(size)

    def reserve(self, size: int) -> None:
        """Grow to at least `size` bytes; new bytes are zero."""
        if size <= self.size:
            return
        before = self.size
        self._account.check(size - before)
        try:
            self._grow(size)
        except OSError as error:
            raise MemoryError(f"{size} bytes cannot be had") from error
        self._account.used += self.size - before

    def shrink(self, size: int) -> None:
        """Release the memory beyond `size` bytes, if the buffer consists of pages."""
        size = _whole_pages(max(size, _SMALL))
        if self._pages is None or not _MOVABLE or size >= self.size:
            return
        self._account.used -= self.size - size
        self._pages.resize(size)
        self._settle(self._pages, size)

    def successor(self, size: int) -> Buffer:
        """A buffer that will replace this one: only the difference is checked against the limit, since this one is
        released after its contents have been moved."""
        self._account.check(size - self.size)
        limit, self._account.limit = self._account.limit, None
        try:
            return Buffer(size, self._account)
        finally:
            self._account.limit = limit

    def _grow(self, size: int) -> None:
        if size < _SMALL:
            self._grow_array(size)
        elif self._pages is not None and _MOVABLE:
            size = _whole_pages(size)
            self._pages.resize(size)
            self._settle(self._pages, size)
        else:
            self._grow_pages(_whole_pages(size))

    def view(self, dtype: type[Item], count: int) -> NDArray[Item]:
        """The first `count` items as an array over the same memory; invalid after `reserve`."""
        if count == 0:
            return np.empty(0, dtype)
        memory = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(self.address)
        return np.frombuffer(memoryview(memory), dtype=dtype)

    def words(self) -> memoryview[int]:
        """The buffer as 64-bit numbers over the same memory, with fast access from Python; invalid after `reserve`."""
        return memoryview((ctypes.c_int64 * (self.size // 8)).from_address(self.address)).cast("B").cast("q")

    def clear(self) -> None:
        ctypes.memset(self.address, 0, self.size)

    def forget(self, start: int, end: int) -> None:
        """Release the memory of a range whose contents are no longer needed."""
        if self._pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            first = _whole_pages(start)
            last = end // mmap.PAGESIZE * mmap.PAGESIZE
            if first < last:
                self._pages.madvise(mmap.MADV_DONTNEED, first, last - first)

    def release(self) -> None:
        """Release the memory now, not when the garbage collector runs."""
        if self._pages is not None:
            self._pages.close()
        self._account.used -= self.size
        self._array, self._pages, self.address, self.size = None, None, 0, 0

    def _grow_array(self, size: int) -> None:
        array = np.zeros(size, np.uint8)
        if self._array is not None:
            array[: self.size] = self._array
        self._array, self.address, self.size = array, array.ctypes.data, size

    def _grow_pages(self, size: int) -> None:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        old_address, old_size, old_pages = self.address, self.size, self._pages
        self._settle(pages, size)
        ctypes.memmove(self.address, old_address, old_size)
        if old_pages is not None:
            old_pages.close()
        self._array = None

    def _settle(self, pages: mmap.mmap, size: int) -> None:
        anchor = ctypes.c_char.from_buffer(pages)
        self.address = ctypes.addressof(anchor)
        del anchor
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without large pages
                pages.madvise(mmap.MADV_HUGEPAGE)
        self._pages, self.size = pages, size


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


# All memory as one array: indexing it creates no object for each access. Buffers and their items are aligned.
_WORDS = (ctypes.c_int64 * (1 << 59)).from_address(0)
_HALVES = (ctypes.c_int32 * (1 << 60)).from_address(0)
_BYTES = (ctypes.c_uint8 * (1 << 62)).from_address(0)


def load8(address: int, i: int) -> int:
    return _WORDS[(address >> 3) + i]


def store8(address: int, i: int, value: int) -> None:
    _WORDS[(address >> 3) + i] = value


def load4(address: int, i: int) -> int:
    return _HALVES[(address >> 2) + i]


def store4(address: int, i: int, value: int) -> None:
    _HALVES[(address >> 2) + i] = value


def load1(address: int, i: int) -> int:
    return _BYTES[address + i]


def store1(address: int, i: int, value: int) -> None:
    _BYTES[address + i] = value


def compare_swap(address: int, i: int, expected: int, value: int) -> int:
    """Atomically replace the 8-byte item if it has the expected value; return its value before."""
    found = load8(address, i)
    if found == expected:
        store8(address, i, value)
    return found


def fetch_add(address: int, i: int, value: int) -> int:
    """Atomically add to the 8-byte item; return its value before."""
    found = load8(address, i)
    store8(address, i, found + value)
    return found


def quotient(one: int, other: int) -> int:
    """The quotient of two numbers from 0 to 2**31 - 1, the second not 0."""
    return one // other


def prefetch(address: int, i: int) -> None:
    """Hint that the 8-byte item will be read soon; no effect unless compiled."""


_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FINAL = 0xD6E8FEB86659FD93


def mix(state: int, value: int) -> int:
    """The hash state after one more column; unsigned 64-bit arithmetic, with a signed result."""
    word = (((state ^ value) & _WORD) * _GOLDEN) & _WORD
    word ^= word >> 29
    return word - (1 << 64) if word >> 63 else word


def finish(state: int) -> int:
    """The 31-bit tag of a finished hash state."""
    return (((state & _WORD) * _FINAL) & _WORD) >> 33
