"""Sort keys: texts whose order by code points is the order of the values.

No key is a prefix of another, so that the sort key of a row is the concatenation of the keys of its columns.
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from upshot.core.errors import DataError
from upshot.core.types import MOST_DIGITS, WIDE_DIGITS, Kind, Type, scaled_integer
from upshot.values.records import BuiltinFunction, FunctionMeaning
from upshot.values.signatures import ORDERED, fixed, only

_SYMBOL = only(Kind.SYMBOL)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COUNT = re.compile(r"0*([1-9][0-9]{0,17}):", re.ASCII)
_TURNED = str.maketrans("0123456789abcdef", "fedcba9876543210")


def _whole(value: int) -> str:
    return f"{value + 2**63:017x}"


def _float(value: float) -> str:
    if math.isnan(value):
        return "f" * 16
    (bits,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
    return f"{bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63:016x}"


def _decimal(value: Decimal) -> str:
    digits = MOST_DIGITS if -int(value.as_tuple().exponent) <= MOST_DIGITS else WIDE_DIGITS
    return f"{scaled_integer(value, digits) + 10 ** (2 * digits):0{2 * digits + 1}d}"


def _time(value: dt.datetime) -> str:
    return _whole((value - _EPOCH) // dt.timedelta(microseconds=1))


_KEYS: dict[Kind, Callable[[Any], str]] = {
    Kind.NUMBER: _whole,
    Kind.UNSIGNED: _whole,
    Kind.FLOAT: _float,
    Kind.BOOLEAN: lambda value: str(int(value)),
    Kind.DATE: lambda value: f"{value.toordinal():08x}",
    Kind.TIMESTAMP: _time,
    Kind.DECIMAL: _decimal,
}


def _ascending(key: Callable[[Any], str]) -> FunctionMeaning:
    return FunctionMeaning(key)


def _descending(key: Callable[[Any], str]) -> FunctionMeaning:
    return FunctionMeaning(lambda value: key(value).translate(_TURNED))


SORT_KEYS = (
    BuiltinFunction(
        "sort_key", fixed(_SYMBOL, ORDERED),
        {**{kind: _ascending(key) for kind, key in _KEYS.items()},
         Kind.SYMBOL: FunctionMeaning(lambda text: text.encode().hex() + " ")},
        "sort_key(a)", "a text; such texts are ordered as the values are, also joined",
    ),
    BuiltinFunction(
        "reverse_sort_key", fixed(_SYMBOL, ORDERED),
        {**{kind: _descending(key) for kind, key in _KEYS.items()},
         Kind.SYMBOL: FunctionMeaning(lambda text: text.encode().hex().translate(_TURNED) + "~")},
        "reverse_sort_key(a)", "a text; such texts are ordered opposite to the values",
    ),
)  # fmt: skip


def kth(values: Sequence[str], _: Type) -> str:
    """The k-th least of distinct texts, or the greatest if there are fewer; the least of them begins with `k:`.

    >>> kth(["2:c", "2:a", "2:b"], Type(Kind.SYMBOL)), kth(["2:c"], Type(Kind.SYMBOL))
    ('2:b', '2:c')
    """
    least = min(values)
    found = _COUNT.match(least)
    if found is None:
        raise DataError(f"`{least[:40]}` does not begin with `k:`", code="not-a-number", help='write cat("10:", A)')
    return heapq.nsmallest(int(found[1]), set(values))[-1]
