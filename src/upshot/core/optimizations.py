"""The optimizations of engines. Each can be switched off: answers are the same, counters of work are greater."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Optimizations:
    """`sip`: sideways information passing; literals are joined in the order of bound variables. `event_paths`: only
    events that have a subscriber, or that can change a result, are propagated. `partial_evaluation`: constants are
    pushed down into copies of rules. `screening`: changes that match no literal start no rule. `memo`: answers are
    cached."""

    sip: bool = True
    event_paths: bool = True
    partial_evaluation: bool = True
    screening: bool = True
    memo: bool = True


ALL = Optimizations()
NAMES = tuple(each.name for each in fields(Optimizations))


def optimizations(chosen: bool | Collection[str]) -> Optimizations:
    """All, none, or those of these names.

    >>> optimizations(["sip"])
    Optimizations(sip=True, event_paths=False, partial_evaluation=False, screening=False, memo=False)
    """
    if isinstance(chosen, bool):
        return Optimizations(*(chosen for _ in NAMES))
    if isinstance(chosen, str) or not all(isinstance(name, str) for name in chosen):
        raise UsageError("`optimize` must be True, False or names", code="wrong-argument", help=", ".join(NAMES))
    for name in chosen:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"the optimizations are {', '.join(NAMES)}"
            raise UsageError(f"unknown optimization `{name}`", code="wrong-argument", help=hint)
    return Optimizations(*(name in chosen for name in NAMES))
