"""The records of built-ins: what the checker, the engines, SQL, view updating and the reference know of each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from enum import Enum
from typing import Any, Protocol

from upshot.core.errors import OverflowError_
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import NUMBER, NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type, most_digits
from upshot.values.inverses import Inverse
from upshot.values.signatures import KindSet, Signature, only, preferred

_PRECISION = 120
"""Digits in which decimals are computed: more than a product of two has."""


class SparkCall(Protocol):
    """A call as the Spark engine hands it to a record. `F` is `pyspark.sql.functions`, which this package does not
    import; `columns` are the arguments, of which none is NULL where the value is used."""

    @property
    def F(self) -> Any: ...

    @property
    def columns(self) -> Sequence[Any]: ...

    @property
    def types(self) -> tuple[Type, ...]: ...

    @property
    def result(self) -> Type: ...

    def failure(self, code: str) -> Any:
        """A column that raises the error of this code where it is evaluated."""


@dataclass(frozen=True, slots=True)
class FunctionMeaning:
    """A function on arguments of one kind.

    `python` takes arguments that are not NULL and raises a `DataError` where there is no value; it need not look at the
    range of its result (`BuiltinFunction.call` does). `spark` is the same as an expression of Spark, None where only
    Python computes it: then an Arrow function calls `python`. For a result of `unsigned` or `decimal` that can fail, it
    is the exact value, which the engine holds to its range. `kernel` is the operation of the local engine's kernel,
    `numpy` the function that computes whole columns of floats; without them the local engine calls `python`.
    """

    python: Callable[..., Any]
    spark: Callable[[SparkCall], Any] | None = None
    kernel: int | None = None
    numpy: str = ""
    fails: bool = False
    inverse: Inverse | None = None


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """A functor or operator. NULL among its arguments makes it NULL.

    `meanings` are by the kind of the first argument. `scale` makes the decimals of a decimal result from those of the
    arguments. `sql` names the classes of sqlglot that are this function and nothing else. `spelled` and `words` are for
    the reference.
    """

    name: str
    signature: Signature
    meanings: Mapping[Kind, FunctionMeaning] = field(hash=False)
    spelled: str
    words: str
    scale: Callable[[Sequence[int]], int] = max
    sql: tuple[str, ...] = ()

    def result(self, arguments: Sequence[Type]) -> Type:
        """The type of the value, NULL apart."""
        kind = arguments[0].kind if self.signature.uniform else preferred(self.signature.result)
        if kind is not Kind.DECIMAL:
            return Type(kind)
        scale = self.scale([each.scale for each in arguments])
        return Type(kind, precision=most_digits(scale), scale=scale)

    def fails(self, result: Kind | None = None) -> bool:
        """True where some arguments leave it without a value; `result` is the kind of its value, if that is known."""
        if result is not None and self.signature.uniform:
            return self.meanings[result].fails
        return any(meaning.fails for meaning in self.meanings.values())

    def call(self, kind: Kind, result: Type) -> Callable[..., Any]:
        """The function for one row of arguments that are not NULL; raises a `DataError` where there is no value."""
        meaning = self.meanings[kind].python
        match result.kind:
            case Kind.NUMBER:
                return functools.partial(_integer, self.name, meaning, NUMBER_RANGE)
            case Kind.UNSIGNED:
                return functools.partial(_integer, self.name, meaning, UNSIGNED_RANGE)
            case Kind.FLOAT:
                return functools.partial(_float, meaning)
            case Kind.DECIMAL:
                return functools.partial(_decimal, self.name, meaning, result)
            case _:
                return meaning


def _integer(name: str, meaning: Callable[..., int], bounds: range, *args: Any) -> int:
    value = meaning(*args)
    if value not in bounds:
        raise overflow(call_in_words(name, args))
    return value


def _float(meaning: Callable[..., float], *args: Any) -> float:
    # Adding 0.0 makes -0.0 the one zero there is.
    return meaning(*args) + 0.0


def _decimal(name: str, meaning: Callable[..., Decimal], result: Type, *args: Any) -> Decimal:
    with localcontext(prec=_PRECISION):
        value = meaning(*args) + 0
        if result.is_wide:
            value = value.quantize(Decimal(1).scaleb(-result.scale), ROUND_HALF_UP)
        if abs(value) >= Decimal(10) ** (result.precision - result.scale):
            raise overflow(call_in_words(name, args), result)
        return value


def call_in_words(name: str, args: Sequence[Any]) -> str:
    """The call as errors show it.

    >>> call_in_words("+", (1, 2)), call_in_words("to_number", ("1",))
    ('1 + 2', 'to_number("1")')
    """
    if len(args) == 2:
        return f"{args[0]} {name} {args[1]}"
    return f"{name}({', '.join(_shown(each) for each in args)})"


def _shown(value: Any) -> str:
    return f'"{value[:40]}"' if isinstance(value, str) and value != "\x01" else str(value)


def overflow(call: str, type: Type = NUMBER) -> OverflowError_:
    """The error of a value that its type cannot hold."""
    if type.kind is Kind.DECIMAL:
        digits = most_digits(type.scale)
        return OverflowError_(
            f"`{call}` has more than {digits} digits", code="overflow", help="use smaller values, or floats"
        )
    return OverflowError_(f"`{call}` is outside the 64-bit range", code="overflow", help="use floats or decimals")


def too_long(schema: Schema, place: int, value: str, span: Span | None = None) -> OverflowError_:
    """The error of a rule that derives a decimal with more digits than the column at this place declares."""
    column = schema.columns[place]
    # Workers know columns by their place only.
    named = f"`{column.name}`" if column.name != f"c{place}" else str(place + 1)
    return OverflowError_(
        f"a rule derives `{value}` for column {named} of `{schema.name}`, "
        f"which has more digits than `{column.type.required()}`",
        code="overflow",
        span=span,
        help=f"declare the column with more digits, up to `{Type(Kind.DECIMAL, scale=column.type.scale).widest()}`, "
        "or limit the value in the rule",
    )


@dataclass(frozen=True, slots=True)
class BuiltinTest:
    """A test that stands as a literal. With NULL among its arguments it is false, unless it `sees_null`.

    `python` takes `pause` besides its arguments if it `pauses`: a function to call now and then, which raises when time
    is up. `spark` is an expression, None where an Arrow function calls `python`. `constant_argument` raises a
    `DataError` for a first argument that can be refused before there are any rows.
    """

    name: str
    arguments: tuple[KindSet, ...]
    python: Callable[..., bool]
    spelled: str
    words: str
    spark: Callable[[Any, Sequence[Any]], Any] | None = None
    fails: bool = False
    pauses: bool = False
    sees_null: bool = False
    constant_argument: Callable[[str], object] | None = None
    sql: str = ""


@dataclass(frozen=True, slots=True)
class BuiltinComparison:
    """A comparison: `python` for values that are not NULL and not NaN, `kernel` its number in the kernel of the local
    engine, `sql` the class of sqlglot. `opposite` is its negation, `turned` the same with the operands exchanged."""

    name: str
    python: Callable[[Any, Any], Any]
    kernel: int
    sql: str
    opposite: str
    turned: str


class RunningState(Enum):
    """The state that is kept of a group, so that one row more or less does not cost a look at all of them."""

    ROWS = "the number of its rows"
    TOTAL = "its exact sum"
    EXTREME = "its least or greatest value; only where that is deleted, the group is read again"
    GROUP = "nothing: the group is read again"


@dataclass(frozen=True, slots=True)
class BuiltinAggregate:
    """An aggregate. NULL is skipped, except where it counts rows.

    `python` takes the values of a group, none of them NULL and at least one, and their type. `of_nothing` says whether
    the value over no rows is zero; otherwise there is none. `running` says what the engines keep of a group; they call
    `python` where that is nothing. `sql` are pairs of a class of sqlglot and the name in SQL;
    `computed` makes the type of the value from that of the values, where it is neither theirs nor fixed.
    """

    name: str
    signature: Signature
    python: Callable[[Sequence[Any], Type], Any]
    running: RunningState
    spelled: str
    words: str
    of_nothing: bool = False
    sql: tuple[tuple[str, str], ...] = ()
    computed: Callable[[Type], Type] | None = None

    @property
    def takes_value(self) -> bool:
        return bool(self.signature.arguments)

    def accepts(self, kind: Kind) -> bool:
        """True where values of this kind can be aggregated."""
        return not self.takes_value or bool(self.signature.arguments[0] & only(kind))

    def result(self, target: Type | None) -> Type:
        """The type of the value, which is never NULL: over nothing there is no value or zero."""
        if target is not None and self.computed is not None:
            return self.computed(target)
        if target is None or not self.signature.uniform:
            return Type(preferred(self.signature.result))
        return target.required().widest() if self.running is RunningState.TOTAL else target.required()

    def fails(self, result: Kind) -> bool:
        """True where the value can leave the range of its type."""
        return self.running in (RunningState.TOTAL, RunningState.GROUP) and result is not Kind.FLOAT
