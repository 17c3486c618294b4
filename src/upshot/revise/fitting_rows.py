"""Which rows a relation can have at all: NULL only where it may be, numbers in the range of their type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from upshot.core.schema import Schema
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.revise.request import Row


def fits(row: Row, schema: Schema) -> bool:
    """Whether the relation can have the row."""
    return all(is_value_of(value, column.type) for value, column in zip(row, schema.columns, strict=True))


def is_value_of(value: Any, type: Type) -> bool:
    """Whether a value of the kind of the type is one of the type."""
    if value is None:
        return type.nullable
    match type.kind:
        case Kind.NUMBER:
            least = NUMBER_RANGE[0] + type.nullable  # the code of NULL
            return isinstance(value, int) and least <= value <= NUMBER_RANGE[-1]
        case Kind.UNSIGNED:
            return isinstance(value, int) and 0 <= value <= UNSIGNED_RANGE[-1] - type.nullable
        case Kind.DECIMAL:
            scaled = Decimal(value).scaleb(type.scale)
            return scaled == scaled.to_integral_value() and abs(scaled) < 10**type.precision
        case _:
            return True
