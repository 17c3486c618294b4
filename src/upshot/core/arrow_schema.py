"""The Arrow types of column types. Importing this module imports pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from upshot.core.schema import Schema
from upshot.core.types import Kind, Type


def arrow_type(type: Type) -> pa.DataType:
    match type.kind:
        case Kind.NUMBER:
            return pa.int64()
        case Kind.UNSIGNED:
            return pa.uint64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.SYMBOL | Kind.RECORD:
            return pa.string()
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        case Kind.DECIMAL:
            return pa.decimal128(max(type.precision, 1), type.scale)


def arrow_decimals(values: Sequence[Decimal | None], type: Type) -> pa.Array:
    """Decimals in the type of their column, or in the widest type if one of them has more digits, as rows stored by an
    earlier version may have."""
    try:
        return pa.array(values, arrow_type(type))
    except pa.ArrowInvalid:
        return pa.array(values, arrow_type(type.widest()))


def arrow_cast(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    """The column in the Arrow type of its type; decimals as in `arrow_decimals`."""
    try:
        return column.cast(arrow_type(type))
    except pa.ArrowInvalid:
        if type.kind is not Kind.DECIMAL:
            raise
        return column.cast(arrow_type(type.widest()))


def arrow_table(schema: Schema, columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Table:
    """The columns as a table of the schema; decimals that are wider than it keep their type."""
    fields = [
        field if array.type == field.type else field.with_type(array.type)
        for field, array in zip(arrow_schema(schema), columns, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.type.nullable) for c in schema.columns])
