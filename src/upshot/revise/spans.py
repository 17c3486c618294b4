"""Sets of values as spans between bounds: what an aggregate may come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from upshot.core.types import Kind, Type
from upshot.syntax.ast import Constant
from upshot.syntax.printing import print_term


@dataclass(frozen=True, slots=True)
class Span:
    """All values from `low` to `high`, None being no bound; an open bound is not itself among them. NULL is only where
    there is no bound at all."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: Any) -> bool:
        if value is None:
            return self.low is None and self.high is None
        return _above(value, self.low, self.low_open) and _below(value, self.high, self.high_open)

    @property
    def is_empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high or (self.low == self.high and (self.low_open or self.high_open)))


Spans = tuple[Span, ...]
ANY: Spans = (Span(),)


def point(value: Any) -> Span:
    return Span(value, value)


def compared(op: str, value: Any, type: Type) -> Spans:
    """The values of a type of which a comparison with this value is true; of integers the bounds are closed."""
    whole = type.kind in (Kind.NUMBER, Kind.UNSIGNED)
    match op:
        case "=":
            return (point(value),)
        case "!=":
            return without(ANY, point(value))
        case "<":
            return (Span(None, value - 1) if whole else Span(None, value, high_open=True),)
        case "<=":
            return (Span(None, value),)
        case ">":
            return (Span(value + 1) if whole else Span(value, low_open=True),)
        case _:
            return (Span(value),)


def common(first: Spans, second: Spans) -> Spans:
    """What is in both."""
    made = (_both(one, other) for one in first for other in second)
    return tuple(each for each in made if not each.is_empty)


def without(spans: Spans, cut: Span) -> Spans:
    """What is left of the spans outside another."""
    left = () if cut.low is None else (Span(None, cut.low, high_open=not cut.low_open),)
    right = () if cut.high is None else (Span(cut.high, None, low_open=not cut.high_open),)
    return common(spans, (*left, *right))


def closed(spans: Spans, type: Type) -> Spans:
    """The spans with closed bounds where the type has whole numbers only."""
    if type.kind not in (Kind.NUMBER, Kind.UNSIGNED):
        return spans
    made = (
        Span(
            None if each.low is None else each.low + each.low_open,
            None if each.high is None else each.high - each.high_open,
        )
        for each in spans
    )
    return tuple(each for each in made if not each.is_empty)


def around(spans: Spans, value: Any) -> Span:
    """The span that holds a value; the value alone if none does."""
    return next((each for each in spans if value in each), point(value))


def is_among(value: Any, spans: Iterable[Span]) -> bool:
    return any(value in each for each in spans)


def shifted(spans: Spans, distance: Any) -> Spans:
    """The spans, so much higher."""
    return tuple(
        replace(
            each,
            low=None if each.low is None else each.low + distance,
            high=None if each.high is None else each.high + distance,
        )
        for each in spans
    )


def mirrored(spans: Spans) -> Spans:
    """The negatives of what is in the spans."""
    return tuple(
        Span(
            None if each.high is None else -each.high,
            None if each.low is None else -each.low,
            each.high_open,
            each.low_open,
        )
        for each in spans
    )


def words(name: str, span: Span, type: Type) -> tuple[str, ...]:
    """That something lies in the span, bound by bound."""
    found = []
    if span.low is not None:
        found.append(f"{name} {'>' if span.low_open else '>='} {print_term(Constant(span.low, type))}")
    if span.high is not None:
        found.append(f"{name} {'<' if span.high_open else '<='} {print_term(Constant(span.high, type))}")
    return tuple(found)


def _both(one: Span, other: Span) -> Span:
    low, low_open = one.low, one.low_open
    if low is None or (other.low is not None and (other.low, other.low_open) > (low, low_open)):
        low, low_open = other.low, other.low_open
    high, high_open = one.high, one.high_open
    if high is None or (other.high is not None and (other.high, not other.high_open) < (high, not high_open)):
        high, high_open = other.high, other.high_open
    return Span(low, high, low_open, high_open)


def _above(value: Any, low: Any, is_open: bool) -> bool:
    return bool(low is None or value > low or (value == low and not is_open))


def _below(value: Any, high: Any, is_open: bool) -> bool:
    return bool(high is None or value < high or (value == high and not is_open))
