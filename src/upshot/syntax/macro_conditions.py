"""Conditions behind `#if`: integers, `defined(NAME)`, comparisons, arithmetic, `!`, `&&` and `||`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from upshot.syntax.macros import Macro, expanded

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_?][\w?]*)\s*\)|([A-Za-z_?][\w?]*))")
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_?][\w?]*)|(&&|\|\||[=!<>]=|[-+*/%<>!()]))")
_DEEPEST = 50

_OPERATORS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        "<=": lambda a, b: int(a <= b),
        ">": lambda a, b: int(a > b),
        ">=": lambda a, b: int(a >= b),
    },
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: int(a / b), "%": lambda a, b: a - b * int(a / b)},
)
"""Operators by how tightly they hold, the loosest first."""


class BadCondition(Exception):
    """Text behind `#if` that is no condition."""


def holds(text: str, macros: Mapping[str, Macro]) -> bool:
    """The condition is true; a name that is no macro counts as 0.

    >>> holds("defined(A) && A > 1", {"A": Macro(None, "2")})
    True
    """
    known = _DEFINED.sub(lambda found: str(int((found[1] or found[2]) in macros)), text)
    return _ConditionReader(expanded(known, macros)).value() != 0


class _ConditionReader:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise BadCondition(f"`{text.strip()[:40]}` is not a condition")
            self._tokens.append("0" if found[2] else found[1] or found[3])
            position = found.end()
        self._text = text.strip()

    def value(self) -> int:
        value = self._level(0, 0)
        if self._tokens:
            raise BadCondition(f"unexpected `{self._tokens[0]}` in the condition")
        return value

    def _level(self, level: int, depth: int) -> int:
        if level == len(_OPERATORS):
            return self._operand(depth + 1)
        left = self._level(level + 1, depth)
        while self._tokens and self._tokens[0] in _OPERATORS[level]:
            operator = _OPERATORS[level][self._tokens.pop(0)]
            try:
                left = operator(left, self._level(level + 1, depth))
            except ZeroDivisionError:
                raise BadCondition("the condition divides by zero") from None
        return left

    def _operand(self, depth: int) -> int:
        if not self._tokens or depth > _DEEPEST:
            raise BadCondition("the condition ends too early" if depth <= _DEEPEST else "the condition is too deep")
        token = self._tokens.pop(0)
        if token in ("!", "-", "+"):
            value = self._operand(depth + 1)
            return int(not value) if token == "!" else -value if token == "-" else value
        if token == "(":
            value = self._level(0, depth)
            if not self._tokens or self._tokens.pop(0) != ")":
                raise BadCondition("a `)` is missing in the condition")
            return value
        if not token.isdecimal():
            raise BadCondition(f"unexpected `{token}` in the condition")
        return int(token[:30])
