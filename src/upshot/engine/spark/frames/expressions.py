"""Comparisons, functors and tests as Spark columns, with the results and the errors of the local engine.

Spark evaluates an expression where it likes: below a join, twice, or not at all. A computation that can fail must
fail for the bindings that satisfy all other literals, and for no others. So it is made part of a projection that
is not deterministic: Spark then moves nothing across it, and evaluates it for exactly the rows that arrive.
(Without that, Spark 4.2 was seen to push `coalesce(try_add(…), raise_error(…)) > 3` below a join.)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from upshot.core.errors import Error, UsageError
from upshot.core.schema import Schema
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.engine.spark.frames.functor_udfs import Functor, Predicate, functions_in_use, python_column, rule_error
from upshot.plan.rule_plan import Check, Compare, Compute, Operand, RulePlan, Same
from upshot.spark.failures import marked, place
from upshot.spark.types import DECIMAL_DIGITS, literal, spark_type
from upshot.syntax import print_term
from upshot.syntax.ast import Call, Constant, Variable
from upshot.values.conditions import COMPARISONS, TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import bare_name, is_functor, is_stateful
from upshot.values.records import call_in_words, overflow, too_long


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The context of an expression in its rule: the types of the variables, their columns, and the rule's name in
    errors."""

    types: Mapping[str, Type] = field(hash=False)
    columns: Mapping[str, str] = field(hash=False)
    rule: str
    place: str

    @classmethod
    def of(cls, plan: RulePlan, columns: Mapping[str, str]) -> ExpressionContext:
        rule = f"in the rule for `{plan.head}({', '.join(map(print_term, plan.arguments))})`"
        return cls(plan.types, columns, rule, place(plan.clause.origin))

    def type(self, operand: Operand) -> Type:
        if isinstance(operand, Variable):
            return self.types[operand.name]
        assert operand.type is not None
        return operand.type

    def column(self, operand: Operand) -> Column:
        if isinstance(operand, Variable):
            return F.col(self.columns[operand.name])
        return literal(operand.value, self.type(operand))


def can_be_null(operand: Operand, scope: ExpressionContext) -> bool:
    return operand.value is None if isinstance(operand, Constant) else scope.types[operand.name].nullable


def compared(step: Compare, scope: ExpressionContext) -> Column:
    """NULL where an operand is; Spark's own order has NaN equal to itself and above all numbers, text by code point."""
    made: Column = COMPARISONS[step.op].python(scope.column(step.left), scope.column(step.right))
    return made


def same(step: Same, scope: ExpressionContext) -> Column:
    return scope.column(step.left).eqNullSafe(scope.column(step.right))


def checked(step: Check, scope: ExpressionContext) -> Column:
    """Never NULL: a test with a NULL argument is false, its negation true."""
    test = TESTS[step.test.name]
    operands = [arg for arg in step.test.args if isinstance(arg, Variable | Constant)]
    columns = [scope.column(each) for each in operands]
    if test.spark is not None:
        holds = test.spark(F, columns)
    else:
        types = tuple(scope.type(each) for each in operands)
        holds = python_column(Predicate(test.name, types, scope.place), columns, fails=test.fails)
    known = holds if test.sees_null or not columns else F.coalesce(holds, F.lit(False))
    return ~known if step.negated else known


def check_fails(step: Check) -> bool:
    return TESTS[step.test.name].fails


def compute_fails(step: Compute, scope: ExpressionContext) -> bool:
    """Test whether the computation can fail."""
    if not isinstance(step.value, Call):
        return False
    return FUNCTIONS[step.value.function].fails(scope.types[step.target].kind)


def computed(step: Compute, scope: ExpressionContext) -> Column:
    """The target's value, NULL where an argument is NULL; raises, where it is evaluated, for a row without a value."""
    result = scope.types[step.target].widest()
    if not isinstance(step.value, Call):
        if isinstance(step.value, Constant):
            return literal(step.value.value, result)
        return scope.column(step.value)
    operands = [arg for arg in step.value.args if isinstance(arg, Variable | Constant)]
    columns = [scope.column(each) for each in operands]
    name, types = step.value.function, tuple(scope.type(each) for each in operands)
    fails = compute_fails(step, scope)
    expression = FUNCTIONS[name].meanings[types[0].kind].spark
    if any(each.is_wide for each in (result, *types)):
        # Spark rounds intermediate values of more than 38 digits.
        expression = None
    if expression is None:
        if is_functor(name):
            if is_stateful(name):
                raise UsageError(
                    f"stateful function `{bare_name(name)}` is called in a Spark job, which does not keep its values",
                    code="stateful-on-spark",
                    help="declare it `pure`, or run the view on the local engine",
                )
            function = functions_in_use().of(name)
            return python_column(Functor(name, result, types, scope.place, "", function), columns, fails=fails)
        rule = scope.rule if {result.kind, *(t.kind for t in types)} == {Kind.NUMBER} else ""
        return python_column(Functor(name, result, types, scope.place, rule), columns, fails=fails)
    call = NativeCall(name, columns, types, result, scope)
    native = call.fitting(expression(call)) if fails else expression(call)
    present = [c.isNotNull() for c, each in zip(columns, operands, strict=True) if can_be_null(each, scope)]
    conditions = [barrier(), *present] if fails else present
    return F.when(functools.reduce(operator.and_, conditions), native) if conditions else native


def barrier() -> Column:
    """Always true, and not deterministic for Spark, which evaluates a guarded expression for exactly the input rows."""
    return F.monotonically_increasing_id() >= 0


def reserved_checked(column: Column, type: Type, scope: ExpressionContext) -> Column:
    """The value of a nullable head column, which cannot hold one number (it is the code of NULL elsewhere)."""
    reserved = NUMBER_RANGE.start if type.kind is Kind.NUMBER else UNSIGNED_RANGE.stop - 1
    failure = _failure(rule_error("reserved-value", scope.rule), scope, type)
    return F.when(barrier() & (column == literal(reserved, type)), failure).otherwise(column)


def digits_checked(column: Column, schema: Schema, place: int, scope: ExpressionContext) -> Column:
    """The value of a head column that declares fewer digits than the value may have."""
    type = schema.types[place]
    bound = F.lit("1" + "0" * (type.precision - type.scale)).cast(f"decimal({DECIMAL_DIGITS + 1},0)")
    before, after = marked(too_long(schema, place, "\x01"), scope.place).split("\\u0001")
    message = F.concat(F.lit(before), column.cast("string"), F.lit(after))
    failure = F.raise_error(message).cast(spark_type(type))
    return F.when(barrier() & (F.abs(column) >= bound), failure).otherwise(column)


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A call of a function as an expression of Spark; arguments that are NULL may give anything."""

    name: str
    columns: list[Column] = field(hash=False)
    types: tuple[Type, ...]
    result: Type
    scope: ExpressionContext

    @property
    def F(self) -> Any:
        return F

    def failure(self, code: str) -> Column:
        """Raises the error that the local engine reports: of numbers it names the rule, of other kinds the values."""
        if self.result.kind is Kind.NUMBER:
            return _failure(rule_error(code, self.scope.rule), self.scope, self.result)
        text = marked(overflow(call_in_words(self.name, ["\x01"] * len(self.columns)), self.result), self.scope.place)
        first, *rest = text.split("\\u0001")
        parts = [F.lit(first)]
        for column, after in zip(self.columns, rest, strict=True):
            parts += [column.cast("string"), F.lit(after)]
        return F.raise_error(F.concat(*parts)).cast(spark_type(self.result))

    def fitting(self, value: Column) -> Column:
        """The exact value as one of the result's type, or the overflow; a NULL is out of every range."""
        match self.result.kind:
            case Kind.UNSIGNED:
                fits = (value >= 0) & (value <= literal(UNSIGNED_RANGE.stop - 1, self.result))
            case Kind.DECIMAL:
                # In a type of just as many digits: next to a wider one without decimals, Spark would round the value.
                digits = self.result.precision - self.result.scale + 1
                fits = F.abs(value) < F.lit("1" + "0" * (digits - 1)).cast(f"decimal({digits},0)")
            case _:
                return value
        return F.when(fits, value.cast(spark_type(self.result))).otherwise(self.failure("overflow"))


def _failure(error: Error, scope: ExpressionContext, type: Type) -> Column:
    return F.raise_error(F.lit(marked(error, scope.place))).cast(spark_type(type))
