"""Comparisons, functors and tests as Spark columns, with the results and the errors of the local engine.

Spark evaluates an expression where it likes: below a join, twice, or not at all. A computation that can fail must
fail for the bindings that satisfy all other literals, and for no others. So it is made part of a projection that
is not deterministic: Spark then moves nothing across it, and evaluates it for exactly the rows that arrive.
(Without that, Spark 4.2 was seen to push `coalesce(try_add(…), raise_error(…)) > 3` below a join.)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from upshot.core.errors import Error
from upshot.core.types import NUMBER, NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.engine.local.functors import overflow
from upshot.engine.spark.frames.functor_udfs import Functor, Predicate, python_column, rule_error
from upshot.plan.rule_plan import Check, Compare, Compute, Operand, RulePlan, Same
from upshot.spark.failures import marked, place
from upshot.spark.types import DECIMAL_DIGITS, literal, spark_type
from upshot.syntax import print_term
from upshot.syntax.ast import Call, Constant, Variable

_NEVER_FAILS = {"cat", "strlen", "substr", "ord", "to_string", "max", "min", "band", "bor", "bxor", "bnot", "bshr"}
_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression needs to know of its rule: the types of the variables, the columns that hold them, and how
    errors name the rule."""

    types: Mapping[str, Type] = field(hash=False)
    columns: Mapping[str, str] = field(hash=False)
    rule: str
    place: str

    @classmethod
    def of(cls, plan: RulePlan, columns: Mapping[str, str]) -> Scope:
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


def can_be_null(operand: Operand, scope: Scope) -> bool:
    return operand.value is None if isinstance(operand, Constant) else scope.types[operand.name].nullable


def compared(step: Compare, scope: Scope) -> Column:
    """NULL where an operand is; Spark's own order has NaN equal to itself and above all numbers, text by code point."""
    made: Column = _HOLDS[step.op](scope.column(step.left), scope.column(step.right))
    return made


def same(step: Same, scope: Scope) -> Column:
    return scope.column(step.left).eqNullSafe(scope.column(step.right))


def checked(step: Check, scope: Scope) -> Column:
    """Never NULL: a test with a NULL argument is false, its negation true."""
    name = step.test.name
    operands = [arg for arg in step.test.args if isinstance(arg, Variable | Constant)]
    columns = [scope.column(each) for each in operands]
    match name:
        case "true" | "false":
            return F.lit((name == "true") != step.negated)
        case "is_null":
            return columns[0].isNotNull() if step.negated else columns[0].isNull()
        case "contains":
            needle, text = columns
            holds = F.contains(text, needle)
        case _:
            types = tuple(scope.type(each) for each in operands)
            holds = python_column(Predicate(name, types, scope.place), columns, fails=check_fails(step))
    known = F.coalesce(holds, F.lit(False))
    return ~known if step.negated else known


def check_fails(step: Check) -> bool:
    return step.test.name == "match"


def compute_fails(step: Compute, scope: Scope) -> bool:
    """Whether the computation can fail: what the planner says, and the choice between decimals of two scales, which
    the planner does not see."""
    if not isinstance(step.value, Call):
        return False
    if step.value.function in _NEVER_FAILS:
        types = tuple(scope.type(arg) for arg in step.value.args if isinstance(arg, Variable | Constant))
        return step.value.function in ("max", "min") and _widens(scope.types[step.target], types)
    return scope.types[step.target].kind is not Kind.FLOAT


def computed(step: Compute, scope: Scope) -> Column:
    """The target's value, NULL where an argument is NULL; raises, where it is evaluated, for a row without a value."""
    result = scope.types[step.target]
    if not isinstance(step.value, Call):
        if isinstance(step.value, Constant):
            return literal(step.value.value, result)
        return scope.column(step.value)
    operands = [arg for arg in step.value.args if isinstance(arg, Variable | Constant)]
    columns = [scope.column(each) for each in operands]
    name, types = step.value.function, tuple(scope.type(each) for each in operands)
    fails = compute_fails(step, scope)
    native = _native(name, result, types, columns, scope)
    if native is None:
        rule = scope.rule if {result.kind, *(t.kind for t in types)} == {Kind.NUMBER} else ""
        return python_column(Functor(name, result, types, scope.place, rule), columns, fails=fails)
    present = [c.isNotNull() for c, each in zip(columns, operands, strict=True) if can_be_null(each, scope)]
    conditions = [barrier(), *present] if fails else present
    return F.when(functools.reduce(operator.and_, conditions), native) if conditions else native


def barrier() -> Column:
    """Always true, and not deterministic for Spark: what it guards is evaluated for exactly the rows that arrive."""
    return F.monotonically_increasing_id() >= 0


def reserved_checked(column: Column, type: Type, scope: Scope) -> Column:
    """The value of a nullable head column, which cannot hold one number (it is the code of NULL elsewhere)."""
    reserved = NUMBER_RANGE.start if type.kind is Kind.NUMBER else UNSIGNED_RANGE.stop - 1
    failure = _failure(rule_error("reserved-value", scope.rule), scope, type)
    return F.when(barrier() & (column == literal(reserved, type)), failure).otherwise(column)


def _widens(result: Type, types: tuple[Type, ...]) -> bool:
    return result.kind is Kind.DECIMAL and any(type.scale != result.scale for type in types)


def _native(name: str, result: Type, types: tuple[Type, ...], columns: list[Column], scope: Scope) -> Column | None:
    """The call as an expression of Spark's own, if that gives the same values; arguments that are NULL may give
    anything."""
    if name in ("max", "min"):
        pick = F.greatest if name == "max" else F.least
        if _widens(result, types):
            # Either operand may have more digits before the point than the result has room for.
            wide = f"decimal({2 * DECIMAL_DIGITS},{result.scale})"
            picked = pick(*(column.cast(wide) for column in columns))
            return _fitting(picked, name, columns[0], columns[-1], result, scope)
        return pick(*columns)
    if name in _TEXT:
        return _TEXT[name](*columns)
    if name == "to_string":
        return None if types[0].kind is Kind.FLOAT else columns[0].cast("string")
    if any(type.kind is not result.kind for type in types):
        return None
    match result.kind:
        case Kind.NUMBER:
            return _number(name, columns[0], columns[-1], scope)
        case Kind.UNSIGNED:
            return _unsigned(name, columns, result, scope)
        case Kind.FLOAT:
            return _float(name, columns[0], columns[-1])
        case Kind.DECIMAL:
            return _decimal(name, columns[0], columns[-1], result, scope)
        case _:
            return None


# ---- text --------------------------------------------------------------------------------------------------


def _substr(text: Column, start: Column, length: Column) -> Column:
    # Positions are 64-bit here and 32-bit in Spark; within the text both are small.
    size = F.length(text)
    part = F.substr(text, (start + 1).cast("int"), F.least(length, size.cast("long")).cast("int"))
    return F.when((start < 0) | (length < 0) | (start >= size), F.lit("")).otherwise(part)


_TEXT: dict[str, Callable[..., Column]] = {
    "cat": lambda *parts: F.concat(*parts),
    "strlen": lambda text: F.length(text).cast("long"),
    "substr": _substr,
    "ord": lambda text: F.when(text == "", F.lit(-1)).otherwise(F.ascii(text)).cast("long"),
}

# ---- numbers -----------------------------------------------------------------------------------------------


def _failure(error: Error, scope: Scope, type: Type) -> Column:
    return F.raise_error(F.lit(marked(error, scope.place))).cast(spark_type(type))


def _number(name: str, a: Column, b: Column, scope: Scope) -> Column | None:
    def failure(code: str) -> Column:
        return _failure(rule_error(code, scope.rule), scope, NUMBER)

    least = F.lit(NUMBER_RANGE.start).cast(LongType())
    match name:
        case "+":
            return F.coalesce(F.try_add(a, b), failure("overflow"))
        case "-":
            return F.coalesce(F.try_subtract(a, b), failure("overflow"))
        case "*":
            return F.coalesce(F.try_multiply(a, b), failure("overflow"))
        case "neg":
            return F.when(a == least, failure("overflow")).otherwise(-a)
        case "/":
            whole = F.call_function("div", a, b)
            zero = F.when(b == 0, failure("division-by-zero"))
            return zero.when((b == -1) & (a == least), failure("overflow")).otherwise(whole)
        case "%":
            return F.when(b == 0, failure("division-by-zero")).when(b == -1, F.lit(0).cast("long")).otherwise(a % b)
        case _:
            return _bits(name, a, b, failure("overflow"))


def _bits(name: str, a: Column, b: Column, overflow_: Column) -> Column | None:
    """Bit operations on signed 64-bit numbers; a shift's distance counts modulo 64."""
    distance = b.bitwiseAND(F.lit(63)).cast("int")
    match name:
        case "band":
            return a.bitwiseAND(b)
        case "bor":
            return a.bitwiseOR(b)
        case "bxor":
            return a.bitwiseXOR(b)
        case "bnot":
            return F.bitwise_not(a)
        case "bshr":
            return F.call_function("shiftright", a, distance)
        case "bshl":
            shifted = F.call_function("shiftleft", a, distance)
            back = F.call_function("shiftright", shifted, distance)
            return F.when(back == a, shifted).otherwise(overflow_)
        case _:
            return None


def _telling(name: str, a: Column, b: Column, scope: Scope, type: Type) -> Column:
    """The overflow of an operation, whose message tells the two values."""
    text = marked(overflow(f"\x01 {name} \x01"), scope.place)
    before, between, after = text.split("\\u0001")
    parts = (F.lit(before), a.cast("string"), F.lit(between), b.cast("string"), F.lit(after))
    return F.raise_error(F.concat(*parts)).cast(spark_type(type))


def _unsigned(name: str, columns: list[Column], result: Type, scope: Scope) -> Column | None:
    if name not in ("+", "-", "*"):
        return None
    a, b = columns
    # Products of more than 38 digits are NULL for `try_multiply`; sums and differences have 21 at most.
    value = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: F.try_multiply(a, b)}[name]()
    largest = literal(UNSIGNED_RANGE.stop - 1, result)
    return F.when((value >= 0) & (value <= largest), value.cast(spark_type(result))).otherwise(
        _telling(name, a, b, scope, result)
    )


def _decimal(name: str, a: Column, b: Column, result: Type, scope: Scope) -> Column | None:
    if name == "neg":
        return -a
    if name not in ("+", "-", "*"):
        return None
    # Operands have 18 digits, so the result has 37 at most, which Spark computes exactly.
    value = _DECIMAL[name](a, b)
    return _fitting(value, name, a, b, result, scope)


def _fitting(value: Column, name: str, a: Column, b: Column, result: Type, scope: Scope) -> Column:
    """The value in the digits that the result has, or the overflow that the local engine reports."""
    # In a type of just as many digits: next to a wider one without decimals, Spark would round the value.
    digits = result.precision - result.scale + 1
    bound = F.lit("1" + "0" * (digits - 1)).cast(f"decimal({digits},0)")
    fits = F.abs(value) < bound
    return F.when(fits, value.cast(spark_type(result))).otherwise(_telling(name, a, b, scope, result))


_DECIMAL: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _float(name: str, a: Column, b: Column) -> Column | None:
    """Adding 0.0 makes -0.0 the one zero there is."""
    match name:
        case "+" | "-" | "*":
            return _DECIMAL[name](a, b) + F.lit(0.0)
        case "neg":
            return -a + F.lit(0.0)
        case "/":
            endless = F.when(F.isnan(a) | (a == 0.0), F.lit(float("nan"))).when(a > 0, F.lit(float("inf")))
            return F.when(b == 0.0, endless.otherwise(F.lit(float("-inf")))).otherwise(a / b + F.lit(0.0))
        case _:
            return None
