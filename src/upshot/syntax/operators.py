"""The precedence of operators: Soufflé's table, shared by parser and printer; and the names of built-ins."""

from __future__ import annotations

from upshot.values import aggregates, conditions

INFIX: dict[str, tuple[int, int]] = {}
"""Operator -> (its precedence, the least precedence of an operator in its right operand)."""

for _level, _words in enumerate(
    ("lor", "lxor", "land", "bor", "bxor", "band", "bshl bshr bshru", "+ -", "* / %"), start=1
):
    for _word in _words.split():
        INFIX[_word] = (_level, _level + 1)

UNARY = 10
PREFIX = {"-": "neg", "bnot": "bnot", "lnot": "lnot"}
"""Prefix operator -> the function it calls. Its precedence is between `*` and `^`: `-X ^ 2` is `-(X ^ 2)`."""

INFIX["^"] = (11, 10)

COMPARISONS = conditions.COMPARISONS
AGGREGATES = aggregates.AGGREGATES
TESTS = frozenset(name for name, test in conditions.TESTS.items() if test.arguments)
STATES = ("old", "inserted", "deleted", "updated")
