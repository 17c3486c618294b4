"""Values as JSON, to and from the Python values of a column's type.

Numbers, booleans and text are JSON values of the same kind; dates and timestamps are text in ISO format; decimals are
text, so that readers do not convert them to binary fractions; records are text in the notation of programs (and can be
read from arrays, branches from `{"Tag": [fields]}`); NaN and infinities are "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from upshot.core.diagnostic import did_you_mean
from upshot.core.field_text import Unreadable, reader_of, text_of
from upshot.core.schema import Schema
from upshot.core.structures import Misshapen, canonical
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type


class JsonMisfit(ValueError):
    """A JSON value that is no value of its column or row, as in `"abc" is not a number`; `code` is its error code."""

    def __init__(self, message: str, code: str = "wrong-type", help: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.help = help


# ---- from JSON ---------------------------------------------------------------------------------


def repeated_key(pairs: Iterable[tuple[str, Any]]) -> str:
    """The first repeated key of an object that has one, found in one pass, since the input is not trusted.

    >>> repeated_key([("a", 1), ("b", 2), ("b", 3), ("a", 4)])
    'b'
    """
    seen = set[str]()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise ValueError("no key occurs twice")


def json_reader(type: Type) -> Callable[[Any], Any]:
    """The function that converts parsed JSON to values of the type; it raises `JsonMisfit`.

    Fractions for decimal columns must have been parsed as `Decimal`, so that they are exact.

    >>> json_reader(Type(Kind.DATE))("2026-01-31")
    datetime.date(2026, 1, 31)
    """
    exact = _exact_reader(type)
    if type == Type(Kind.NUMBER, type.name):
        return lambda value: value if value.__class__ is int and _LEAST <= value <= _MOST else exact(value)
    if type == Type(Kind.SYMBOL, type.name):
        return lambda value: value if value.__class__ is str and value.isascii() else exact(value)
    return exact


_LEAST, _MOST = NUMBER_RANGE[0], NUMBER_RANGE[-1]


def _exact_reader(type: Type) -> Callable[[Any], Any]:
    read = _READERS[type.kind]
    if type.nullable:
        reserved = _RESERVED.get(type.kind)

        def nullable(value: Any) -> Any:
            found = None if value is None else read(value, type)
            if found is not None and found == reserved:
                words = f"{found} is the one value that a nullable {type.kind.value} cannot store"
                raise JsonMisfit(words, "reserved-value")
            return found

        return nullable

    def required(value: Any) -> Any:
        if value is None:
            raise JsonMisfit("NULL in a column that is not nullable", "null-in-required-column")
        return read(value, type)

    return required


def from_json(value: Any, type: Type) -> Any:
    """The Python value of `type` of a JSON value, or `JsonMisfit`."""
    return json_reader(type)(value)


def row_reader(schema: Schema) -> Callable[[Any], tuple[Any, ...]]:
    """The function from a JSON array to a row of the schema; it raises `JsonMisfit`, which names the column."""
    names = [column.name for column in schema.columns]
    readers = [json_reader(column.type) for column in schema.columns]

    def read(row: Any) -> tuple[Any, ...]:
        if row.__class__ is not list:
            raise JsonMisfit(f"a row of `{schema.name}` must be a list, not {_shown(row)}", "wrong-row")
        if len(row) != len(readers):
            raise JsonMisfit(f"a row of `{schema.name}` must have {len(readers)} values, not {len(row)}", "wrong-arity")
        try:
            return tuple([reader(value) for reader, value in zip(readers, row, strict=True)])
        except JsonMisfit:
            raise _of_column(row) from None

    def _of_column(row: Sequence[Any]) -> JsonMisfit:
        """The error of the first wrong value."""
        for name, reader, value in zip(names, readers, row, strict=True):
            try:
                reader(value)
            except JsonMisfit as misfit:
                return JsonMisfit(f"column `{name}`: {misfit}", misfit.code)
        raise AssertionError("one does not fit")

    return read


def row_as_list(row: Any, schema: Schema) -> Any:
    """A JSON row as a list; an object has its values by column, of which nullable ones may be missing."""
    if not isinstance(row, dict):
        return row
    names = [column.name for column in schema.columns]
    for key in row:
        if key not in names:
            # A long key is not repeated: it may be a secret in the wrong place.
            shown = f"`{key}`" if len(key) <= _LONGEST_KEY else f"of {len(key)} characters"
            raise JsonMisfit(f"unknown column {shown}", "unknown-column", did_you_mean(key[:_LONGEST_KEY], names))
    for column in schema.columns:
        if column.name not in row and not column.type.nullable:
            raise JsonMisfit(f"column `{column.name}` is missing", "wrong-arity")
    return [row.get(name) for name in names]


_LONGEST_KEY = 40
_RESERVED = {Kind.NUMBER: NUMBER_RANGE[0], Kind.UNSIGNED: UNSIGNED_RANGE[-1]}


def _integer(value: Any, type: Type) -> int:
    if value.__class__ is not int:
        raise _is_not(value, type)
    if value not in (UNSIGNED_RANGE if type.kind is Kind.UNSIGNED else NUMBER_RANGE):
        raise JsonMisfit(f"{_short(str(value))} is outside the range of {type.kind.value}")
    return value


def _float(value: Any, type: Type) -> float:
    match value:
        case bool():
            pass
        case int() | Decimal() | float():
            return _finite(value)
        case "NaN":
            return math.nan
        case "Infinity" | "-Infinity":
            return float(value)
        case _:
            pass
    raise _is_not(value, type)


def _finite(value: int | Decimal | float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise JsonMisfit(f"{_short(str(value))} is outside the range of float")
    return number


def _symbol(value: Any, type: Type) -> str:
    if value.__class__ is not str:
        raise _is_not(value, type)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonMisfit("text with half of a surrogate pair") from None
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
        raise JsonMisfit(f"{_quoted(value)} has more than microsecond precision")
    return _written(value, type)


def finer_than_stored(moment: str) -> bool:
    """Test whether the timestamp has more than microsecond precision.

    >>> finer_than_stored("2026-01-31T10:00:00.1234567"), finer_than_stored("2026-01-31T10:00:00.1230000000")
    (True, False)
    """
    return bool(_FINER.search(moment))


_FINER = re.compile(r"[.,][0-9]{6}0*[1-9]")


def _written(text: str, type: Type) -> Any:
    """Dates, timestamps and decimals are spelled as in fact files."""
    try:
        return reader_of(type.required())(text)
    except Unreadable as wrong:
        raise JsonMisfit(f"{_quoted(text)} is not {wrong}") from None


def _structure(value: Any, type: Type) -> str:
    try:
        return canonical(value, type)
    except Misshapen as wrong:
        raise JsonMisfit(f"{_shown(value)} is not {wrong}") from None


_READERS: dict[Kind, Callable[[Any, Type], Any]] = {
    Kind.NUMBER: _integer,
    Kind.UNSIGNED: _integer,
    Kind.FLOAT: _float,
    Kind.SYMBOL: _symbol,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _moment,
    Kind.TIMESTAMP: _moment,
    Kind.DECIMAL: _decimal,
    Kind.RECORD: _structure,
}

# ---- to JSON -----------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """The value as `json` can encode it: dates, timestamps, decimals and non-finite floats as text."""
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
    listed = list(rows)
    try:
        return _encode(listed)
    except ValueError:  # not a finite number
        return _encode([[to_json(value) for value in row] for row in listed])


# What JSON has no form for is what `text_of` is for; `to_json` would be called for every value.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=text_of).encode


# ---- types ---------------------------------------------------------------------------------------


def type_to_json(type: Type) -> str:
    """The type for clients: the built-in type of the values, without the name of a declared subtype.

    >>> type_to_json(Type(Kind.SYMBOL, "City", nullable=True)), type_to_json(Type(Kind.DECIMAL, precision=6, scale=2))
    ('symbol?', 'decimal(6,2)')
    """
    return str(Type(type.kind, "", type.nullable, type.precision, type.scale))


def type_from_json(text: str) -> Type:
    """The inverse of `type_to_json`; raises `JsonMisfit`.

    >>> type_from_json("decimal(6,2)?") == Type(Kind.DECIMAL, nullable=True, precision=6, scale=2)
    True
    """
    found = _TYPE.fullmatch(text)
    if found is None or (found["kind"] == Kind.DECIMAL.value) != (found["precision"] is not None):
        raise JsonMisfit(f"{_quoted(text)} is not a type", "unknown-type")
    precision, scale = int(found["precision"] or 0), int(found["scale"] or 0)
    return Type(Kind(found["kind"]), "", bool(found["nullable"]), precision, scale)


_TYPE = re.compile(
    rf"(?P<kind>{'|'.join(kind.value for kind in Kind)})"
    r"(?:\((?P<precision>[0-9]{1,4}),(?P<scale>[0-9]{1,4})\))?(?P<nullable>\?)?"
)

# ---- words for messages -------------------------------------------------------------------------


def _is_not(value: Any, type: Type) -> JsonMisfit:
    name = str(type.required())
    return JsonMisfit(f"{_shown(value)} is not {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}")


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
