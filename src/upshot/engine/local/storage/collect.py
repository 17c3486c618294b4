"""Reclaim the codes of text that no relation and no referenced answer uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from upshot.core.schema import Schema
from upshot.engine.local.kernel.layout import T_LIVE
from upshot.engine.local.storage.codec import Dictionary
from upshot.engine.local.storage.local_rows import CodedRows
from upshot.engine.local.storage.storage import Storage, Table, places_of

_FEWEST = 4096


class TextColumns:
    """The text columns of a program; their rows are counted in one step, for any number of columns."""

    def __init__(self, storage: Storage, schemas: Mapping[str, Schema], tables: Mapping[str, Table]) -> None:
        self._storage = storage
        self.columns = [
            (tables[name], place)
            for name, schema in schemas.items()
            for place, column in enumerate(schema.columns)
            if column.type.in_dictionary
        ]
        self._sizes = places_of((table for table, _ in self.columns), T_LIVE)

    @property
    def rows(self) -> int:
        """The rows of all columns together."""
        return int(self._storage.words_at(self._sizes).sum())


def collect_garbage(
    dictionary: Dictionary, texts: TextColumns, constants: Iterable[int], alive: Iterable[CodedRows]
) -> int:
    """Sweep if the values added since the last sweep outnumber half of the other values and a share of all rows, so
    that the cost of a sweep, which reads every text column, is spread over as many additions. Return the number of
    removed values."""
    added = dictionary.added_since_sweep
    if added < max(_FEWEST, (len(dictionary) - added) // 2):
        return 0
    if added < texts.rows // 16:
        return 0
    used = np.zeros(len(dictionary.values), np.bool_)
    for table, column in texts.columns:
        codes = table.codes_in(column)
        used[codes[codes >= 0]] = True
    for code in constants:
        used[code] = True
    for rows in alive:
        for i, column_schema in enumerate(rows.schema.columns):
            if column_schema.type.in_dictionary:
                codes = rows.codes[:, i]
                used[codes[codes >= 0]] = True
    return dictionary.sweep(used)
