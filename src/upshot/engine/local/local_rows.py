"""Rows of codes that are decoded when somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from upshot.core.rows import Row, Rows
from upshot.core.schema import Schema
from upshot.engine.local.codec import Codec

if TYPE_CHECKING:
    import pyarrow

Codes = NDArray[np.int64]


class CodedRows:
    """A row source over codes; while it lives, the text its codes stand for is not reclaimed."""

    __slots__ = ("__weakref__", "_codec", "_schema", "codes")

    def __init__(self, codec: Codec, schema: Schema, codes: Codes) -> None:
        self._codec, self._schema, self.codes = codec, schema, codes

    @property
    def schema(self) -> Schema:
        return self._schema

    def __len__(self) -> int:
        return len(self.codes)

    def tuples(self) -> list[Row]:
        if self._schema.arity == 0:
            return [()] * len(self.codes)
        columns = (self._codec.decode(self.codes[:, i], c.type) for i, c in enumerate(self._schema.columns))
        return list(zip(*columns, strict=True))

    def arrow(self) -> pyarrow.Table:
        from upshot.engine.local.arrow_codec import decode_table  # noqa: PLC0415 - pyarrow only when asked for

        return decode_table(self._codec, self._schema, self.codes)


class RowsFactory:
    """Makes the rows handed out and remembers which are still alive."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.alive: WeakSet[CodedRows] = WeakSet()

    def rows(self, schema: Schema, codes: Codes) -> Rows:
        source = CodedRows(self._codec, schema, codes)
        self.alive.add(source)
        return Rows(schema, source)
