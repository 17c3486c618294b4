"""The Arrow types that carry our types. Importing this module imports pyarrow."""

from __future__ import annotations

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
        case Kind.SYMBOL:
            return pa.string()
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us", tz="UTC")
        case Kind.DECIMAL:
            return pa.decimal128(max(type.precision, 1), type.scale)


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.type.nullable) for c in schema.columns])
