"""Values and rows as programs write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isinf, isnan
from typing import Any

from upshot.core.schema import Schema
from upshot.core.types import Kind, Type

ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
"""The characters that letters behind a backslash denote."""
_UNESCAPES = {value: "\\" + key for key, value in ESCAPES.items() if key != "'"}


def fact(schema: Schema, row: Sequence[Any]) -> str:
    """A row of a relation, as in `closure(1, 3)`."""
    values = (spelled(value, column.type) for value, column in zip(row, schema.columns, strict=True))
    return f"{schema.name}({', '.join(values)})"


def spelled(value: Any, type: Type | None = None) -> str:
    """The value of a constant of this type as a program writes it.

    >>> spelled(date(2026, 1, 31)), spelled(7, Type(Kind.UNSIGNED)), spelled(None)
    ('date("2026-01-31")', '7u', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}u" if type is not None and type.kind is Kind.UNSIGNED else str(value)
        case float():
            return _spelled_float(value)
        case str():
            return value if type is not None and type.kind is Kind.RECORD else quoted(value)
        case datetime():
            return f'timestamp("{_spelled_timestamp(value)}")'
        case date():
            return f'date("{value.isoformat()}")'
        case Decimal():
            return f'decimal("{value:f}")'
        case _:
            return str(value)


def _spelled_float(value: float) -> str:
    """Infinities and NaN have no literal; they print as the divisions that make them."""
    if isnan(value):
        return "(0.0 / 0.0)"
    if isinf(value):
        return "(1.0 / 0.0)" if value > 0 else "(-1.0 / 0.0)"
    return repr(value or 0.0)


def _spelled_timestamp(value: datetime) -> str:
    moment = value if value.tzinfo is None or value.utcoffset() == timedelta() else value.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat() + "Z"


def quoted(value: str) -> str:
    """The text as a string token.

    >>> print(quoted('say "hi"'))
    "say \\"hi\\""
    """
    return '"' + "".join(_UNESCAPES.get(c) or (c if c.isprintable() else _coded(c)) for c in value) + '"'


def _coded(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
