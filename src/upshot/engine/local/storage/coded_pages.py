"""Places of the first rows of an order, found on codes: of the rows outside of a page nothing is decoded but text."""

from __future__ import annotations

from heapq import nlargest, nsmallest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upshot.core.errors import UsageError
from upshot.core.row_order import RowOrder
from upshot.core.rows import Row
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.engine.local.storage.codec import Codec, Misfit, text_of_wide

_Codes = NDArray[np.int64]
_Places = NDArray[np.int64]


def page_places(codec: Codec, schema: Schema, codes: _Codes, order: RowOrder, after: Row | None, limit: int) -> _Places:
    """The places of the first `limit` rows after a row, in any order."""
    columns = [
        _Column(codec, schema.types[place], codes[:, place], descends, None if after is None else (after[place],))
        for place, descends in zip(order.places, order.descending, strict=True)
    ]
    everything = np.arange(len(codes))
    if after is None:
        return _first(columns, everything, limit)
    # Rows that share more columns with `after` come first.
    groups, equal = list[tuple[int, _Places]](), everything
    for number, column in enumerate(columns):
        further, equal = column.split(equal)
        groups.append((number, further))
        if not len(equal):
            break
    found, left = list[_Places](), limit
    for number, further in reversed(groups):
        if left > 0:
            found.append(_first(columns[number:], further, left))
            left -= len(found[-1])
    return np.concatenate(found) if found else everything[:0]


def _first(columns: list[_Column], places: _Places, limit: int) -> _Places:
    """The `limit` first of these rows; the later columns are looked at where the earlier ones tie at the limit."""
    chosen = list[_Places]()
    for column in columns:
        if len(places) <= limit or not limit:
            break
        keys, places = column.keys(places, limit)
        if len(places) <= limit:
            break
        last = np.partition(keys, limit - 1)[limit - 1]
        before = places[keys < last]
        chosen.append(before)
        places, limit = places[keys == last], limit - len(before)
    return np.concatenate([*chosen, places[:limit]])


class _Column:
    """A column to sort by: its codes, and the value that a page starts after."""

    def __init__(self, codec: Codec, type: Type, codes: _Codes, descends: bool, after: tuple[Any] | None) -> None:
        self._type, self._codes, self._descends = type, codes, descends
        self._texts = codec.dictionary.values if type.in_dictionary else None
        self._null = 0 if self._texts is None else len(self._texts)
        """The slot of NULL, behind those of the texts, which are their codes."""
        self._start = 0
        self._start_text: str | None = None
        if after is not None:
            try:
                if self._texts is None:
                    self._start = int(self._shifted(np.array([codec.encoder(type)(after[0])]))[0])
                elif after[0] is not None:
                    self._start_text = text_of_wide(after[0], type) if type.is_wide else _text(after[0])
            except Misfit as misfit:
                hint = "give a row of the same columns"
                raise UsageError(
                    f"the page starts after an invalid row: {misfit}", code="wrong-row", help=hint
                ) from None

    def keys(self, places: _Places, limit: int) -> tuple[_Codes, _Places]:
        """Integers in the order of the values, for those places whose value is among the first `limit` ones."""
        codes = self._codes[places]
        if self._texts is None:
            return self._shifted(codes), places
        slots = self._slots(codes)
        present = self._distinct(slots)
        nulls = [self._null] if present and present[-1] == self._null else []
        texts = present[: len(present) - len(nulls)]
        if len(texts) > limit:
            texts = (nlargest if self._descends else nsmallest)(limit, texts, key=self._texts.__getitem__)
        texts.sort(key=self._texts.__getitem__, reverse=self._descends)
        ranked = texts + nulls if self._descends else nulls + texts
        ranks = np.full(self._null + 1, -1)
        ranks[ranked] = np.arange(len(ranked))
        keys = ranks[slots]
        return keys[keys >= 0], places[keys >= 0]

    def split(self, places: _Places) -> tuple[_Places, _Places]:
        """The rows whose value comes after the start, and those that have it."""
        codes, start = self._codes[places], self._start_text
        if self._texts is None:
            keys = self._shifted(codes)
            return places[keys > self._start], places[keys == self._start]
        slots, texts = self._slots(codes), self._texts
        present = [slot for slot in self._distinct(slots) if slot != self._null]
        if start is None:
            further = [] if self._descends else present
            equal = [self._null]
        else:
            further = [slot for slot in present if (texts[slot] < start if self._descends else texts[slot] > start)]
            further += [self._null] * self._descends
            equal = [slot for slot in present if texts[slot] == start]
        return places[self._marked(further)[slots]], places[self._marked(equal)[slots]]

    def _slots(self, codes: _Codes) -> _Codes:
        return np.where(codes < 0, self._null, codes)

    def _distinct(self, slots: _Codes) -> list[int]:
        found: list[int] = np.flatnonzero(self._marked(slots)).tolist()
        return found

    def _marked(self, slots: _Codes | list[int]) -> NDArray[np.bool_]:
        marks = np.zeros(self._null + 1, dtype=np.bool_)
        marks[slots] = True
        return marks

    def _shifted(self, codes: _Codes) -> _Codes:
        """Codes in the order of the values: NULL below all, and all the other way round where the column descends."""
        if self._type.kind is Kind.UNSIGNED and self._type.nullable:
            codes = codes + np.int64(1)  # The code of NULL is the largest integer, and wraps to the smallest.
        return ~codes if self._descends else codes


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("wrong-type", f"{value!r} is not text")
    return value
