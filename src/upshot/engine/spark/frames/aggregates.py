"""Aggregates of whole groups, exact and safe against skew: everything is added up partly before it is shuffled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.check.program import Clause
from upshot.core.errors import Error, OverflowError_
from upshot.core.schema import Schema
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type, decimal_of, scaled_integer
from upshot.engine.spark.frames.functor_udfs import arrow_function, functions_in_use
from upshot.engine.spark.frames.joins import in_one_part
from upshot.engine.user_functions import UserFunction, folded
from upshot.rewrite.shapes import conjunction
from upshot.spark.failures import CarriedError, marked, place
from upshot.spark.types import (
    DECIMAL_DIGITS,
    arrow_values,
    canonical_float,
    column_names,
    literal,
    python_values,
    spark_type,
)
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.functors import is_functor
from upshot.values.numeric_functions import quotient
from upshot.values.records import RunningState

# ---- exact sums --------------------------------------------------------------------------------------------
# Sums that round once, in any distribution of the rows: a float is split into whole numbers, which add up exactly.
#
# A finite float is `(high · 2²⁶ + low) · 2^exponent` with whole numbers below 2²⁷. Spark adds up highs and lows per
# exponent, in 64 bits and partly before it shuffles, so that a group of half the rows does no harm; the few exponents
# of a group are put together at the end.


_DIGITS = 53
_LOW_BITS = 26
# Exponents that no finite float has.
_NAN, _HIGH, _LOW = 5000, 5001, 5002
_PART = pa.struct([("exponent", pa.int32()), ("high", pa.int64()), ("low", pa.int64())])


def float_sums(rows: DataFrame, groups: list[str], value: Column, *, mean: bool) -> DataFrame:
    """The group columns, `rows` (their number), `values` (the number that is not NULL) and `total`: the float nearest
    to the exact sum of the values, or to their mean; 0.0 without values."""
    taken_apart = arrow_function(take_apart, "exponent int, high long, low long")
    put_together = arrow_function(_means if mean else _sums, "double")
    taken = in_one_part(rows).select(*groups, taken_apart(value).alias("part"))
    per_exponent = taken.groupBy(*groups, F.col("part.exponent").alias("exponent")).agg(
        F.count(F.lit(1)).alias("count"),
        F.sum("part.high").alias("high"),
        F.sum("part.low").alias("low"),
    )
    is_value = F.col("exponent").isNotNull()
    part = F.struct("exponent", "high", "low", "count")
    per_group = per_exponent.groupBy(*groups).agg(
        F.sum("count").alias("rows"),
        F.coalesce(F.sum(F.when(is_value, F.col("count"))), F.lit(0)).alias("values"),
        F.collect_list(F.when(is_value, part)).alias("parts"),
    )
    return per_group.select(*groups, "rows", "values", put_together("parts").alias("total"))


def whole_means(total: Column, values: Column, scale: int) -> Column:
    """The float nearest to `total / (values · 10^scale)`; the total is a whole number of up to 38 digits."""
    return arrow_function(_WholeMeans(scale), "double")(total, values)


def averages(total: Column, values: Column, scale: int, result: Type) -> Column:
    """The quotient of `total / 10^scale` and `values` as a decimal of the result's type."""
    return arrow_function(_Averages(scale, result), spark_type(result))(total, values)


# ---- on the workers ----------------------------------------------------------------------------------------


def take_apart(values: pa.Array) -> pa.Array:
    """Each float as exponent, high and low; NULL stays NULL."""
    floats = np.asarray(values.fill_null(0.0), np.float64)
    finite = np.isfinite(floats)
    fraction, exponent = np.frexp(np.where(finite, floats, 0.0))
    whole = np.ldexp(fraction, _DIGITS).astype(np.int64)
    exponent = exponent.astype(np.int32) - _DIGITS
    special = np.where(np.isnan(floats), _NAN, np.where(floats > 0, _HIGH, _LOW)).astype(np.int32)
    exponents = pa.array(np.where(finite, exponent, special))
    high, low = pa.array(whole >> _LOW_BITS), pa.array(whole & ((1 << _LOW_BITS) - 1))
    missing = values.is_null()
    return pa.StructArray.from_arrays([exponents, high, low], fields=list(_PART), mask=missing)


def exact_sum(parts: Iterable[dict[str, Any]]) -> Fraction | float:
    """The sum of the parts of a group; a float where infinities or NaN are among the values."""
    total, endless = Fraction(0), set()
    for part in parts:
        exponent = part["exponent"]
        if exponent in (_NAN, _HIGH, _LOW):
            endless.add(exponent)
            continue
        whole = (part["high"] << _LOW_BITS) + part["low"]
        total += Fraction(whole << exponent) if exponent >= 0 else Fraction(whole, 1 << -exponent)
    if _NAN in endless or len(endless) > 1:
        return math.nan
    return total if not endless else math.inf if _HIGH in endless else -math.inf


def nearest(total: Fraction | float) -> float:
    """The nearest float; beyond the largest one there is only infinity."""
    try:
        return canonical_float(float(total))
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _sum_of(parts: list[dict[str, Any]]) -> float:
    return nearest(exact_sum(parts))


def _mean_of(parts: list[dict[str, Any]]) -> float:
    count = sum(part["count"] for part in parts)
    return canonical_float(_sum_of(parts) / count) if count else 0.0


def _sums(groups: pa.Array) -> pa.Array:
    return pa.array([_sum_of(parts) for parts in groups.to_pylist()], pa.float64())


def _means(groups: pa.Array) -> pa.Array:
    return pa.array([_mean_of(parts) for parts in groups.to_pylist()], pa.float64())


@dataclass(frozen=True, slots=True)
class _WholeMeans:
    scale: int

    def __call__(self, totals: pa.Array, counts: pa.Array) -> pa.Array:
        unit = 10**self.scale
        pairs = zip(totals.to_pylist(), counts.to_pylist(), strict=True)
        means = [None if not count else float(Fraction(int(total), count * unit)) for total, count in pairs]
        return pa.array(means, pa.float64())


@dataclass(frozen=True, slots=True)
class _Averages:
    scale: int
    result: Type

    def __call__(self, totals: pa.Array, counts: pa.Array) -> pa.Array:
        pairs = zip(totals.to_pylist(), counts.to_pylist(), strict=True)
        means = [None if not count else quotient(decimal_of(int(total), self.scale), count) for total, count in pairs]
        return arrow_values(means, self.result)


# ---- aggregates --------------------------------------------------------------------------------------------


_WHOLE = "decimal(28,0)"
"""A sum of these has 38 digits: room for ten billion billion values of 64 bits."""


def groups(rows: DataFrame, width: int) -> DataFrame:
    """The groups that the rows belong to, each once; the group of no columns is a row of one true column."""
    if width == 0:
        return rows.select(F.lit(True).alias("c0")).limit(1)
    return in_one_part(rows).select(*column_names(width)).distinct()


def group_values(clause: Clause, schemas: Mapping[str, Schema], rows: DataFrame) -> DataFrame:
    """A row per group of `rows`: the group's columns and its value, as columns of the view that the clause defines.

    The clause is `agg(G…, V) :- aux(G…, _…), V = f T : { aux(G…, L…) }.` and `rows` are all rows of aux of the
    requested groups. NULL is skipped, except by `count`; a group in which `min`, `max` or `mean` finds nothing has no
    row.
    """
    fold = _ColumnFold.of(clause, schemas)
    names = column_names(fold.width)[: fold.width]
    known = AGGREGATES[fold.function]
    match known.running:
        case RunningState.TOTAL if fold.type.kind is Kind.FLOAT:
            made = float_sums(rows, names, fold.target, mean=fold.function == "mean")
            value = F.col("total")
        case RunningState.TOTAL if not fold.type.is_wide:
            total = F.coalesce(F.sum(fold.whole()), F.lit(0).cast("decimal(38,0)"))
            made = _grouped(rows, names, F.count(fold.target).alias("values"), total.alias("total"))
            value = fold.total() if fold.function == "sum" else fold.mean()
        case RunningState.ROWS:
            made = _grouped(rows, names)
            value = F.col("rows").cast(spark_type(fold.result))
        case RunningState.GROUP | RunningState.TOTAL:
            values = F.collect_list(fold.target)
            made = _grouped(rows, names, F.count(fold.target).alias("values"), values.alias("group"))
            own = functions_in_use().of(fold.function) if is_functor(fold.function) else None
            work = GroupFold(fold.function, fold.type, fold.result, place(clause.origin), own)
            value = arrow_function(work, spark_type(fold.result)).asNondeterministic()(F.col("group"))
        case RunningState.EXTREME:
            pick = F.max if fold.function == "max" else F.min
            made = _grouped(rows, names, F.count(fold.target).alias("values"), pick(fold.target).alias("best"))
            value = F.col("best")
    # Without group columns Spark returns one row even for an empty frame.
    present = F.col("rows") > 0
    if not known.of_nothing:
        present &= F.col("values") > 0
    return made.filter(present).select(*names, value.alias(f"c{fold.width}"))


@dataclass(frozen=True, slots=True)
class GroupFold:
    """An aggregate that only Python computes, over lists of the values of groups. Pickled by name, as functors are."""

    function: str
    type: Type
    result: Type
    place: str
    function_of_users: UserFunction | None = None

    def __call__(self, groups: pa.Array) -> pa.Array:
        sizes = groups.value_lengths().to_pylist()
        values = iter(python_values(groups.flatten(), self.type))
        try:
            # A group without values has no row: its placeholder is filtered out.
            found = [self._folded(list(islice(values, size))) if size or self.of_nothing else None for size in sizes]
        except Error as error:
            raise CarriedError(marked(error, self.place)) from None
        return arrow_values(found, self.result)

    def _folded(self, values: list[Any]) -> Any:
        if self.function_of_users is not None:
            return folded(self.function, self.function_of_users, values)
        value = AGGREGATES[self.function].python(values, self.type)
        if self.result.is_wide and abs(scaled_integer(value, self.result.scale)) >= 10**self.result.precision:
            raise outside(self.function, f"{value:f}", self.result)
        return value

    @property
    def of_nothing(self) -> bool:
        return self.function_of_users is None and AGGREGATES[self.function].of_nothing


def outside(function: str, value: str, result: Type) -> OverflowError_:
    """The error of an aggregate whose value its type cannot hold."""
    help = "use smaller values, or floats" if result.kind is Kind.DECIMAL else "use floats or decimals"
    what = f"the {function} of a group is `{value}`, which is outside the range of `{result}`"
    return OverflowError_(what, code="overflow", help=help)


def _grouped(rows: DataFrame, names: list[str], *folds: Column) -> DataFrame:
    return in_one_part(rows).groupBy(*names).agg(F.count(F.lit(1)).alias("rows"), *folds)


@dataclass(frozen=True, slots=True)
class _ColumnFold:
    """A fold: `target` is the column or constant, of type `type`; `result` the type of the value."""

    clause: Clause
    function: str
    width: int
    target: Column
    type: Type
    result: Type

    @classmethod
    def of(cls, clause: Clause, schemas: Mapping[str, Schema]) -> _ColumnFold:
        comparison = clause.body[-1]
        assert isinstance(comparison, Comparison)
        aggregate = comparison.right
        assert isinstance(aggregate, Aggregate)
        (body,) = conjunction(aggregate.body)
        assert isinstance(body, Atom)
        head = schemas[clause.head.relation]
        result = head.columns[-1].type
        target, type = F.lit(1), result
        match aggregate.target:
            case Variable(name):
                position = [arg.name if isinstance(arg, Variable) else None for arg in body.args].index(name)
                target, type = F.col(f"c{position}"), schemas[body.relation].columns[position].type
            case Constant(value, known) if known is not None:
                target, type = literal(value, known), known
            case _:
                pass
        return cls(clause, aggregate.function, head.arity - 1, target, type, result)

    @property
    def scale(self) -> int:
        return self.type.scale if self.type.kind is Kind.DECIMAL else 0

    def whole(self) -> Column:
        """The target as a whole number: a decimal by its digits."""
        if not self.scale:
            return self.target.cast(_WHOLE)
        # 18 digits times a power of ten of up to 19 digits: 37 digits, exactly.
        return (self.target * F.lit("1" + "0" * self.scale).cast(f"decimal({self.scale + 1},0)")).cast(_WHOLE)

    def total(self) -> Column:
        """The column `total` in the type of the result, or the error that it leaves its range."""
        total = F.col("total")
        low, high = self._bounds()
        fits = (total >= _whole(low)) & (total <= _whole(high))
        return F.when(fits, self._scaled(total)).otherwise(self._overflow(total))

    def mean(self) -> Column:
        """The mean from the columns `total` and `values`: a float, or of decimals by `average` a decimal."""
        if self.function == "mean":
            return whole_means(F.col("total"), F.col("values"), self.scale)
        return averages(F.col("total"), F.col("values"), self.scale, self.result)

    def _bounds(self) -> tuple[int, int]:
        match self.result.kind:
            case Kind.NUMBER:
                return NUMBER_RANGE[0], NUMBER_RANGE[-1]
            case Kind.UNSIGNED:
                return UNSIGNED_RANGE[0], UNSIGNED_RANGE[-1]
            case _:
                return -(10**DECIMAL_DIGITS) + 1, 10**DECIMAL_DIGITS - 1

    def _scaled(self, total: Column) -> Column:
        if not self.scale:
            return total.cast(spark_type(self.result))
        unit = F.lit("0." + "0" * (self.scale - 1) + "1").cast(f"decimal({self.scale},{self.scale})")
        return (total.cast(f"decimal({DECIMAL_DIGITS},0)") * unit).cast(spark_type(self.result))

    def _overflow(self, total: Column) -> Column:
        shown = f"\x01e-{self.scale}" if self.scale else "\x01"
        error = outside(self.function, shown, self.result)
        before, after = marked(error, place(self.clause.origin)).split("\\u0001")
        message = F.concat(F.lit(before), total.cast("string"), F.lit(after))
        return F.raise_error(message).cast(spark_type(self.result))


def _whole(number: int) -> Column:
    return F.lit(str(number)).cast("decimal(38,0)")
