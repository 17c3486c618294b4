"""Rows that would share a key after the open change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from upshot.engine.local.kernel.layout import T_NINS
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.storage.storage import Table

Codes = NDArray[np.int64]


def key_conflicts(table: Table, key: tuple[int, ...], most: int) -> list[tuple[Codes, Codes]]:
    """At most `most` pairs of rows of the new state with the same key, at least one of them inserted."""
    table.spread()
    index = table.index_on(key)
    MACHINE.expect(10 * table.word(T_NINS))
    found = np.empty(2 * most, np.int32)
    storage = table.storage
    count = MACHINE.key_conflicts(storage.tables, storage.indexes, table.number, index.number, found.ctypes.data, most)
    rows = table.all_rows()
    return [(rows[found[2 * i]].copy(), rows[found[2 * i + 1]].copy()) for i in range(count)]
