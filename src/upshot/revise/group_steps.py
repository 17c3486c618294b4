"""Which rows of a group have to go, or to come, for an aggregate to come to another value.

A step names rows such that every state in which the value is an allowed one differs in one of them from the state as
it is: a count that is to fall loses a row, a sum that is to grow loses a negative row or gains a positive one, a least
value that is to rise loses all rows below the new one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from upshot.revise.folds import Fold
from upshot.revise.request import Row
from upshot.revise.spans import ANY, Span, Spans, common, shifted


@dataclass(frozen=True, slots=True)
class Steps:
    """Either one row of `one_of` goes; or all of `together` go; or none of `one_of` goes and a row comes that adds
    something in `new` to the fold. A new row that adds something in `decisive` is enough by itself. There are at least
    so many changes of rows to make."""

    one_of: tuple[Row, ...] = ()
    together: tuple[Row, ...] = ()
    new: Spans = ()
    decisive: Spans = ()
    leaving: int = 1
    coming: int = 1


def steps(fold: Fold, rows: Sequence[Row], value: Any, allowed: Spans, *, absent: bool) -> Steps:
    """The steps that lead a group with these rows and this value to an allowed value, or to none if `absent`."""
    higher = () if value is None else common(allowed, (Span(value, None, low_open=True),))
    lower = () if value is None else common(allowed, (Span(None, value, high_open=True),))
    match fold.function:
        case "count":
            return _count(rows, value or 0, allowed, higher, lower, absent=absent)
        case "min" | "max":
            return _extreme(fold, rows, value, allowed, (higher, lower), absent=absent)
        case _:
            return _total(fold, rows, value, allowed, (higher, lower), absent=absent)


def _count(rows: Sequence[Row], value: int, allowed: Spans, higher: Spans, lower: Spans, *, absent: bool) -> Steps:
    if not rows:
        return Steps(new=ANY, coming=_least(allowed, 1))
    most = max((each.high - each.high_open for each in lower), default=0)
    may_fall = most > 0
    return Steps(
        one_of=tuple(rows) if may_fall else (),
        together=tuple(rows) if absent and not may_fall else (),
        new=ANY if higher else (),
        leaving=value - most if may_fall else len(rows),
        coming=_least(higher, value + 1) - value,
    )


def _least(spans: Spans, least: int) -> int:
    """The least number of rows that the spans allow, from so many on."""
    lows = [least if each.low is None else max(least, each.low + each.low_open) for each in spans]
    return min(lows, default=least)


def _extreme(
    fold: Fold, rows: Sequence[Row], value: Any, allowed: Spans, sides: tuple[Spans, Spans], *, absent: bool
) -> Steps:
    known = [row for row in rows if fold.folded(row) is not None]
    if value is None:
        return Steps(new=allowed, decisive=allowed)
    inward, outward = sides if fold.function == "min" else sides[::-1]
    if inward:
        going = tuple(row for row in known if _is_outside(fold.folded(row), inward, fold.function))
    else:
        going = tuple(known) if absent else ()
    return Steps(together=going, new=outward, decisive=outward)


def _is_outside(value: Any, inward: Spans, function: str) -> bool:
    """Whether a row with this value keeps the extreme from reaching the spans."""
    if function == "min":
        return all(each.low is not None and (value < each.low or (value == each.low and each.low_open))
                   for each in inward)  # fmt: skip
    return all(each.high is not None and (value > each.high or (value == each.high and each.high_open))
               for each in inward)  # fmt: skip


def _total(
    fold: Fold, rows: Sequence[Row], value: Any, allowed: Spans, sides: tuple[Spans, Spans], *, absent: bool
) -> Steps:
    """Of sums and means: what lies above the balance and what lies below it pull in opposite directions."""
    added = [fold.folded(row) for row in rows]
    known = [each for each in added if each is not None]
    if not known:
        return Steps(together=tuple(rows) if absent else (), new=ANY, decisive=allowed)
    if not all(map(math.isfinite, known)):
        return Steps(one_of=tuple(rows), new=ANY)
    balance = Fraction(0) if fold.function == "sum" else sum(map(Fraction, known), Fraction(0)) / len(known)
    higher, lower = sides
    one_of = tuple(
        row
        for row, each in zip(rows, added, strict=True)
        if each is not None and ((higher and each < balance) or (lower and each > balance))
    )
    new = (Span(balance, None, low_open=True),) * bool(higher) + (Span(None, balance, high_open=True),) * bool(lower)
    if fold.function == "sum":
        decisive = shifted(common(allowed, (*higher, *lower)), -value)
    else:
        decisive = _scaled(common(allowed, (*higher, *lower)), len(known) + 1, sum(map(Fraction, known), Fraction(0)))
    return Steps(one_of=one_of, together=tuple(rows) if absent and not one_of else (), new=new, decisive=decisive)


def _scaled(spans: Spans, count: int, total: Fraction) -> Spans:
    """What one more value has to be for the mean of so many to lie in the spans."""
    return tuple(
        Span(
            None if each.low is None else Fraction(each.low) * count - total,
            None if each.high is None else Fraction(each.high) * count - total,
            each.low_open,
            each.high_open,
        )
        for each in spans
    )
