"""Set operations between frames of rows: NULL is NULL and NaN is NaN, as in sets."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.core.types import Type
from upshot.engine.spark.one_task import beside, in_one_part, sent
from upshot.engine.spark.spark_types import framed


def within(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None = None, *, small: bool
) -> DataFrame:
    """The rows whose columns (all, unless told which) occur as a row of `keys`; `small`: the keys fit on every
    worker. `types` are those of the columns compared."""
    return _joined(frame, keys, types, columns, "left_semi", small)


def without(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None = None, *, small: bool
) -> DataFrame:
    """The rows whose columns do not occur in `keys`."""
    return _joined(frame, keys, types, columns, "left_anti", small)


def _joined(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None, how: str, small: bool
) -> DataFrame:
    kinds = framed(types)
    places = columns if columns else range(len(kinds))
    names = [f"k{number}" for number in range(len(kinds))]
    renamed = keys.toDF(*names)
    pairs = [_equal(f"c{place}", name, type) for place, name, type in zip(places, names, kinds, strict=True)]
    condition = functools.reduce(operator.and_, pairs)
    return in_one_part(frame).join(sent(renamed) if small else beside(renamed), condition, how)


def _equal(column: str, key: str, type: Type) -> Column:
    left, right = F.col(column), F.col(key)
    return left.eqNullSafe(right) if type.nullable else left == right
