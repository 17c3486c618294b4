"""Rows that would share a key once the open change is made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from upshot.engine.local.kernel.layout import T_NINS
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.storage.storage import Table

Codes = NDArray[np.int64]


def key_conflicts(table: Table, key: tuple[int, ...], most: int) -> list[tuple[Codes, Codes]]:
    """Pairs of rows in the new state that agree on the key, at least one of them inserted; at most so many."""
    table.spread()
    index = table.index_on(key)
    MACHINE.expect(10 * table.word(T_NINS))
    found = np.empty(2 * most, np.int32)
    storage = table.storage
    count = MACHINE.key_conflicts(storage.tables, storage.indexes, table.number, index.number, found.ctypes.data, most)
    rows = table.all_rows()
    return [(rows[found[2 * i]].copy(), rows[found[2 * i + 1]].copy()) for i in range(count)]
