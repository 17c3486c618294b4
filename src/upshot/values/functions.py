"""The operators and functions of integers and of any kind, one record each, and the table of all functions.

Functions of Soufflé have the meaning of Soufflé, except where it silently computes a wrong value: an overflow, and a
text that is only partly a number, are errors here. Text is counted in characters, not in bytes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NoReturn

from upshot.core.errors import DataError
from upshot.core.types import MOST_DIGITS, NUMBER_RANGE, PRODUCT_PLACES, Kind
from upshot.values.conversions import CONVERSIONS
from upshot.values.date_functions import DATE_FUNCTIONS
from upshot.values.functors import functor_record, is_functor
from upshot.values.inverses import FRACTIONS, INTEGERS, extreme
from upshot.values.numeric_functions import NUMERIC_FUNCTIONS
from upshot.values.records import BuiltinFunction, FunctionMeaning, SparkCall
from upshot.values.signatures import INTEGER, NUMERIC, ORDERED, Signature, only, uniform
from upshot.values.sort_keys import SORT_KEYS
from upshot.values.structures import STRUCTURE_FUNCTIONS
from upshot.values.text_functions import TEXT_FUNCTIONS
from upshot.values.windows import WINDOW_FUNCTIONS

RANGE = "range"
"""It has many values, so that engines never call it: in the normal form a recursive view replaces it. Its record has
its types for the checker."""


def _no_value(*args: Any) -> NoReturn:
    raise AssertionError("the normal form has no `range`")


_NUMBERS = only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
RANGE_RECORD = BuiltinFunction(
    RANGE, Signature((_NUMBERS,), _NUMBERS, True, 2, 3), dict.fromkeys(Kind, FunctionMeaning(_no_value, fails=True)),
    "range(from, to, step)", "each value from `from` on, before `to`",
)  # fmt: skip


_DIVISIBLE = only(Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
_SIGNED = only(Kind.NUMBER, Kind.FLOAT, Kind.DECIMAL)

_Meanings = dict[Kind, FunctionMeaning]

# ---- integers ----------------------------------------------------------------------------------------------


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise DataError(f"`{a} / 0` has no value", code="division-by-zero", help="guard the division with `!= 0`")
    return _truncated(a, b)


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise DataError(f"`{a} % 0` has no value", code="division-by-zero", help="guard the division with `!= 0`")
    return a - b * _truncated(a, b)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _power(a: int, b: int) -> int:
    if b < 0:
        raise DataError(f"`{a} ^ {b}` is not an integer", code="negative-exponent", help="use floats")
    # Beyond 64 only the parity of the exponent matters: the value is -1, 0, 1, or out of range anyway.
    result: int = a ** min(b, 64 + b % 2)
    return result


def _decimal_remainder(a: Decimal, b: Decimal) -> Decimal:
    if b == 0:
        raise DataError(f"`{a} % 0` has no value", code="division-by-zero", help="guard the division with `!= 0`")
    return a % b


def _shifted_left(a: int, b: int) -> int:
    return a << (b & 63)


def _shifted_right(a: int, b: int) -> int:
    return a >> (b & 63)


_Spark = Callable[[SparkCall], Any]
_LEAST = NUMBER_RANGE.start


def _checked(name: str) -> _Spark:
    """One of Spark's functions that return NULL on overflow."""
    return lambda call: call.F.coalesce(getattr(call.F, name)(*call.columns), call.failure("overflow"))


def _spark_quotient(call: SparkCall) -> Any:
    a, b = call.columns
    zero = call.F.when(b == 0, call.failure("division-by-zero"))
    least = zero.when((b == -1) & (a == call.F.lit(_LEAST).cast("long")), call.failure("overflow"))
    return least.otherwise(call.F.call_function("div", a, b))


def _spark_remainder(call: SparkCall) -> Any:
    a, b = call.columns
    zero = call.F.when(b == 0, call.failure("division-by-zero"))
    return zero.when(b == -1, call.F.lit(0).cast("long")).otherwise(a % b)


def _spark_negated(call: SparkCall) -> Any:
    (a,) = call.columns
    return call.F.when(a == call.F.lit(_LEAST).cast("long"), call.failure("overflow")).otherwise(-a)


def _spark_shift(name: str) -> _Spark:
    def shift(call: SparkCall) -> Any:
        a, b = call.columns
        distance = b.bitwiseAND(call.F.lit(63)).cast("int")
        shifted = call.F.call_function(name, a, distance)
        if name == "shiftright":
            return shifted
        back = call.F.call_function("shiftright", shifted, distance)
        return call.F.when(back == a, shifted).otherwise(call.failure("overflow"))

    return shift


def _spark_product(call: SparkCall) -> Any:
    """Exact up to the 38 digits of a decimal; NULL, which the engine treats as an overflow, for more."""
    return call.F.try_multiply(*call.columns)


def _of_columns(operation: Callable[..., Any]) -> _Spark:
    return lambda call: operation(*call.columns)


_BITS: Mapping[str, tuple[Callable[..., int], _Spark, int]] = {
    "band": (operator.and_, lambda call: call.columns[0].bitwiseAND(call.columns[1]), 7),
    "bor": (operator.or_, lambda call: call.columns[0].bitwiseOR(call.columns[1]), 8),
    "bxor": (operator.xor, lambda call: call.columns[0].bitwiseXOR(call.columns[1]), 9),
}


def _integers(
    name: str, python: Callable[..., int], kernel: int, spark: _Spark | None = None, *, fails: bool = True
) -> _Meanings:
    """The same meaning for numbers, which kernel and Spark compute too, and for unsigned numbers."""
    made = FunctionMeaning(python, fails=fails, inverse=INTEGERS[name])
    return {Kind.NUMBER: replace(made, kernel=kernel, spark=spark), Kind.UNSIGNED: made}


def _bits(name: str) -> _Meanings:
    python, spark, kernel = _BITS[name]
    return _integers(name, python, kernel, spark, fails=False)


# ---- floats and decimals -----------------------------------------------------------------------------------


def _float_quotient(a: float, b: float) -> float:
    """IEEE 754: a division by zero is infinite, or NaN."""
    if b == 0.0:
        return math.nan if a == 0.0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b


def _float_power(a: float, b: float) -> float:
    """IEEE 754: `0.0 ^ -1.0` is infinite, a root of a negative number NaN."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        return math.inf if a == 0.0 else math.nan


def _spark_float(operation: Callable[..., Any]) -> _Spark:
    """Adding 0.0 turns -0.0 into 0.0, the only zero."""
    return lambda call: operation(*call.columns) + call.F.lit(0.0)


def _spark_float_quotient(call: SparkCall) -> Any:
    (a, b), F = call.columns, call.F
    endless = F.when(F.isnan(a) | (a == 0.0), F.lit(math.nan)).when(a > 0, F.lit(math.inf)).otherwise(F.lit(-math.inf))
    return F.when(b == 0.0, endless).otherwise(a / b + F.lit(0.0))


def _arithmetic(name: str, python: Callable[..., Any], kernel: int, checked: str, numpy: str) -> _Meanings:
    """`+`, `-` and `*`, on all numeric kinds."""
    exact = _spark_product if name == "*" else _of_columns(python)
    made = _integers(name, python, kernel, _checked(checked))
    return {
        **made,
        Kind.UNSIGNED: replace(made[Kind.UNSIGNED], spark=exact),
        Kind.FLOAT: FunctionMeaning(python, _spark_float(python), numpy=numpy, inverse=FRACTIONS[name]),
        # Operands have 18 digits, so the result has 37 at most, which Spark computes exactly.
        Kind.DECIMAL: FunctionMeaning(python, _of_columns(python), fails=True, inverse=FRACTIONS[name]),
    }


# ---- integers as truth values, and their bits --------------------------------------------------------------


def _truth(function: Callable[[bool, bool], bool]) -> Callable[[int, int], int]:
    return lambda a, b: int(function(bool(a), bool(b)))


def _both(python: Callable[..., int]) -> _Meanings:
    return {Kind.NUMBER: FunctionMeaning(python), Kind.UNSIGNED: FunctionMeaning(python)}


def _shifted_as_bits(a: int, b: int) -> int:
    bits = (a % 2**64) >> (b & 63)
    return bits - 2**64 if bits >= 2**63 and a < 0 else bits


# ---- any kind ----------------------------------------------------------------------------------------------


def _rank(value: float) -> tuple[bool, float]:
    """NaN is above every number."""
    return math.isnan(value), 0.0 if math.isnan(value) else value


def _spark_extreme(name: str) -> _Spark:
    def pick(call: SparkCall) -> Any:
        columns = call.columns
        if call.result.kind is Kind.DECIMAL:
            # Any operand may have more digits before the point than the result has room for.
            columns = [each.cast(f"decimal({2 * MOST_DIGITS},{call.result.scale})") for each in columns]
        return getattr(call.F, name)(*columns)

    return pick


def _extremes(pick: Callable[..., Any], kernel: int, spark: str) -> _Meanings:
    made = FunctionMeaning(pick, _spark_extreme(spark), inverse=extreme(pick))
    return {
        **dict.fromkeys(Kind, made),
        Kind.NUMBER: replace(made, kernel=kernel),
        Kind.FLOAT: replace(made, python=lambda *values: pick(values, key=_rank)),
        # Converted to a common scale, a decimal may be too large.
        Kind.DECIMAL: replace(made, fails=True),
    }


# ---- the records -------------------------------------------------------------------------------------------

_ALL = (
    BuiltinFunction(
        "+", uniform(NUMERIC, 2), _arithmetic("+", operator.add, 0, "try_add", "add"),
        "a + b", "sum", sql=("Add",),
    ),
    BuiltinFunction(
        "-", uniform(NUMERIC, 2), _arithmetic("-", operator.sub, 1, "try_subtract", "subtract"),
        "a - b", "difference", sql=("Sub",),
    ),
    BuiltinFunction(
        "*", uniform(NUMERIC, 2), _arithmetic("*", operator.mul, 2, "try_multiply", "multiply"),
        "a * b", f"product; of decimals, with the decimals of both, at most {PRODUCT_PLACES}",
        scale=lambda scales: max(min(sum(scales), PRODUCT_PLACES), *scales), sql=("Mul",),
    ),
    BuiltinFunction(
        "/", uniform(_DIVISIBLE, 2),
        {
            **_integers("/", _divided, 3, _spark_quotient),
            Kind.FLOAT: FunctionMeaning(_float_quotient, _spark_float_quotient, numpy="divide", inverse=FRACTIONS["/"]),
        },
        "a / b", "quotient; of integers, truncated toward zero; of floats, infinite or NaN for `b = 0.0`",
        sql=("Div", "IntDiv"),
    ),
    BuiltinFunction(
        "%", uniform(INTEGER | only(Kind.DECIMAL), 2),
        {
            **_integers("%", _remainder, 4, _spark_remainder),
            Kind.DECIMAL: FunctionMeaning(_decimal_remainder, fails=True),
        },
        "a % b", "remainder, with the sign of `a`", sql=("Mod",),
    ),
    BuiltinFunction(
        "^", uniform(_DIVISIBLE, 2), {**_integers("^", _power, 5), Kind.FLOAT: FunctionMeaning(_float_power)},
        "a ^ b", "power; of floats as in IEEE 754: `0.0 ^ -1.0` is infinite",
    ),
    BuiltinFunction(
        "neg", uniform(_SIGNED, 1),
        {
            Kind.NUMBER: FunctionMeaning(operator.neg, _spark_negated, 6, fails=True, inverse=INTEGERS["neg"]),
            Kind.FLOAT: FunctionMeaning(
                operator.neg, _spark_float(operator.neg), numpy="negative", inverse=FRACTIONS["neg"]
            ),
            Kind.DECIMAL: FunctionMeaning(operator.neg, _of_columns(operator.neg), inverse=FRACTIONS["neg"]),
        },
        "-a", "negation", sql=("Neg",),
    ),
    BuiltinFunction("band", uniform(INTEGER, 2), _bits("band"), "a band b", "bits of both", sql=("BitwiseAnd",)),
    BuiltinFunction("bor", uniform(INTEGER, 2), _bits("bor"), "a bor b", "bits of either", sql=("BitwiseOr",)),
    BuiltinFunction("bxor", uniform(INTEGER, 2), _bits("bxor"), "a bxor b", "bits of exactly one", sql=("BitwiseXor",)),
    BuiltinFunction(
        "bnot", uniform(INTEGER, 1),
        {
            Kind.NUMBER: FunctionMeaning(
                operator.invert, lambda call: call.F.bitwise_not(call.columns[0]), 10, inverse=INTEGERS["bnot"]
            ),
            Kind.UNSIGNED: FunctionMeaning(lambda a: a ^ (2**64 - 1), inverse=INTEGERS["bnot"]),
        },
        "bnot a", "complement of the bits",
    ),
    BuiltinFunction(
        "bshl", uniform(INTEGER, 2), _integers("bshl", _shifted_left, 11, _spark_shift("shiftleft")),
        "a bshl b", "bits shifted left; the distance counts modulo 64, a bit that is lost is an overflow",
    ),
    BuiltinFunction(
        "bshr", uniform(INTEGER, 2), _integers("bshr", _shifted_right, 12, _spark_shift("shiftright"), fails=False),
        "a bshr b", "bits shifted right, with the sign; the distance counts modulo 64",
    ),
    BuiltinFunction("land", uniform(INTEGER, 2), _both(_truth(operator.and_)), "a land b", "1 if neither is 0, else 0"),
    BuiltinFunction("lor", uniform(INTEGER, 2), _both(_truth(operator.or_)), "a lor b", "1 if one is not 0, else 0"),
    BuiltinFunction("lxor", uniform(INTEGER, 2), _both(_truth(operator.xor)), "a lxor b", "1 if just one is 0, else 0"),
    BuiltinFunction("lnot", uniform(INTEGER, 1), _both(lambda a: int(a == 0)), "lnot a", "1 if it is 0, else 0"),
    BuiltinFunction(
        "bshru", uniform(INTEGER, 2), _both(_shifted_as_bits),
        "a bshru b", "bits shifted right, zeros from the left; the distance counts modulo 64",
    ),
    BuiltinFunction(
        "max", uniform(ORDERED, 2, or_more=True), _extremes(max, 13, "greatest"),
        "max(a, b, …)", "greatest; text by code points, NaN above all numbers", sql=("Greatest",),
    ),
    BuiltinFunction(
        "min", uniform(ORDERED, 2, or_more=True), _extremes(min, 14, "least"),
        "min(a, b, …)", "least", sql=("Least",),
    ),
)  # fmt: skip


class _Functions(dict[str, BuiltinFunction]):
    """The functions by name; those of the user by their signatures. `range` can be looked up, but is not listed."""

    def __missing__(self, name: str) -> BuiltinFunction:
        found: BuiltinFunction | None = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        if name == RANGE:
            return RANGE_RECORD
        return functor_record(name) if is_functor(name) and "(" in name else super().get(name, default)


_TABLES = (
    _ALL,
    CONVERSIONS,
    NUMERIC_FUNCTIONS,
    TEXT_FUNCTIONS,
    DATE_FUNCTIONS,
    SORT_KEYS,
    STRUCTURE_FUNCTIONS,
    WINDOW_FUNCTIONS,
)

FUNCTIONS = _Functions((each.name, each) for table in _TABLES for each in table)
