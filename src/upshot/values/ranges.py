"""`range(from, to)` and `range(from, to, step)`: all values from the first one on, before the second one.

It has many values, so that no engine calls it: the normal form has a recursive view in its place. By this record the
checker knows its types.
"""

from __future__ import annotations

from typing import Any, NoReturn

from upshot.core.types import Kind
from upshot.values.records import BuiltinFunction, FunctionMeaning
from upshot.values.signatures import Signature, only

RANGE = "range"


def _no_value(*args: Any) -> NoReturn:
    raise AssertionError("the normal form has no `range`")


_NUMBERS = only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
RANGE_RECORD = BuiltinFunction(
    RANGE, Signature((_NUMBERS,), _NUMBERS, True, 2, 3), dict.fromkeys(Kind, FunctionMeaning(_no_value, fails=True)),
    "range(from, to, step)", "each value from `from` on, before `to`",
)  # fmt: skip
