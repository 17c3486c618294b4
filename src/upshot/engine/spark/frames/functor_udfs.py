"""Functors and tests that run as Python on the workers: the local engine's functions, a batch of rows at a time."""

from __future__ import annotations

import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column
from pyspark.sql.functions import ArrowUDFType, arrow_udf
from pyspark.sql.types import DataType

from upshot.core.errors import DataError, Error, OverflowError_
from upshot.core.types import BOOLEAN, Type
from upshot.engine.user_functions import UserFunction, UserFunctions
from upshot.spark.failures import CarriedError, marked
from upshot.spark.types import arrow_values, python_values, spark_type
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.functors import bare_name


@dataclass(frozen=True, slots=True)
class Functor:
    """A functor over columns. `rule` is set where the local engine names the rule instead of the values in an error;
    `place` is where the rule stands. Pickled by name: workers have this package installed."""

    name: str
    result: Type
    arguments: tuple[Type, ...]
    place: str = ""
    rule: str = ""
    function: UserFunction | None = None

    def __call__(self, *columns: pa.Array) -> pa.Array:
        if self.function is not None:
            return arrow_values(self._of_users(self.function, columns), self.result)
        return arrow_values(_applied(self._value, columns, self.arguments, self.place), self.result)

    def _of_users(self, function: UserFunction, columns: tuple[pa.Array, ...]) -> list[Any]:
        """The values of a function of users, called once for each distinct row of the batch."""
        values = [python_values(column, type) for column, type in zip(columns, self.arguments, strict=True)]
        known = UserFunctions({bare_name(self.name): function})
        try:
            return known.values(self.name, list(zip(*values, strict=True)))
        except Error as error:
            raise CarriedError(marked(error, self.place)) from None

    def _value(self, *row: Any) -> Any:
        try:
            return FUNCTIONS[self.name].call(self.arguments[0].kind, self.result)(*row)
        except Error as error:
            raise (rule_error(error.code, self.rule) if self.rule else error) from None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A test over columns; NULL where an argument is."""

    name: str
    arguments: tuple[Type, ...]
    place: str = ""

    def __call__(self, *columns: pa.Array) -> pa.Array:
        return arrow_values(_applied(TESTS[self.name].python, columns, self.arguments, self.place), BOOLEAN)


def _applied(call: Callable[..., Any], columns: tuple[pa.Array, ...], types: tuple[Type, ...], place: str) -> list[Any]:
    rows = zip(*(python_values(column, type) for column, type in zip(columns, types, strict=True)), strict=True)
    try:
        return [None if None in row else call(*row) for row in rows]
    except Error as error:
        raise CarriedError(marked(error, place)) from None


def rule_error(code: str, rule: str) -> Error:
    """The local engine's error for 64-bit arithmetic, without the values; `rule` names the rule."""
    match code:
        case "division-by-zero":
            return DataError(f"division by zero {rule}", code=code, help="guard the division with `!= 0`")
        case "negative-exponent":
            return DataError(f"an integer power with a negative exponent {rule}", code=code, help="use floats")
        case "reserved-value":
            return DataError(
                f"the one value that a nullable column cannot store is derived {rule}",
                code=code,
                help="declare the column without `?`, or exclude the value",
            )
        case _:
            return OverflowError_(
                f"a number is outside the 64-bit range {rule}", code="overflow", help="use floats, or limit the values"
            )


def python_column(work: Functor | Predicate, columns: list[Column], *, fails: bool) -> Column:
    """The functor or test as a column. One that can fail is declared not deterministic, or else Spark would move it
    below a join and fail for rows that do not take part."""
    made = arrow_function(work, spark_type(work.result if isinstance(work, Functor) else BOOLEAN))
    return (made.asNondeterministic() if fails else made)(*columns)


def arrow_function(work: Callable[..., pa.Array], result: DataType | str) -> Any:
    """The work as a function on columns. Made where it is used and never with a module: whether it is one of Spark
    Connect is decided when it is made."""
    with warnings.catch_warnings():
        # It is preferred to have the kind found from annotations; those of a callable object are not found.
        warnings.simplefilter("ignore", UserWarning)
        return arrow_udf(work, result, ArrowUDFType.SCALAR)


# ---- functions of users ------------------------------------------------------------------------------------------

_IN_USE: ContextVar[UserFunctions] = ContextVar("functions_in_use", default=UserFunctions())  # noqa: B039


def functions_in_use() -> UserFunctions:
    """The functions for the frames that are being made."""
    return _IN_USE.get()


@contextmanager
def using_functions(functions: UserFunctions) -> Iterator[None]:
    """Inside, frames call these functions. Their code travels with the tasks: workers need not have its module."""
    for code in (code for function in functions.registered.values() for code in function.parts):
        module = sys.modules.get(getattr(code, "__module__", "") or "")
        if module is not None and module.__name__ != "__main__" and not _is_installed(module.__name__):
            cloudpickle.register_pickle_by_value(module)
    token = _IN_USE.set(functions)
    try:
        yield
    finally:
        _IN_USE.reset(token)


def _is_installed(name: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None) or ""
    return file.startswith(sysconfig.get_paths()["purelib"]) or name.partition(".")[0] in sys.stdlib_module_names
