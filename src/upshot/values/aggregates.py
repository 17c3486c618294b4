"""The aggregates, one record each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from upshot.core.types import QUOTIENT_PLACES, Kind, Type, most_digits
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import fold_record, is_fold, is_functor
from upshot.values.numeric_functions import quotient
from upshot.values.records import BuiltinAggregate, RunningState
from upshot.values.signatures import INTEGER, NUMERIC, ORDERED, Signature, fixed, only, uniform
from upshot.values.sort_keys import kth
from upshot.values.windows import sequence


def _sum(values: Sequence[Any], type: Type) -> Any:
    """The exact sum; of floats, the float nearest to it, so that the order does not matter."""
    if type.kind is not Kind.FLOAT:
        with localcontext(prec=120):
            return sum(values, Decimal(0) if type.kind is Kind.DECIMAL else 0)
    endless = [value for value in values if not math.isfinite(value)]
    return sum(endless) if endless else rounded(sum(map(Fraction, values), Fraction(0)))


def rounded(exact: Fraction | int) -> float:
    """The nearest float, infinite beyond the largest."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _mean(values: Sequence[Any], type: Type) -> float:
    total = _sum(values, type)
    return total / len(values) if type.kind is Kind.FLOAT else float(Fraction(total) / len(values))


def _average(values: Sequence[Any], type: Type) -> Decimal:
    return quotient(_sum(values, type), len(values))


def average_type(type: Type) -> Type:
    """The type of the average of decimals."""
    scale = max(QUOTIENT_PLACES, type.scale)
    return Type(Kind.DECIMAL, precision=most_digits(scale), scale=scale)


def _median(values: Sequence[Any], type: Type) -> float:
    """The middle value, with NaN as the greatest; of an even number of values, the mean of the two middle ones."""
    ordered = sorted(values, key=lambda value: (value != value, value))
    half = len(ordered) // 2
    middle = ordered[half : half + 1] if len(ordered) % 2 else ordered[half - 1 : half + 1]
    return float(middle[0]) if len(middle) == 1 else _mean(middle, type)


def _extreme(name: str, values: Sequence[Any], type: Type) -> Any:
    pick = FUNCTIONS[name].meanings[type.kind].python
    return pick(*values) if len(values) > 1 else values[0]


_ALL = (
    BuiltinAggregate(
        "count", Signature((), INTEGER), lambda values, _: len(values), RunningState.ROWS,
        "count : { … }", "number of solutions; `unsigned` where its place says so",
        of_nothing=True, sql=(("Count", "count"),),
    ),
    BuiltinAggregate(
        "sum", uniform(NUMERIC, 1), _sum, RunningState.TOTAL,
        "sum a : { … }", "exact sum; of floats, the float nearest to it", of_nothing=True, sql=(("Sum", "sum"),),
    ),
    BuiltinAggregate(
        "min", uniform(ORDERED, 1), lambda values, type: _extreme("min", values, type), RunningState.EXTREME,
        "min a : { … }", "least value", sql=(("Min", "min"), ("LogicalAnd", "bool_and")),
    ),
    BuiltinAggregate(
        "max", uniform(ORDERED, 1), lambda values, type: _extreme("max", values, type), RunningState.EXTREME,
        "max a : { … }", "greatest value; NaN is above all numbers",
        sql=(("Max", "max"), ("LogicalOr", "bool_or")),
    ),
    BuiltinAggregate(
        "mean", fixed(only(Kind.FLOAT), NUMERIC), _mean, RunningState.TOTAL,
        "mean a : { … }", "exact sum, divided by the number of values", sql=(("Avg", "avg"),),
    ),
    BuiltinAggregate(
        "average", fixed(only(Kind.DECIMAL), only(Kind.DECIMAL)), _average, RunningState.TOTAL,
        "average a : { … }", "exact sum, divided by the number of values as `quotient` does; `avg` of decimals in SQL",
        computed=average_type,
    ),
    BuiltinAggregate(
        "median", fixed(only(Kind.FLOAT), NUMERIC), _median, RunningState.GROUP,
        "median a : { … }", "middle value, or the mean of the two middle values", sql=(("Median", "median"),),
    ),
    BuiltinAggregate(
        "kth", uniform(only(Kind.SYMBOL), 1), kth, RunningState.GROUP,
        "kth a : { … }", "k-th least of texts that begin with `k:`, or the greatest if there are fewer",
    ),
    BuiltinAggregate(
        "sequence", uniform(only(Kind.SYMBOL), 1), sequence, RunningState.GROUP,
        "sequence a : { … }", "distinct texts in order, one per line",
    ),
)  # fmt: skip


class _Aggregates(dict[str, BuiltinAggregate]):
    """The aggregates by name; folds of the user by their signatures."""

    def __missing__(self, name: str) -> BuiltinAggregate:
        if not is_functor(name) or not is_fold(name):
            raise KeyError(name)
        return fold_record(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and is_functor(name) and is_fold(name))

    def get(self, name: str, default: Any = None) -> Any:
        return fold_record(name) if is_functor(name) and is_fold(name) else super().get(name, default)


AGGREGATES: dict[str, BuiltinAggregate] = _Aggregates({each.name: each for each in _ALL})
