"""Rows as Python sets in which NaN equals NaN, as it does in relations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

Row = tuple[Any, ...]


def row_set(rows: Iterable[Row]) -> frozenset[Row]:
    """The distinct rows. Python compares by identity first, so one NaN object stands for all.

    >>> len(row_set([(float("nan"),), (float("nan"),)]))
    1
    """
    return frozenset(row if all(value == value for value in row) else _with_one_nan(row) for row in rows)


def _with_one_nan(row: Row) -> Row:
    return tuple(value if value == value else math.nan for value in row)
