"""Set operations between frames of rows: NULL is NULL and NaN is NaN, as in sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.core.types import Type
from upshot.engine.spark.frames.one_task import beside, in_one_part, sent
from upshot.spark.types import framed


def within(
    frame: DataFrame, keys: DataFrame, types: Sequence[Type], columns: Sequence[int] | None = None, *, small: bool
) -> DataFrame:
    """The rows whose columns (by default all) occur as a row of `keys`; `small`: the keys fit on every worker. `types`
    are those of the columns compared."""
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
    condition = all_equal(
        (f"c{place}", name, type.nullable) for place, name, type in zip(places, names, kinds, strict=True)
    )
    return in_one_part(frame).join(sent(renamed) if small else beside(renamed), condition, how)


def all_equal(pairs: Iterable[tuple[str, str, bool]]) -> Column:
    """Columns by name, each equal to another; NULL to NULL only where it is said. As text: an equation made in Python
    is some calls to Java."""
    return F.expr(" AND ".join(f"{left} {'<=>' if null_safe else '='} {right}" for left, right, null_safe in pairs))
