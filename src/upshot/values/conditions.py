"""The tests and comparisons, one record each."""

from __future__ import annotations

import operator
from collections.abc import Callable

from upshot.core.types import Kind
from upshot.values.patterns import pattern
from upshot.values.records import BuiltinComparison, BuiltinTest
from upshot.values.signatures import ANY, only
from upshot.values.structures import STRUCTURE_TEST

_SYMBOL = only(Kind.SYMBOL)


def _matches(expression: str, text: str, pause: Callable[[], None] | None = None) -> bool:
    return pattern(expression).matches(text, pause)


_TESTS = (
    BuiltinTest(
        "contains", (_SYMBOL, _SYMBOL), lambda part, whole: part in whole,
        "contains(part, whole)", "`part` occurs in `whole`",
        spark=lambda F, columns: F.contains(columns[1], columns[0]),
    ),
    BuiltinTest(
        "match", (_SYMBOL, _SYMBOL), _matches,
        "match(pattern, text)", "all of `text` matches a [regular expression](#patterns)",
        fails=True, pauses=True, constant_argument=pattern, sql="LIKE",
    ),
    BuiltinTest(
        "is_null", (ANY,), lambda value: value is None,
        "is_null(a)", "`a` is NULL", spark=lambda _, columns: columns[0].isNull(), sees_null=True, sql="IS NULL",
    ),
    BuiltinTest("true", (), lambda: True, "true", "always", spark=lambda F, _: F.lit(True)),
    BuiltinTest("false", (), lambda: False, "false", "never", spark=lambda F, _: F.lit(False)),
)  # fmt: skip

TESTS: dict[str, BuiltinTest] = {each.name: each for each in (*_TESTS, STRUCTURE_TEST)}

_COMPARISONS = (
    BuiltinComparison("=", operator.eq, 0, "EQ", opposite="!=", turned="="),
    BuiltinComparison("!=", operator.ne, 1, "NEQ", opposite="=", turned="!="),
    BuiltinComparison("<", operator.lt, 2, "LT", opposite=">=", turned=">"),
    BuiltinComparison("<=", operator.le, 3, "LTE", opposite=">", turned=">="),
    BuiltinComparison(">", operator.gt, 4, "GT", opposite="<=", turned="<"),
    BuiltinComparison(">=", operator.ge, 5, "GTE", opposite="<", turned="<="),
)

COMPARISONS: dict[str, BuiltinComparison] = {each.name: each for each in _COMPARISONS}
OPPOSITE = {each.name: each.opposite for each in _COMPARISONS}
TURNED = {each.name: each.turned for each in _COMPARISONS}
ORDERING = ("<", "<=", ">", ">=")
