"""The optimizations of engines. Every one can be switched off: the answers stay the same, the counters grow."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Optimizations:
    """`sip`: the literals of a rule are joined from what is bound outward. `event_paths`: only events that have a
    listener, or that can change a result, are propagated. `partial_evaluation`: constants are pushed down into copies
    of rules. `screening`: changes that no literal can match start no rule. `memo`: known answers are not queried
    again."""

    sip: bool = True
    event_paths: bool = True
    partial_evaluation: bool = True
    screening: bool = True
    memo: bool = True


ALL = Optimizations()
NAMES = tuple(each.name for each in fields(Optimizations))


def optimizations(given: bool | Collection[str]) -> Optimizations:
    """All, none, or those that are named.

    >>> optimizations(["sip"])
    Optimizations(sip=True, event_paths=False, partial_evaluation=False, screening=False, memo=False)
    """
    if isinstance(given, bool):
        return Optimizations(*(given for _ in NAMES))
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise UsageError("`optimize` must be True, False or names", code="wrong-argument", help=", ".join(NAMES))
    for name in given:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"the optimizations are {', '.join(NAMES)}"
            raise UsageError(f"unknown optimization `{name}`", code="wrong-argument", help=hint)
    return Optimizations(*(name in given for name in NAMES))
