"""The record classes of built-ins, which the checker, the engines, SQL, view updating and the reference read."""

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
"""The digits in which decimals are computed: more than the product of two has."""


class SparkCall(Protocol):
    """A call on the Spark engine. `F` is `pyspark.sql.functions`, which this package does not import; `columns` are the
    arguments, none of which is NULL if the value is used."""

    @property
    def F(self) -> Any: ...

    @property
    def columns(self) -> Sequence[Any]: ...

    @property
    def types(self) -> tuple[Type, ...]: ...

    @property
    def result(self) -> Type: ...

    def failure(self, code: str) -> Any:
        """A column that raises the error of this code if it is evaluated."""


@dataclass(frozen=True, slots=True)
class FunctionMeaning:
    """A function on arguments of one kind.

    `python` takes arguments that are not NULL and raises a `DataError` if there is no value; `BuiltinFunction.call`
    checks the range of the result. `spark` is the same as an expression of Spark; if it is None, an Arrow function
    calls `python`. For a result of `unsigned` or `decimal` that can fail, it is the exact value, whose range the engine
    checks. `kernel` is the operation of the local engine's kernel, `numpy` the function for whole columns of floats;
    without them the local engine calls `python`.
    """

    python: Callable[..., Any]
    spark: Callable[[SparkCall], Any] | None = None
    kernel: int | None = None
    numpy: str = ""
    fails: bool = False
    inverse: Inverse | None = None


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """A function or operator. It is NULL if an argument is.

    `meanings` are by the kind of the first argument. `scale` computes the scale of a decimal result from those of the
    arguments. `sql` names the classes of sqlglot that are exactly this function. `spelled` and `words` are for the
    reference.
    """

    name: str
    signature: Signature
    meanings: Mapping[Kind, FunctionMeaning] = field(hash=False)
    spelled: str
    words: str
    scale: Callable[[Sequence[int]], int] = max
    sql: tuple[str, ...] = ()

    def result(self, arguments: Sequence[Type]) -> Type:
        """The type of the value, without NULL."""
        kind = arguments[0].kind if self.signature.uniform else preferred(self.signature.result)
        if kind is not Kind.DECIMAL:
            return Type(kind)
        scale = self.scale([each.scale for each in arguments])
        return Type(kind, precision=most_digits(scale), scale=scale)

    def fails(self, result: Kind | None = None) -> bool:
        """Test whether it has no value for some arguments; `result` is the kind of its value, if known."""
        if result is not None and self.signature.uniform:
            return self.meanings[result].fails
        return any(meaning.fails for meaning in self.meanings.values())

    def call(self, kind: Kind, result: Type) -> Callable[..., Any]:
        """The function of arguments that are not NULL; raises a `DataError` if there is no value."""
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
    # Adding 0.0 turns -0.0 into 0.0, the only zero.
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
    """The call in error messages.

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
    # On workers, columns have no names.
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
    """A test, which is used as a literal. It is false if an argument is NULL, unless it `sees_null`.

    `python` takes a further argument `pause` if it `pauses`: a function to call periodically, which raises on a
    timeout. `spark` is an expression; if it is None, an Arrow function calls `python`. `constant_argument` checks a
    constant first argument, and raises a `DataError`.
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
    """The state of a group that engines maintain, so that a change does not read the whole group."""

    ROWS = "the number of its rows"
    TOTAL = "its exact sum"
    EXTREME = "its least or greatest value; the group is read again only if that is deleted"
    GROUP = "nothing: the group is read again"


@dataclass(frozen=True, slots=True)
class BuiltinAggregate:
    """An aggregate. NULL is skipped, except where it counts rows.

    `python` takes the values of a group, at least one and none of them NULL, and their type. `of_nothing`: the value
    over no rows is zero; otherwise there is none. `running` is the state of a group that engines maintain; without one
    they call `python`. `sql` are pairs of a class of sqlglot and the name in SQL. `computed` computes the type of the
    value from that of the values, if it is neither theirs nor fixed.
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
        """Test whether values of this kind can be aggregated."""
        return not self.takes_value or bool(self.signature.arguments[0] & only(kind))

    def result(self, target: Type | None) -> Type:
        """The type of the value, which is never NULL: over no rows there is no value, or zero."""
        if target is not None and self.computed is not None:
            return self.computed(target)
        if target is None or not self.signature.uniform:
            return Type(preferred(self.signature.result))
        return target.required().widest() if self.running is RunningState.TOTAL else target.required()

    def fails(self, result: Kind) -> bool:
        """Test whether the value can exceed the range of its type."""
        return self.running in (RunningState.TOTAL, RunningState.GROUP) and result is not Kind.FLOAT
