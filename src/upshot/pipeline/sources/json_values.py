"""Values of JSON as values of a column's type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.database.field_text import Unreadable, reader_of

_LONGEST_SHOWN = 60
_RESERVED = {Kind.NUMBER: NUMBER_RANGE[0], Kind.UNSIGNED: UNSIGNED_RANGE[-1]}


class Misfit(ValueError):
    """The words say what was found, as in `"abc" is not a number`."""


def json_reader(type: Type) -> Callable[[Any], Any]:
    """The function from what `json` read (fractions as `Decimal`) to a value of the type; it raises `Misfit`."""
    read = _READERS[type.kind]
    if type.nullable:
        reserved = _RESERVED.get(type.kind)

        def nullable(value: Any) -> Any:
            found = None if value is None else read(value, type)
            if found is not None and found == reserved:
                raise Misfit(f"{found} is the one value a nullable {type.kind.value} cannot hold")
            return found

        return nullable

    def required(value: Any) -> Any:
        if value is None:
            raise Misfit("NULL in a column that takes none")
        return read(value, type)

    return required


def _integer(value: Any, type: Type) -> int:
    if value.__class__ is not int:
        raise _is_not(value, type)
    if value not in (UNSIGNED_RANGE if type.kind is Kind.UNSIGNED else NUMBER_RANGE):
        raise Misfit(f"{shortened(str(value))} is outside the range of {type.kind.value}")
    return value


def _float(value: Any, type: Type) -> float:
    match value:
        case bool():
            pass
        case int() | Decimal():
            return _finite(value)
        case "NaN" | "Infinity" | "-Infinity":
            return float(value)
        case _:
            pass
    raise _is_not(value, type)


def _finite(value: int | Decimal) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise Misfit(f"{shortened(str(value))} is outside the range of float")
    return number


def _symbol(value: Any, type: Type) -> str:
    if value.__class__ is not str:
        raise _is_not(value, type)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("text with half of a surrogate pair") from None
    return value


def _boolean(value: Any, type: Type) -> bool:
    if value.__class__ is not bool:
        raise _is_not(value, type)
    return value


def _decimal(value: Any, type: Type) -> Decimal:
    if value.__class__ is bool or not isinstance(value, (int, str, Decimal)):
        raise _is_not(value, type)
    return _written(str(value), type)  # type: ignore[no-any-return]


def _moment(value: Any, type: Type) -> Any:
    if value.__class__ is not str:
        raise _is_not(value, type)
    if type.kind is Kind.TIMESTAMP and finer_than_stored(value):
        raise Misfit(f"{_quoted(value)} is finer than a microsecond")
    return _written(value, type)


def finer_than_stored(moment: str) -> bool:
    """Whether reading the timestamp would lose something of its fraction.

    >>> finer_than_stored("2026-01-31T10:00:00.1234567"), finer_than_stored("2026-01-31T10:00:00.1230000000")
    (True, False)
    """
    return bool(_FINER.search(moment))


_FINER = re.compile(r"[.,][0-9]{6}0*[1-9]")


def _written(text: str, type: Type) -> Any:
    """Dates, timestamps and decimals are spelt as in fact files."""
    try:
        return reader_of(type.required())(text)
    except Unreadable as wrong:
        raise Misfit(f"{_quoted(text)} is not {wrong}") from None


_READERS: dict[Kind, Callable[[Any, Type], Any]] = {
    Kind.NUMBER: _integer,
    Kind.UNSIGNED: _integer,
    Kind.FLOAT: _float,
    Kind.SYMBOL: _symbol,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _moment,
    Kind.TIMESTAMP: _moment,
    Kind.DECIMAL: _decimal,
}


# ---- words --------------------------------------------------------------------------------------


def _is_not(value: Any, type: Type) -> Misfit:
    name = str(type.required())
    article = "an" if name[0] in "aeioAEIO" else "a"
    return Misfit(f"{_shown(value)} is not {article if type.kind is not Kind.UNSIGNED else 'an'} {name}")


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
            return shortened(str(value))


def _quoted(text: str) -> str:
    return json.dumps(shortened(text), ensure_ascii=False)


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
