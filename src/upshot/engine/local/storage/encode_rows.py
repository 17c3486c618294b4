"""Encode the rows of a caller; an invalid value is an error that names relation, row and column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from upshot.core.errors import DataError, counted
from upshot.core.schema import Schema
from upshot.core.types import Kind
from upshot.engine.local.storage.codec import Codec, Misfit

if TYPE_CHECKING:
    import pyarrow


def encode_rows(codec: Codec, schema: Schema, rows: Iterable[tuple[Any, ...]] | pyarrow.Table) -> NDArray[np.int64]:
    """The codes of the rows, in order."""
    if hasattr(rows, "schema") and hasattr(rows, "num_rows"):
        return _encode_arrow(codec, schema, rows)
    rows = rows if isinstance(rows, list) else list(rows)
    for number, row in enumerate(rows, start=1):
        if len(row) != schema.arity:
            raise DataError(
                f"row {number} for `{schema.name}` has {counted(len(row), 'value')}, "
                f"the relation has {counted(schema.arity, 'column')}",
                code="wrong-arity", span=schema.span, help=f"`{schema}`",
            )  # fmt: skip
    codes = np.empty((len(rows), schema.arity), np.int64)
    for position, column in enumerate(schema.columns):
        values = [row[position] for row in rows]
        if column.type.kind is Kind.NUMBER and not column.type.nullable and all(type(v) is int for v in values):
            try:
                codes[:, position] = values
                continue
            except OverflowError:
                pass  # the exact path below names the row
        encode = codec.encoder(column.type)
        for number, value in enumerate(values):
            try:
                codes[number, position] = encode(value)
            except Misfit as misfit:
                raise DataError(
                    f"row {number + 1} for `{schema.name}`, column `{column.name}`: {misfit}", code=misfit.slug,
                    span=schema.span, help=f"`{schema}`",
                ) from None  # fmt: skip
    return codes


def _encode_arrow(codec: Codec, schema: Schema, table: pyarrow.Table) -> NDArray[np.int64]:
    from upshot.engine.local.storage.arrow_codec import encode_table  # noqa: PLC0415 - pyarrow only for Arrow input

    if table.num_columns != schema.arity:
        raise DataError(
            f"a table for `{schema.name}` has {table.num_columns} columns, the relation has {schema.arity}",
            code="wrong-arity", span=schema.span, help=f"`{schema}`",
        )  # fmt: skip
    try:
        return encode_table(codec, schema, table)
    except Misfit as misfit:
        raise DataError(
            f"a table for `{schema.name}`: {misfit}", code=misfit.slug, span=schema.span, help=f"`{schema}`"
        ) from None
