"""The bound on firings that cause each other, and the error that shows the cycle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from upshot.check.program import CheckedRule
from upshot.core.errors import RuleError
from upshot.core.rows import Rows
from upshot.syntax import print_atom
from upshot.syntax.ast import Atom, Constant

_LONGEST = 20
"""Rules of a cycle that the message lists."""


class Cascade:
    def __init__(self, most: int) -> None:
        self._most = most
        self._trace: list[str] = []
        self._steps: list[tuple[CheckedRule, Rows]] = []

    def enter(self, rule: CheckedRule, rows: Rows) -> None:
        """Count a firing; `RuleError` beyond the bound."""
        self._trace.append(rule.name)
        self._steps.append((rule, rows))
        if len(self._trace) > self._most:
            raise self._runaway(rule)

    def _runaway(self, rule: CheckedRule) -> RuleError:
        period = repeats(self._trace)
        steps = [_step(*step) for step in self._steps[-min(period, _LONGEST) :]]
        shown = "; ".join(steps)
        more = f" (the last {_LONGEST} of {period} rules)" if period > _LONGEST else ""
        names = self._trace[-period:]
        cycle = " → ".join(f"`{name}`" for name in [*names[:_LONGEST], *([names[0]] if period <= _LONGEST else ["…"])])
        return RuleError(
            f"the rules did not terminate within {self._most:,} firings: {cycle}{more}. One round: {shown}",
            code="runaway-rules",
            span=rule.span,
            trace=tuple(names),
            help="nothing was committed; make a condition false by its own action, or raise `max_firings`",
        )


def endless(trace: Sequence[str], most: int) -> RuleError:
    """The error for rules that fire each other in transaction after transaction."""
    names = trace[-min(repeats(trace), _LONGEST) :]
    cycle = " → ".join(f"`{name}`" for name in [*names, names[0]])
    return RuleError(
        f"rules after the commit did not terminate within {most:,} transactions: {cycle}",
        code="runaway-rules",
        trace=names,
        help="committed transactions stay, the rest was dropped; make a condition false by its own action",
    )


def repeats(names: Sequence[str]) -> int:
    """The length of the shortest cycle that ends the sequence at least twice; without one, the length of the sequence.

    >>> repeats("xabab"), repeats("abc"), repeats("aa")
    (2, 3, 1)
    """
    length = len(names)
    for period in range(1, length // 2 + 1):
        if names[length - period :] == names[length - 2 * period : length - period]:
            return period
    return length


def _step(rule: CheckedRule, rows: Rows) -> str:
    """Text such as `reorder` inserts order(1, 2)."""
    row = next(islice(rows, 1))
    steps = []
    for action in rule.actions:
        values = [Constant(row[place], rows.schema.columns[place].type) for place in action.columns]
        verb = {"insert": "inserts", "delete": "deletes", "call": "calls"}[action.kind]
        steps.append(f"{verb} {print_atom(Atom(action.target, tuple(values)))}")
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return f"`{rule.name}` {', '.join(steps)}{more}"
