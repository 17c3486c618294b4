"""Convert Arrow tables to codes and back, column by column. Importing this module imports pyarrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from upshot.core.arrow_schema import arrow_decimals, arrow_table, arrow_type
from upshot.core.schema import Column, Schema
from upshot.core.types import TEXTUAL, Kind, Type
from upshot.engine.local.storage.codec import DAYS, MICROSECONDS, Codec, Misfit, decode_floats, encode_floats, null_code

Codes = NDArray[np.int64]


def encode_table(codec: Codec, schema: Schema, table: pa.Table) -> Codes:
    """The table's columns, in order, as rows of codes; `Misfit` names the column."""
    codes = np.empty((table.num_rows, schema.arity), np.int64)
    for position, column in enumerate(schema.columns):
        codes[:, position] = _encode(codec, column, table.column(position))
    return codes


def _encode(codec: Codec, column: Column, values: pa.ChunkedArray) -> Codes:
    type = column.type
    missing: NDArray[np.bool_] | None = None
    if values.null_count:
        if not type.nullable:
            row = pc.index(pc.is_null(values), True).as_py()
            raise Misfit(
                "null-in-required-column", f"column `{column.name}`, row {row + 1}: NULL in a column of type `{type}`"
            )
        missing = np.asarray(pc.is_null(values))
    codes = _encode_values(codec, column, values)
    if type.nullable and type.kind in (Kind.NUMBER, Kind.UNSIGNED):
        reserved = codes == null_code(type)
        if missing is not None:
            reserved &= ~missing
        if reserved.any():
            raise Misfit(
                "reserved-value", f"column `{column.name}` has the one value that a nullable `{type}` cannot store"
            )
    if missing is not None:
        codes[missing] = null_code(type)
    return codes


def _encode_values(codec: Codec, column: Column, values: pa.ChunkedArray) -> Codes:
    type = column.type
    if type.kind in TEXTUAL:
        return _encode_text(codec, column, values)
    if type.kind is Kind.DECIMAL and pa.types.is_integer(values.type):
        return _encode_decimals(codec, column, values)
    cast = _cast(column, values)
    match type.kind:
        case Kind.FLOAT:
            return encode_floats(_numpy(_filled(cast, 0.0)).astype(np.float64))
        case Kind.UNSIGNED:
            shifted = _numpy(_filled(cast, 0)) ^ np.uint64(1 << 63)
            return np.asarray(shifted).view(np.int64)
        case Kind.BOOLEAN:
            return _numpy(_filled(cast.cast(pa.uint8()), 0)).astype(np.int64)
        case Kind.DATE:
            return _in_range(column, _numpy(_filled(cast.cast(pa.int32()), 0)).astype(np.int64), DAYS)
        case Kind.TIMESTAMP:
            return _in_range(column, _numpy(_filled(cast.cast(pa.int64()), 0)).astype(np.int64), MICROSECONDS)
        case Kind.DECIMAL:
            return _encode_decimals(codec, column, cast)
        case _:
            return _numpy(_filled(cast, 0)).astype(np.int64)


def _encode_decimals(codec: Codec, column: Column, values: pa.ChunkedArray) -> Codes:
    encode = codec.encoder(column.type.required())
    try:
        return np.array([0 if v is None else encode(v) for v in values.to_pylist()], np.int64)
    except Misfit as misfit:
        raise Misfit(misfit.slug, f"column `{column.name}`: {misfit}") from None


def _in_range(column: Column, codes: Codes, bounds: tuple[int, int]) -> Codes:
    """The codes; raises `Misfit` for a date or time that Python cannot represent (years 1 to 9999)."""
    if len(codes) and (codes.min() < bounds[0] or codes.max() > bounds[1]):
        raise Misfit("number-out-of-range", f"column `{column.name}` has a time outside the years 1 to 9999")
    return codes


_ACCEPTS = {
    Kind.NUMBER: pa.types.is_integer,
    Kind.UNSIGNED: pa.types.is_integer,
    Kind.FLOAT: lambda t: pa.types.is_floating(t) or pa.types.is_integer(t),
    Kind.BOOLEAN: pa.types.is_boolean,
    Kind.DATE: pa.types.is_date,
    Kind.TIMESTAMP: lambda t: pa.types.is_timestamp(t) and t.tz is not None,
    Kind.DECIMAL: lambda t: pa.types.is_decimal(t) or pa.types.is_integer(t),
}


def _cast(column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    type = column.type
    if not pa.types.is_null(values.type) and not _ACCEPTS[type.kind](values.type):
        raise Misfit("wrong-type", f"column `{column.name}` has Arrow type `{values.type}`, expected `{type}`")
    try:
        return values.cast(arrow_type(type))
    except pa.ArrowInvalid as error:
        raise Misfit("number-out-of-range", f"column `{column.name}` does not fit `{type}`: {error}") from None


def _encode_text(codec: Codec, column: Column, values: pa.ChunkedArray) -> Codes:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    ):
        raise Misfit("wrong-type", f"column `{column.name}` has Arrow type `{values.type}`, expected `{column.type}`")
    if pa.types.is_null(kind) or len(values) == 0:
        return np.zeros(len(values), np.int64)
    combined = values.combine_chunks()
    if not isinstance(combined, pa.DictionaryArray):
        combined = combined.dictionary_encode()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.unify_dictionaries().combine_chunks()
    try:
        texts = combined.dictionary.to_pylist()
    except UnicodeDecodeError:
        raise Misfit("wrong-type", f"column `{column.name}` has bytes that are not UTF-8 text") from None
    if None in texts and not column.type.nullable:
        raise Misfit("null-in-required-column", f"column `{column.name}`: NULL in a column of type `{column.type}`")
    try:
        # If all values are NULL there is no text, and all indices are 0.
        table = codec.text_codes(texts, column.type) if texts else np.zeros(1, np.int64)
    except Misfit as misfit:
        raise Misfit(misfit.slug, f"column `{column.name}`: {misfit}") from None
    places = _numpy(_filled(combined.indices, 0)).astype(np.int64)
    return table[places]


_DTYPES = {
    pa.int64(): np.int64, pa.uint64(): np.uint64, pa.int32(): np.int32, pa.uint8(): np.uint8, pa.float64(): np.float64,
}  # fmt: skip


def _filled(values: pa.ChunkedArray | pa.Array, value: float) -> pa.ChunkedArray | pa.Array:
    """The values with NULL replaced."""
    return pc.fill_null(values, value) if values.null_count else values


def _numpy(values: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """The values, none of which is NULL. Arrow's own conversion would import pandas, which takes half a second."""
    dtype = _DTYPES.get(values.type)
    if dtype is None:
        return np.asarray(values)
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    width = np.dtype(dtype).itemsize
    parts = [np.frombuffer(each.buffers()[1], dtype, len(each), each.offset * width) for each in chunks if len(each)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


def decode_table(codec: Codec, schema: Schema, codes: Codes) -> pa.Table:
    """Rows of codes as an Arrow table of the schema."""
    return arrow_table(schema, [_decode(codec, c.type, codes[:, i]) for i, c in enumerate(schema.columns)])


def _decode(codec: Codec, type: Type, codes: Codes) -> pa.Array:
    missing = (codes == null_code(type)) if type.nullable else None
    match type.kind:
        case Kind.NUMBER:
            return pa.array(codes, pa.int64(), mask=missing)
        case Kind.UNSIGNED:
            return pa.array(codes.view(np.uint64) ^ np.uint64(1 << 63), pa.uint64(), mask=missing)
        case Kind.FLOAT:
            return pa.array(decode_floats(codes), pa.float64(), mask=missing)
        case Kind.BOOLEAN:
            return pa.array(codes != 0, pa.bool_(), mask=missing)
        case Kind.DATE:
            return pa.array(codes.astype(np.int32), pa.int32(), mask=missing).cast(pa.date32())
        case Kind.TIMESTAMP:
            return pa.array(codes, pa.int64(), mask=missing).cast(pa.timestamp("us", tz="UTC"))
        case Kind.SYMBOL | Kind.RECORD:
            return _decode_text(codec, codes, missing)
        case Kind.DECIMAL:
            return arrow_decimals(codec.decode(codes, type), type)


def _decode_text(codec: Codec, codes: Codes, missing: NDArray[np.bool_] | None) -> pa.Array:
    safe = codes if missing is None else np.where(missing, 0, codes)
    distinct, places = np.unique(safe, return_inverse=True)
    values = codec.dictionary.values
    texts = pa.array([values[c] if c < len(values) else "" for c in distinct.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32), mask=missing), texts).cast(pa.string())
