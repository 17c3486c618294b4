"""The functions of users that a database calls: each once for the same arguments, while their values hold."""

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
"""The function that runs on a thread, and whose it is."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The code of `.functor f(x: …): … fold`: from `start`, `merge(state, value)` adds one value to the state of a
    group, and `unmerge(state, value)` takes it out again. Values come in any order, so that the order must not matter.
    `finish(state)` is the value of the group; without it, that is the state.

    Without `unmerge` a group that changes is folded again. With it, its state is kept from transaction to transaction:
    neither function may change the state that it takes.
    """

    start: Any
    merge: Callable[[Any, Any], Any]
    unmerge: Callable[[Any, Any], Any] | None = None
    finish: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class UserFunction:
    """`arrow`: it takes whole Arrow columns, of distinct rows, and gives one back."""

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
    """By name. The values of pure functions are kept within a transaction, those of stateful ones until they are
    refreshed: what was computed with a value goes with the same value."""

    registered: dict[str, UserFunction] = field(default_factory=dict)
    _values: dict[str, dict[Row, Any]] = field(default_factory=dict)
    _former: dict[str, UserFunction] = field(default_factory=dict)
    """By name with types and revision: the code that computed what there is, while other code replaces it."""

    def begin(self) -> None:
        """Forget what pure functions gave, before another transaction."""
        for name in [each for each in self._values if not is_stateful(each)]:
            del self._values[name]

    def values(self, signed: str, rows: Sequence[Row]) -> list[Any]:
        """The values for rows of arguments, NULL where one of them is."""
        known = self._values.setdefault(signed, {})
        keys = [None if None in row else tuple("NaN" if each != each else each for each in row) for row in rows]
        wanted = {key: row for key, row in zip(keys, rows, strict=True) if key is not None and key not in known}
        if wanted:
            function = self.of(signed)
            with self._running(signed):
                given = called(signed, function, list(wanted.values()))
            known.update(zip(wanted, given, strict=True))
        return [None if key is None else known[key] for key in keys]

    @contextmanager
    def replacing(self, signed: str, code: UserFunction | None) -> Iterator[None]:
        """A block in which views go over to other code, or to other values of the code there is. If it fails, the
        former code stays, and no value of the other does."""
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
        """`UsageError` on a thread that runs a function: the engine waits for its value, in the middle of a round."""
        owner, signed = RUNNING.get(threading.get_ident(), (None, ""))
        if owner is self:
            raise UsageError(
                f"`@{bare_name(signed)}` uses the database whose rule calls it",
                code="database-in-function",
                help="give the function what it needs as arguments, joined in the rule",
            )

    def of(self, signed: str) -> UserFunction:
        """The function of that name, or the error that there is none."""
        found = self._former.get(signed) or self.registered.get(bare_name(signed))
        if found is None:
            raise missing(bare_name(signed))
        if isinstance(found.code, Fold) is not is_fold(signed):
            wanted = "a fold" if is_fold(signed) else "a function"
            raise DataError(
                f"`{bare_name(signed)}` is declared as {wanted}, and its code is not",
                code="function-missing",
                help="register `upshot.Fold(start, merge)` for a `fold`, and a function for others",
            )
        return found

    def keeps_state(self, signed: str) -> bool:
        """True for a fold whose states are kept."""
        code = self.of(signed).code
        return isinstance(code, Fold) and code.unmerge is not None

    def merged(self, signed: str, state: Any, values: Iterable[Any], sign: int = 1) -> Any:
        """The state of a group with more values, or with fewer."""
        function = self.of(signed)
        with self._running(signed):
            return merged(signed, function, state, values, sign)

    def folded(self, signed: str, values: Iterable[Any]) -> Any:
        """The value of a group, from all its values."""
        function = self.of(signed)
        with self._running(signed):
            return folded(signed, function, values)

    def finished(self, signed: str, state: Any) -> Any:
        """The value of a group, by its state."""
        function = self.of(signed)
        with self._running(signed):
            return finished(signed, function, state)


START: Any = object()
"""The state of a group without values."""


def merged(signed: str, function: UserFunction, state: Any, values: Iterable[Any], sign: int = 1) -> Any:
    """The state of a group with these values added, or taken out."""
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
    """The value of a group, of the type that was declared."""
    fold = function.code
    assert isinstance(fold, Fold)
    try:
        value = state if fold.finish is None else fold.finish(state)
    except Exception as error:
        raise _failed(signed, error) from error
    return _fitting(signed, value, signature_of(signed)[1])


def folded(signed: str, function: UserFunction, values: Iterable[Any]) -> Any:
    """The value of a group, from all its values, in their order: that of a fold that depends on it is the same each
    time."""
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
        given = function.code(*columns)  # type: ignore[operator]
        values = given.to_pylist() if hasattr(given, "to_pylist") else list(given)
    except Exception as error:
        raise _failed(signed, error) from error
    if len(values) != len(rows):
        raise DataError(
            f"`@{bare_name(signed)}` gave {len(values)} values for {len(rows)} rows",
            code="function-result",
            help="return one value for each row, in their order",
        )
    return [_fitting(signed, value, result) for value in values]


def _fitting(signed: str, given: Any, result: Type) -> Any:
    """The value as the type holds it: members of enumerations, and others of subclasses, by the value they have."""
    wanted: Any = _CLASSES[result.kind]
    is_number = isinstance(given, bool) and result.kind is not Kind.BOOLEAN
    is_moment = isinstance(given, dt.datetime) and result.kind is Kind.DATE
    if not isinstance(given, wanted) or is_number or is_moment:
        raise unfitting(signed, given, f"is not a `{result}`")
    try:
        match result.kind:
            case Kind.NUMBER | Kind.UNSIGNED:
                number = int(given)
                if number not in _RANGES[result.kind]:
                    raise unfitting(signed, given, f"is not a `{result}`")
                return number
            case Kind.FLOAT:
                return float(given) + 0.0
            case Kind.SYMBOL:
                given.encode()
                return str.__str__(given)
            case Kind.TIMESTAMP:
                if given.tzinfo is None:
                    raise unfitting(signed, given, "has no time zone")
                return given.astimezone(dt.UTC)
    except UnicodeEncodeError:
        raise unfitting(signed, given, "is not valid Unicode text") from None
    except OverflowError:
        raise unfitting(signed, given, f"is out of the range of `{result}`") from None
    return given


def unfitting(signed: str, given: Any, why: str) -> DataError:
    """The error of a value that a function must not give."""
    shown = ascii(given)  # which is text, whatever the value
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
