"""Aggregates of whole groups, exact and safe against skew: everything is added up partly before it is shuffled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from upshot.check.program import Clause
from upshot.core.errors import Error, OverflowError_
from upshot.core.schema import Schema
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type, scaled_integer
from upshot.engine.spark.frames.exact_sums import averages, float_sums, whole_means
from upshot.engine.spark.frames.functions_in_use import functions_in_use
from upshot.engine.spark.frames.functor_udfs import arrow_function
from upshot.engine.spark.frames.one_task import in_one_part
from upshot.engine.user_functions import UserFunction, folded
from upshot.rewrite.shapes import conjunction
from upshot.spark.failures import CarriedError, marked, place
from upshot.spark.types import DECIMAL_DIGITS, arrow_values, column_names, literal, python_values, spark_type
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.functors import is_functor
from upshot.values.records import RunningState

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
    fold = _Fold.of(clause, schemas)
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
    # Without group columns Spark gives one row even for no rows at all.
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
            # A group without values has no row; what stands here for it is filtered out.
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
class _Fold:
    """A fold: `target` is the column or constant, of type `type`; `result` the type of the value."""

    clause: Clause
    function: str
    width: int
    target: Column
    type: Type
    result: Type

    @classmethod
    def of(cls, clause: Clause, schemas: Mapping[str, Schema]) -> _Fold:
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
