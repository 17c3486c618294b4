"""Values as JSON and as text in fact files, to and from the Python values of a column's type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type

NULL_TEXT = r"\N"
"""NULL in a fact file, as PostgreSQL's COPY has it."""


class NotAValue(ValueError):
    """The words say what was found, as in `"abc" is not a number`."""


# ---- from JSON ---------------------------------------------------------------------------------


def from_json(value: Any, type: Type) -> Any:
    """The Python value of `type` that a JSON value stands for, or `NotAValue`.

    Fractions must have been read as `Decimal`, so that a decimal column gets what was written.
    """
    if value is None:
        if type.nullable:
            return None
        raise NotAValue("null in a column that is not nullable")
    return _FROM_JSON[type.kind](value, type)


def _integer(value: Any, type: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotAValue(f"{_shown(value)} is not {_a(type)}")
    return _in_range(value, type)


def _in_range(value: int, type: Type) -> int:
    limits = UNSIGNED_RANGE if type.kind is Kind.UNSIGNED else NUMBER_RANGE
    if value not in limits:
        raise NotAValue(f"{_short(str(value))} is outside the range of {type.kind.value}")
    return value


def _float(value: Any, type: Type) -> float:
    match value:
        case bool():
            pass
        case int() | Decimal():
            return _finite(value)
        case "NaN":
            return math.nan
        case "Infinity" | "-Infinity":
            return float(value)
        case _:
            pass
    raise NotAValue(f"{_shown(value)} is not {_a(type)}")


def _finite(value: int | Decimal) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise NotAValue(f"{_short(str(value))} is outside the range of float")
    return number


def _symbol(value: Any, type: Type) -> str:
    if not isinstance(value, str):
        raise NotAValue(f"{_shown(value)} is not {_a(type)}")
    return _encodable(value)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotAValue("text with half of a surrogate pair") from None
    return text


def _boolean(value: Any, type: Type) -> bool:
    if not isinstance(value, bool):
        raise NotAValue(f"{_shown(value)} is not {_a(type)}")
    return value


def _decimal(value: Any, type: Type) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        raise NotAValue(f"{_shown(value)} is not {_a(type)}")
    return _decimal_text(str(value), type)


def _by_text(parse: Callable[[str, Type], Any]) -> Callable[[Any, Type], Any]:
    def convert(value: Any, type: Type) -> Any:
        if not isinstance(value, str):
            raise NotAValue(f"{_shown(value)} is not {_a(type)}")
        return parse(value, type)

    return convert


# ---- from the text of a fact file ---------------------------------------------------------------


def from_text(text: str, type: Type) -> Any:
    r"""The Python value a field of a fact file stands for, or `NotAValue`; in nullable columns `\N` is NULL.

    >>> from_text("0x1F", Type(Kind.NUMBER))
    31
    """
    if type.nullable and (text == NULL_TEXT or (not text and type.kind is not Kind.SYMBOL)):
        return None
    return _FROM_TEXT[type.kind](text, type)


_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_LONGEST_INTEGER = 80
_BASES = {"x": 16, "b": 2}


def _integer_text(text: str, type: Type) -> int:
    digits = text.strip()
    if not _INTEGER.fullmatch(digits):
        raise NotAValue(f"{_quoted(text)} is not {_a(type)}")
    if len(digits) > _LONGEST_INTEGER:
        raise NotAValue(f"{_short(digits)} is outside the range of {type.kind.value}")
    base = _BASES.get(digits.lstrip("+-")[1:2].lower(), 10)
    return _in_range(int(digits, base), type)


def _float_text(text: str, type: Type) -> float:
    if not _FLOAT.fullmatch(text.strip()):
        raise NotAValue(f"{_quoted(text)} is not {_a(type)}")
    value = float(text)
    return math.nan if math.isnan(value) else value


def _boolean_text(text: str, type: Type) -> bool:
    match text.strip():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise NotAValue(f"{_quoted(text)} is not {_a(type)} (true or false)")


def _date_text(text: str, type: Type) -> date:
    try:
        if len(text.strip()) != len("2026-01-31"):
            raise ValueError
        return date.fromisoformat(text.strip())
    except ValueError:
        raise NotAValue(f"{_quoted(text)} is not {_a(type)} such as 2026-01-31") from None


def _timestamp_text(text: str, type: Type) -> datetime:
    """A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise NotAValue(f"{_quoted(text)} is not {_a(type)} such as 2026-01-31T10:00:00Z") from None


def _decimal_text(text: str, type: Type) -> Decimal:
    if not _DECIMAL.fullmatch(text.strip()):
        raise NotAValue(f"{_quoted(text)} is not {_a(type)}")
    try:
        value = Decimal(text.strip())
        fitted = value.quantize(Decimal(1).scaleb(-type.scale))
    except InvalidOperation:
        raise NotAValue(f"{_short(text)} does not fit {type}") from None
    if fitted != value or len(fitted.as_tuple().digits) > type.precision:
        raise NotAValue(f"{_short(text)} does not fit {type}")
    return fitted


_FROM_JSON: dict[Kind, Callable[[Any, Type], Any]] = {
    Kind.NUMBER: _integer,
    Kind.UNSIGNED: _integer,
    Kind.FLOAT: _float,
    Kind.SYMBOL: _symbol,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _by_text(_date_text),
    Kind.TIMESTAMP: _by_text(_timestamp_text),
    Kind.DECIMAL: _decimal,
}

_FROM_TEXT: dict[Kind, Callable[[str, Type], Any]] = {
    Kind.NUMBER: _integer_text,
    Kind.UNSIGNED: _integer_text,
    Kind.FLOAT: _float_text,
    Kind.SYMBOL: lambda text, _: _encodable(text),
    Kind.BOOLEAN: _boolean_text,
    Kind.DATE: _date_text,
    Kind.TIMESTAMP: _timestamp_text,
    Kind.DECIMAL: _decimal_text,
}


# ---- to JSON and to text ------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """What `json` can write: ISO dates and timestamps, decimals and the non-finite floats as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case _:
            return to_text(value)


def rows_to_json(rows: Iterable[Sequence[Any]]) -> str:
    """The rows as a JSON array of arrays, without blanks.

    >>> rows_to_json([(1, "a"), (2, None)])
    '[[1,"a"],[2,null]]'
    """
    listed = [[to_json(value) for value in row] for row in rows]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def to_text(value: Any) -> str:
    r"""The value as a field of a fact file, in Soufflé's spelling where Soufflé has the type.

    >>> to_text(3.0), to_text(None), to_text(True)
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
            return NULL_TEXT
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case _:
            raise TypeError(f"no text for {value!r}")


# ---- words for messages -------------------------------------------------------------------------


def _a(type: Type) -> str:
    name = str(type.required())
    return f"an {name}" if name[0] in "aeioAEIO" and type.kind is not Kind.UNSIGNED else f"a {name}"


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return _short(str(value))


def _quoted(text: str) -> str:
    return json.dumps(_short(text), ensure_ascii=False)


_LONGEST_SHOWN = 60


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
