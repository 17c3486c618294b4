r"""Values as fields of a text file, in Soufflé's spelling where Soufflé has the type.

NULL is written `\N`, and read from `\N` in any nullable column; an empty field is NULL too where the column is nullable
and not text. In text columns that take no NULL, `\N` is ordinary text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

from upshot.core import structures
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type

NULL = r"\N"

_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_INTEGER = 80
_PRECISION = 120


class Unreadable(Exception):
    """A field is not a value of the type of its column; the message names the expected value."""


def reader_of(type: Type) -> Callable[[str], Any]:
    """The function that parses the fields of a column; it raises `Unreadable`."""
    read = _READERS[type.kind]
    if not type.nullable:
        return lambda text: read(text, type)
    if type.kind is Kind.SYMBOL:
        return lambda text: None if text == NULL else text
    return lambda text: None if text in ("", NULL) else read(text, type)


def _integer(text: str, type: Type) -> int:
    digits = text.strip()
    if not _INTEGER.fullmatch(digits) or len(digits) > _LONGEST_INTEGER:
        raise Unreadable("an integer")
    base = {"x": 16, "b": 2}.get(digits.lstrip("+-")[1:2].lower(), 10)
    value = int(digits, base)
    if value not in (UNSIGNED_RANGE if type.kind is Kind.UNSIGNED else NUMBER_RANGE):
        raise Unreadable(f"an integer in the range of {type.kind.value}")
    return value


def _float(text: str, _: Type) -> float:
    if not _FLOAT.fullmatch(text.strip()):
        raise Unreadable("a number")
    value = float(text)
    return math.nan if math.isnan(value) else value


def _boolean(text: str, _: Type) -> bool:
    match text.strip():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise Unreadable("true, false, 1 or 0")


def _date(text: str, _: Type) -> date:
    try:
        if len(text.strip()) != len("2026-01-31"):
            raise ValueError
        return date.fromisoformat(text.strip())
    except ValueError:
        raise Unreadable("a date such as 2026-01-31") from None


def _timestamp(text: str, _: Type) -> datetime:
    """A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unreadable("a timestamp such as 2026-01-31T10:00:00Z") from None


def _decimal(text: str, type: Type) -> Decimal:
    try:
        if not _DECIMAL.fullmatch(text.strip()):
            raise InvalidOperation
        value = Decimal(text.strip())
        with localcontext(prec=_PRECISION):
            fitted = value.quantize(Decimal(1).scaleb(-type.scale))
        if fitted != value or len(fitted.as_tuple().digits) > type.precision:
            raise InvalidOperation
    except InvalidOperation:
        raise Unreadable(f"a {type.required()}") from None
    return fitted


def _structure(text: str, type: Type) -> str:
    try:
        return structures.read(text, type, plain=True)
    except structures.Misshapen as wrong:
        raise Unreadable(str(wrong)) from None


_READERS: dict[Kind, Callable[[str, Type], Any]] = {
    Kind.NUMBER: _integer,
    Kind.UNSIGNED: _integer,
    Kind.FLOAT: _float,
    Kind.SYMBOL: lambda text, _: text,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.DECIMAL: _decimal,
    Kind.RECORD: _structure,
}


def text_of(value: Any) -> str:
    r"""The field for a value.

    >>> text_of(3.0), text_of(None), text_of(True)
    ('3', '\\N', 'true')
    """
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value).removesuffix(".0")
        case None:
            return NULL
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
    raise TypeError(f"no text for {value!r}")
