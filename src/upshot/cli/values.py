"""Values as JSON, to and from the Python values of a column's type."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.database.field_text import Unreadable, reader_of, text_of


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
    return _written(str(value), type)  # type: ignore[no-any-return]


def _moment(value: Any, type: Type) -> Any:
    if not isinstance(value, str):
        raise NotAValue(f"{_shown(value)} is not {_a(type)}")
    return _written(value, type)


def _written(text: str, type: Type) -> Any:
    """Dates, timestamps and decimals are spelt as in fact files."""
    try:
        return reader_of(type.required())(text)
    except Unreadable as wrong:
        raise NotAValue(f"{_quoted(text)} is not {wrong}") from None


_FROM_JSON: dict[Kind, Callable[[Any, Type], Any]] = {
    Kind.NUMBER: _integer,
    Kind.UNSIGNED: _integer,
    Kind.FLOAT: _float,
    Kind.SYMBOL: _symbol,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _moment,
    Kind.TIMESTAMP: _moment,
    Kind.DECIMAL: _decimal,
}

# ---- to JSON -----------------------------------------------------------------------------------


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
            return text_of(value)


def rows_to_json(rows: Iterable[Sequence[Any]]) -> str:
    """The rows as a JSON array of arrays, without blanks.

    >>> rows_to_json([(1, "a"), (2, None)])
    '[[1,"a"],[2,null]]'
    """
    listed = [[to_json(value) for value in row] for row in rows]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


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
