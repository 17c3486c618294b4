"""User functions that rules call: each is called once for the same arguments, while its values are valid."""

from __future__ import annotations

import copy
import datetime as dt
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from upshot.core.errors import DataError, UsageError
from upshot.core.fact_text import fact
from upshot.core.schema import Column, Schema
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.values.functors import bare_name, is_fold, is_stateful, missing, signature_of

Row = tuple[Any, ...]

_CLASSES: dict[Kind, type | tuple[type, ...]] = {
    Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: (int, float), Kind.SYMBOL: str, Kind.BOOLEAN: bool,
    Kind.DATE: dt.date, Kind.TIMESTAMP: dt.datetime, Kind.DECIMAL: Decimal,
}  # fmt: skip
_RANGES = {Kind.NUMBER: NUMBER_RANGE, Kind.UNSIGNED: UNSIGNED_RANGE}


RUNNING: dict[int, tuple[UserFunctions, str]] = {}
"""By thread, the running function and the object that it belongs to."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The code of `.functor f(x: …): … fold`: from `start`, `merge(state, value)` adds one value to the state of a
    group, and `unmerge(state, value)` removes it. The result must not depend on the order of the values.
    `finish(state)` is the value of the group; without `finish`, the state itself is.

    Without `unmerge` a group that changes is folded again. With `unmerge`, its state is kept between transactions:
    neither function may modify its argument.
    """

    start: Any
    merge: Callable[[Any, Any], Any]
    unmerge: Callable[[Any, Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class UserFunction:
    """`arrow`: it takes Arrow columns, of distinct rows, and returns one."""

    code: Callable[..., Any] | Fold
    arrow: bool = False

    @property
    def parts(self) -> tuple[Callable[..., Any], ...]:
        """The functions that it consists of."""
        if not isinstance(self.code, Fold):
            return (self.code,)
        return tuple(each for each in (self.code.merge, self.code.unmerge, self.code.finish) if each is not None)


@dataclass(slots=True)
class UserFunctions:
    """The functions by name, and their values. Values of pure functions are kept within a transaction, those of
    stateful functions until they are refreshed, so that a row is deleted with the value with which it was derived."""

    registered: dict[str, UserFunction] = field(default_factory=dict)
    _values: dict[str, dict[Row, Any]] = field(default_factory=dict)
    _former: dict[str, UserFunction] = field(default_factory=dict)
    """By name with types and revision: the code that computed the stored rows, while other code replaces it."""

    def begin(self) -> None:
        """Forget the values of pure functions, before another transaction."""
        for name in [each for each in self._values if not is_stateful(each)]:
            del self._values[name]

    def values(self, signed: str, rows: Sequence[Row]) -> list[Any]:
        """The values for rows of arguments; NULL if an argument is NULL."""
        known = self._values.setdefault(signed, {})
        keys = [None if None in row else tuple("NaN" if each != each else each for each in row) for row in rows]
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key is not None and key not in known}
        if missing:
            function = self.of(signed)
            with self._running(signed):
                results = called(signed, function, list(missing.values()))
            known.update(zip(missing, results, strict=True))
        return [None if key is None else known[key] for key in keys]

    @contextmanager
    def replacing(self, signed: str, code: UserFunction | None) -> Iterator[None]:
        """A block in which views switch to other code, or to new values of the same code. If it fails, the former code
        is restored and the new values are dropped."""
        name = bare_name(signed)
        former, values = self.registered.get(name), set(self._values)
        if code is not None:
            self.registered[name] = code
        if former is not None:
            self._former[signed] = former
        try:
            yield
        except BaseException:
            self.registered.pop(name, None)
            if former is not None:
                self.registered[name] = former
            for each in self._values.keys() - values:
                del self._values[each]
            raise
        finally:
            self._former.clear()

    @contextmanager
    def _running(self, signed: str) -> Iterator[None]:
        RUNNING[threading.get_ident()] = self, signed
        try:
            yield
        finally:
            del RUNNING[threading.get_ident()]

    def refuse_inside(self) -> None:
        """Raise `UsageError` on a thread that runs a function: the engine waits for its value, in the middle of a
        round."""
        owner, signed = RUNNING.get(threading.get_ident(), (None, ""))
        if owner is self:
            raise UsageError(
                f"`@{bare_name(signed)}` uses the database whose rule calls it",
                code="database-in-function",
                help="give the function what it needs as arguments, joined in the rule",
            )

    def of(self, signed: str) -> UserFunction:
        """The function with that name; raises an error if there is none."""
        found = self._former.get(signed) or self.registered.get(bare_name(signed))
        if found is None:
            raise missing(bare_name(signed))
        if isinstance(found.code, Fold) is not is_fold(signed):
            declared = "a fold" if is_fold(signed) else "a function"
            raise DataError(
                f"`{bare_name(signed)}` is declared as {declared}, and its code is not",
                code="function-missing",
                help="register `upshot.Fold(start, merge)` for a `fold`, and a function for others",
            )
        return found

    def keeps_state(self, signed: str) -> bool:
        """Test whether the function is a fold whose states are kept."""
        code = self.of(signed).code
        return isinstance(code, Fold) and code.unmerge is not None

    def merged(self, signed: str, state: Any, values: Iterable[Any], sign: int = 1) -> Any:
        """The state of a group with values added, or removed for a negative sign."""
        function = self.of(signed)
        with self._running(signed):
            return merged(signed, function, state, values, sign)

    def folded(self, signed: str, values: Iterable[Any]) -> Any:
        """The value of a group, from all its values."""
        function = self.of(signed)
        with self._running(signed):
            return folded(signed, function, values)

    def finished(self, signed: str, state: Any) -> Any:
        """The value of a group, from its state."""
        function = self.of(signed)
        with self._running(signed):
            return finished(signed, function, state)


START: Any = object()
"""The state of a group without values."""


def merged(signed: str, function: UserFunction, state: Any, values: Iterable[Any], sign: int = 1) -> Any:
    """The state of a group with these values added, or removed for a negative sign."""
    (argument,), _ = signature_of(signed)
    fold = function.code
    assert isinstance(fold, Fold)
    step = fold.merge if sign > 0 else fold.unmerge
    assert step is not None
    state = copy.deepcopy(fold.start) if state is START else state
    for value in values:
        try:
            state = step(state, value)
        except Exception as error:
            raise _failed(signed, error, (value,), (argument,)) from error
    return state


def finished(signed: str, function: UserFunction, state: Any) -> Any:
    """The value of a group, converted to the declared type."""
    fold = function.code
    assert isinstance(fold, Fold)
    try:
        value = state if fold.finish is None else fold.finish(state)
    except Exception as error:
        raise _failed(signed, error) from error
    return _fitting(signed, value, signature_of(signed)[1])


def folded(signed: str, function: UserFunction, values: Iterable[Any]) -> Any:
    """The value of a group, from all its values. They are sorted, so that even a fold that depends on the order is
    deterministic."""
    ordered = sorted(values, key=lambda value: (value != value, value))
    return finished(signed, function, merged(signed, function, START, ordered))


def called(signed: str, function: UserFunction, rows: Sequence[Row]) -> list[Any]:
    """The results of the function for distinct rows, each of the declared type."""
    arguments, result = signature_of(signed)
    if function.arrow:
        return _called_on_columns(signed, function, rows, arguments, result)
    found = []
    for row in rows:
        try:
            value = function.code(*row)  # type: ignore[operator]
        except Exception as error:
            raise _failed(signed, error, row, arguments) from error
        found.append(_fitting(signed, value, result))
    return found


def _called_on_columns(
    signed: str, function: UserFunction, rows: Sequence[Row], arguments: Sequence[Type], result: Type
) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415 - only where a function takes columns

    from upshot.core.arrow_schema import arrow_type  # noqa: PLC0415

    columns = [pa.array([row[i] for row in rows], arrow_type(each)) for i, each in enumerate(arguments)]
    try:
        results = function.code(*columns)  # type: ignore[operator]
        values = results.to_pylist() if hasattr(results, "to_pylist") else list(results)
    except Exception as error:
        raise _failed(signed, error) from error
    if len(values) != len(rows):
        raise DataError(
            f"`@{bare_name(signed)}` gave {len(values)} values for {len(rows)} rows",
            code="function-result",
            help="return one value for each row, in their order",
        )
    return [_fitting(signed, value, result) for value in values]


def _fitting(signed: str, value: Any, result: Type) -> Any:
    """The value converted to the type; members of enumerations and of other subclasses become plain values."""
    expected: Any = _CLASSES[result.kind]
    is_number = isinstance(value, bool) and result.kind is not Kind.BOOLEAN
    is_moment = isinstance(value, dt.datetime) and result.kind is Kind.DATE
    if not isinstance(value, expected) or is_number or is_moment:
        raise unfitting(signed, value, f"is not a `{result}`")
    try:
        match result.kind:
            case Kind.NUMBER | Kind.UNSIGNED:
                number = int(value)
                if number not in _RANGES[result.kind]:
                    raise unfitting(signed, value, f"is not a `{result}`")
                return number
            case Kind.FLOAT:
                return float(value) + 0.0
            case Kind.SYMBOL:
                value.encode()
                return str.__str__(value)
            case Kind.TIMESTAMP:
                if value.tzinfo is None:
                    raise unfitting(signed, value, "has no time zone")
                return value.astimezone(dt.UTC)
    except UnicodeEncodeError:
        raise unfitting(signed, value, "is not valid Unicode text") from None
    except OverflowError:
        raise unfitting(signed, value, f"is out of the range of `{result}`") from None
    return value


def unfitting(signed: str, value: Any, why: str) -> DataError:
    """The error for a function result that does not fit its type."""
    shown = ascii(value)  # text for every value
    return DataError(
        f"`@{bare_name(signed)}` gave {shown if len(shown) <= 60 else shown[:57] + '…'}, which {why}",
        code="function-result",
        help="return a value of the declared type; leave a row out with a condition of the rule",
    )


def _failed(signed: str, error: Exception, row: Row = (), types: Sequence[Type] = ()) -> DataError:
    call = f"@{bare_name(signed)}"
    if row:
        columns = tuple(Column(f"c{i}", type) for i, type in enumerate(types))
        call = f"@{fact(Schema(bare_name(signed), columns), row)}"
    return DataError(
        f"`{call}` raised {type(error).__name__}: {error}",
        code="function-failed",
        help="the transaction was rolled back; guard the call with a condition, or catch the error in the function",
    )
