"""Rows of codes that are decoded when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from upshot.core.row_order import RowOrder
from upshot.core.rows import Row, Rows, for_spark
from upshot.core.schema import Schema
from upshot.engine.local.storage.codec import Codec
from upshot.engine.local.storage.coded_pages import page_places
from upshot.engine.local.storage.out_of_memory import out_of_memory

if TYPE_CHECKING:
    import pyarrow

Codes = NDArray[np.int64]

_FEW = 256
"""Rows that are remembered before those that nobody holds are forgotten; later, as many again as are held."""


class CodedRows:
    """A row source over codes; while it lives, the text its codes stand for is not reclaimed.

    `fetch` copies the codes out of the engine's memory. It is called when somebody looks, and at the latest before
    the next change begins: most commits are never looked at, and a copy of a large change would double its memory.
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
        """The codes, if they are of this codec."""
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
        """Let readers know that there was no memory for a copy."""
        self._fetch = _lost

    @property
    def is_lost(self) -> bool:
        """Test whether the rows cannot be read any more."""
        return self._fetch is _lost

    def __len__(self) -> int:
        return self._count

    def tuples(self) -> list[Row]:
        return self.decoded(self.codes)

    def part(self, first: int, last: int) -> _CodedPart:
        return _CodedPart(self, self.codes[first:last])

    def page(self, order: RowOrder, after: Row | None, limit: int) -> list[Row]:
        """The first rows after a row, chosen by their codes; only they are decoded."""
        places = page_places(self._codec, self.schema, self.codes, order, after, limit)
        return order.sorted(self.decoded(self.codes[places]))

    def arrow(self) -> pyarrow.Table:
        return self.decoded_table(self.codes)

    def decoded(self, codes: Codes) -> list[Row]:
        """The rows that some of its codes stand for."""
        if self.schema.arity == 0:
            return [()] * len(codes)
        columns = (self._codec.decode(codes[:, i], c.type) for i, c in enumerate(self.schema.columns))
        return list(zip(*columns, strict=True))

    def decoded_table(self, codes: Codes) -> pyarrow.Table:
        """As `decoded`, an Arrow table."""
        from upshot.engine.local.storage.arrow_codec import decode_table  # noqa: PLC0415 - pyarrow only when asked for

        return decode_table(self._codec, self.schema, codes)

    def lent(self, session: Any) -> Any:
        """The rows as a DataFrame of a Spark session."""
        from upshot.spark.lent_rows import lent_frame  # noqa: PLC0415 - pyarrow only when asked for

        return lent_frame(session, for_spark(self.arrow()), self._location)


class _CodedPart:
    """Some rows of a source, which lives on with them."""

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
    """Makes the rows handed out and remembers which are still alive."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.location: str | None = None
        """The location for files of DataFrames, if not that of their session."""
        self._lock = Lock()
        self._made: list[ref[CodedRows]] = []
        self._most = _FEW
        self._unfetched: list[ref[CodedRows]] = []

    @property
    def alive(self) -> Iterator[CodedRows]:
        """The sources that somebody still holds and can read."""
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
        """Copy out what is still in the engine's memory only, which is about to change. Where the change must go on,
        rows that find no memory raise `out-of-memory` when they are read."""
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
