"""Sums that round once, however the rows are spread: a float is taken apart into whole numbers, which add up exactly.

A finite float is `(high · 2²⁶ + low) · 2^exponent` with whole numbers below 2²⁷. Spark adds up highs and lows per
exponent, in 64 bits and partly before it shuffles, so that a group of half the rows does no harm; the few exponents of
a group are put together at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.core.types import Type, decimal_of
from upshot.engine.spark.frames.functor_udfs import arrow_function
from upshot.engine.spark.frames.one_task import in_one_part
from upshot.spark.types import arrow_values, canonical_float, spark_type
from upshot.values.numeric_functions import quotient

_DIGITS = 53
_LOW_BITS = 26
# Exponents that no finite float has.
_NAN, _HIGH, _LOW = 5000, 5001, 5002
_PART = pa.struct([("exponent", pa.int32()), ("high", pa.int64()), ("low", pa.int64())])


def float_sums(rows: DataFrame, groups: list[str], value: Column, *, mean: bool) -> DataFrame:
    """The group columns, `rows` (how many there are), `values` (how many are not NULL) and `total`: the float nearest
    to the exact sum of the values, or to their mean; 0.0 where there is none."""
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
