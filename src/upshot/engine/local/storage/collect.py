"""Reclaims the codes of text that no relation, and no answer still in somebody's hands, holds any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from upshot.core.schema import Schema
from upshot.engine.local.storage.codec import Dictionary
from upshot.engine.local.storage.local_rows import CodedRows
from upshot.engine.local.storage.storage import Table

_FEWEST = 4096


def collect_garbage(
    dictionary: Dictionary, schemas: Mapping[str, Schema], tables: Mapping[str, Table], constants: Iterable[int],
    alive: Iterable[CodedRows],
) -> int:  # fmt: skip
    """Sweep once the values added since the last sweep outnumber both the other values and a share of all rows, so that
    the cost of a sweep, which looks at every text column, is spread over as many additions; how many were forgotten."""
    added = dictionary.added_since_sweep
    if added < max(_FEWEST, (len(dictionary) - added) // 2):
        return 0
    places = [(name, i) for name, s in schemas.items() for i, c in enumerate(s.columns) if c.type.in_dictionary]
    if added < sum(tables[name].size for name, _ in places) // 16:
        return 0
    used = np.zeros(len(dictionary.values), np.bool_)
    for name, column in places:
        codes = tables[name].codes_in(column)
        used[codes[codes >= 0]] = True
    for code in constants:
        used[code] = True
    for rows in alive:
        for i, column_schema in enumerate(rows.schema.columns):
            if column_schema.type.in_dictionary:
                codes = rows.codes[:, i]
                used[codes[codes >= 0]] = True
    return dictionary.sweep(used)
