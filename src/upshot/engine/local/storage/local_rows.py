"""Rows of codes, decoded when they are read. For a page, other rows are not decoded, except for text in sort
columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest, nsmallest
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from upshot.core.errors import UsageError
from upshot.core.row_order import RowOrder
from upshot.core.rows import Row, Rows, for_spark
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.engine.local.storage.codec import Codec, Misfit, text_of_wide
from upshot.engine.local.storage.out_of_memory import out_of_memory

if TYPE_CHECKING:
    import pyarrow


_Codes = NDArray[np.int64]
_Places = NDArray[np.int64]


def page_places(codec: Codec, schema: Schema, codes: _Codes, order: RowOrder, after: Row | None, limit: int) -> _Places:
    """The places of the first `limit` rows after the row `after`; the places are not sorted."""
    columns = [
        _PageColumn(codec, schema.types[place], codes[:, place], descends, None if after is None else (after[place],))
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
    found, remaining = list[_Places](), limit
    for number, further in reversed(groups):
        if remaining > 0:
            found.append(_first(columns[number:], further, remaining))
            remaining -= len(found[-1])
    return np.concatenate(found) if found else everything[:0]


def _first(columns: list[_PageColumn], places: _Places, limit: int) -> _Places:
    """The first `limit` of these rows; later columns are compared only for rows that tie at the limit."""
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


class _PageColumn:
    """A sort column: its codes, and the value after which a page starts."""

    def __init__(self, codec: Codec, type: Type, codes: _Codes, descends: bool, after: tuple[Any] | None) -> None:
        self._type, self._codes, self._descends = type, codes, descends
        self._texts = codec.dictionary.values if type.in_dictionary else None
        self._null = 0 if self._texts is None else len(self._texts)
        """The slot of NULL, after those of the texts, which are their codes."""
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
        """Integers in the order of the values, for the places whose value is among the first `limit` ones."""
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
        """The rows whose value comes after the start, and those with the start value."""
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
        """Codes in the order of the values: NULL comes first, and the order is reversed for a descending column."""
        if self._type.kind is Kind.UNSIGNED and self._type.nullable:
            codes = codes + np.int64(1)  # The code of NULL is the largest integer, and wraps to the smallest.
        return ~codes if self._descends else codes


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("wrong-type", f"{value!r} is not text")
    return value


Codes = NDArray[np.int64]

_FEW = 256
"""The number of tracked sources before unused ones are dropped; later, twice the number in use."""


class CodedRows:
    """A row source over codes; while it is referenced, the text of its codes is not reclaimed.

    `fetch` copies the codes from the engine's memory. It is called at the first read, or before the next change begins:
    the rows of most commits are never read, and a copy of a large change would double its memory.
    """

    __slots__ = ("__weakref__", "_codec", "_codes", "_count", "_fetch", "_location", "_lock", "schema")

    def __init__(
        self, codec: Codec, schema: Schema, count: int, fetch: Callable[[], Codes], lock: Lock, location: str | None
    ) -> None:
        self._codec, self.schema, self._count, self._fetch, self._lock = codec, schema, count, fetch, lock
        self._location = location
        self._codes: Codes | None = None

    @property
    def codes(self) -> Codes:
        with self._lock:
            return self.fetched()

    def codes_of(self, codec: object) -> Codes | None:
        """The codes, if this codec encoded them."""
        return self.codes if codec is self._codec else None

    def has_codes_of(self, other: object) -> bool | None:
        """Test whether another source of the same codec has the same rows, in any order."""
        if not isinstance(other, CodedRows) or other._codec is not self._codec:
            return None
        own, others = self.codes, other.codes
        if np.array_equal(own, others) or not self.schema.arity:
            return len(own) == len(others)
        return np.array_equal(own[np.lexsort(own.T)], others[np.lexsort(others.T)])

    def fetched(self) -> Codes:
        """The codes; the caller holds the lock."""
        if self._codes is None:
            self._codes = self._fetch()
            self._fetch = _fetched
        return self._codes

    def lose(self) -> None:
        """Mark the rows as lost, since there was no memory for a copy: reading them raises an error."""
        self._fetch = _lost

    @property
    def is_lost(self) -> bool:
        """Test whether the rows can no longer be read."""
        return self._fetch is _lost

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        return self.decoded(self.codes)

    def part(self, first: int, last: int) -> _CodedPart:
        return _CodedPart(self, self.codes[first:last])

    def page(self, order: RowOrder, after: Row | None, limit: int) -> list[Row]:
        """The first rows after a row, selected by their codes; only they are decoded."""
        places = page_places(self._codec, self.schema, self.codes, order, after, limit)
        return order.sorted(self.decoded(self.codes[places]))

    def arrow(self) -> pyarrow.Table:
        return self.decoded_table(self.codes)

    def decoded(self, codes: Codes) -> list[Row]:
        """The rows of some of its codes."""
        if self.schema.arity == 0:
            return [()] * len(codes)
        columns = (self._codec.decode(codes[:, i], c.type) for i, c in enumerate(self.schema.columns))
        return list(zip(*columns, strict=True))

    def decoded_table(self, codes: Codes) -> pyarrow.Table:
        """The rows of some of its codes, as an Arrow table."""
        from upshot.engine.local.storage.arrow_codec import decode_table  # noqa: PLC0415 - pyarrow only when asked for

        return decode_table(self._codec, self.schema, codes)

    def lent(self, session: Any) -> Any:
        """The rows as a DataFrame of a Spark session."""
        from upshot.spark.lent_rows import lent_frame  # noqa: PLC0415 - pyarrow only when asked for

        return lent_frame(session, for_spark(self.arrow()), self._location)


class _CodedPart:
    """Some rows of a source, with a reference to it."""

    __slots__ = ("_codes", "_whole")

    def __init__(self, whole: CodedRows, codes: Codes) -> None:
        self._whole, self._codes = whole, codes

    def __len__(self) -> int:
        return len(self._codes)

    def tuples(self) -> list[Row]:
        return self._whole.decoded(self._codes)

    def arrow(self) -> pyarrow.Table:
        return self._whole.decoded_table(self._codes)


def _fetched() -> Codes:
    raise AssertionError("the codes were fetched before")


def _lost() -> Codes:
    raise out_of_memory("the rows of a transaction that was rolled back")


class RowsFactory:
    """Creates row objects for users and tracks those that are still referenced."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.location: str | None = None
        """The location for the files of DataFrames; None: chosen by their session."""
        self._lock = Lock()
        self._made: list[ref[CodedRows]] = []
        self._most = _FEW
        self._unfetched: list[ref[CodedRows]] = []

    @property
    def alive(self) -> Iterator[CodedRows]:
        """The sources that are still referenced and can be read."""
        made = self._made
        return (source for each in made if (source := each()) is not None and not source.is_lost)

    def rows(self, schema: Schema, codes: Codes) -> Rows:
        source, _ = self._source(schema, len(codes), lambda: codes)
        source.fetched()
        return Rows(schema, source)

    def lazy_rows(self, schema: Schema, count: int, fetch: Callable[[], Codes]) -> Rows:
        if not count:
            return Rows.of(schema, [])
        source, reference = self._source(schema, count, fetch)
        self._unfetched.append(reference)
        return Rows(schema, source)

    def _source(self, schema: Schema, count: int, fetch: Callable[[], Codes]) -> tuple[CodedRows, ref[CodedRows]]:
        source = CodedRows(self._codec, schema, count, fetch, self._lock, self.location)
        reference = ref(source)
        with self._lock:
            self._made.append(reference)
            if len(self._made) > self._most:
                self._made = [each for each in self._made if each() is not None]
                self._most = max(_FEW, 2 * len(self._made))
        return source, reference

    def fetch_all(self, *, must_go_on: bool = False) -> None:
        """Copy rows that are only in the engine's memory, before it changes. If the change `must_go_on`, rows without
        memory for a copy raise `out-of-memory` when they are read."""
        with self._lock:
            for each in self._unfetched:
                source = each()
                if source is None:
                    continue
                try:
                    source.fetched()
                except MemoryError:
                    if not must_go_on:
                        raise
                    source.lose()
            self._unfetched = []
