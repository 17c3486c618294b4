"""Values of every type, the odd ones among them often."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from upshot.core.types import BOOLEAN, DATE, FLOAT, NUMBER, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type

MONEY = Type(Kind.DECIMAL, precision=10, scale=2)
WIDE = Type(Kind.DECIMAL, precision=18, scale=0)
FINE = Type(Kind.DECIMAL, precision=18, scale=18)
TYPES = (NUMBER, UNSIGNED, FLOAT, SYMBOL, BOOLEAN, DATE, TIMESTAMP, MONEY, WIDE, FINE)
ORDERED = tuple(type for type in TYPES if type.kind is not Kind.SYMBOL)

TINY = 5e-324
ODD: dict[Kind, list[Any]] = {
    Kind.NUMBER: [0, 1, -1, 2**63 - 1, -(2**63) + 1, -(2**63), 2**53 + 1],
    Kind.UNSIGNED: [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1],
    Kind.FLOAT: [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, TINY, -TINY, 1.7976931348623157e308, 0.1],
    Kind.SYMBOL: ["", "a", "ß", "日本", "🦀", "\u0000", "a\tb\nc", "\ufeff", "e\u0301", "é", "null", "\U0010ffff"],
    Kind.BOOLEAN: [True, False],
    Kind.DATE: [dt.date.min, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date.max],
    Kind.TIMESTAMP: [
        dt.datetime.min.replace(tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        dt.datetime.max.replace(tzinfo=dt.UTC),
    ],
}


def values(type: Type) -> st.SearchStrategy[Any]:
    """Any value of the type, NULL included where it may be."""
    made = _required(type)
    if type.kind is not Kind.DECIMAL:
        odd = [value for value in ODD[type.kind] if not (type.nullable and value == reserved(type))]
        made = st.sampled_from(odd) | made.filter(lambda value: not type.nullable or value != reserved(type))
    return st.none() | made if type.nullable else made


def reserved(type: Type) -> Any:
    """The value that a nullable column of the type cannot hold, if there is one."""
    return {Kind.NUMBER: -(2**63), Kind.UNSIGNED: 2**64 - 1}.get(type.kind)


def _required(type: Type) -> st.SearchStrategy[Any]:
    match type.kind:
        case Kind.NUMBER:
            return st.integers(-(2**63), 2**63 - 1)
        case Kind.UNSIGNED:
            return st.integers(0, 2**64 - 1)
        case Kind.FLOAT:
            return st.floats()
        case Kind.SYMBOL:
            return st.text()
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.DATE:
            return st.dates()
        case Kind.TIMESTAMP:
            return st.datetimes(timezones=st.just(dt.UTC))
        case Kind.DECIMAL:
            most = 10**type.precision - 1
            return st.integers(-most, most).map(lambda code: Decimal(code).scaleb(-type.scale))


def same(one: Any, other: Any) -> bool:
    """Equal, as sets compare values, and of the same Python type."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and type(one) is type(other)


def rank(value: Any) -> tuple[bool, Any]:
    """The order of values: NaN above all."""
    return (True, 0.0) if value != value else (False, value)
