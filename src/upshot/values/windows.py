"""Window functions: the sorted rows of a partition are one text of lines, and a function computes the value of a line.

A line is the sort key of a row, a bar, a key that distinguishes equal rows, a tab, and the argument of the function:
`N` for NULL, or `V` and the value as text. Results have the same form.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from typing import Any

from upshot.core.errors import DataError
from upshot.core.structures import NEUTRAL
from upshot.core.types import Kind, Type, decimal_of
from upshot.values.numeric_functions import quotient
from upshot.values.records import BuiltinFunction, FunctionMeaning
from upshot.values.signatures import ORDERED, fixed, only

_SYMBOL = only(Kind.SYMBOL)

_WRITTEN: dict[Kind, Callable[[Any], str]] = {
    Kind.NUMBER: str,
    Kind.UNSIGNED: str,
    Kind.FLOAT: repr,
    Kind.SYMBOL: lambda text: text.encode().hex(),
    Kind.BOOLEAN: lambda value: str(int(value)),
    Kind.DATE: lambda value: value.isoformat(),
    Kind.TIMESTAMP: lambda value: value.isoformat(timespec="microseconds").removesuffix("+00:00"),
    Kind.DECIMAL: lambda value: f"{value:f}",
}
_READ: dict[Kind, Callable[[str], Any]] = {
    Kind.NUMBER: int,
    Kind.UNSIGNED: int,
    Kind.FLOAT: float,
    Kind.SYMBOL: lambda text: bytes.fromhex(text).decode(),
    Kind.BOOLEAN: lambda text: bool(int(text)),
    Kind.DATE: dt.date.fromisoformat,
    Kind.TIMESTAMP: lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC),
    Kind.DECIMAL: Decimal,
}


_EMPTY: dict[Kind, Any] = {**NEUTRAL, Kind.DECIMAL: Decimal(0)}


def sequence(values: Sequence[str], _: Type) -> str:
    """The sorted lines of a partition."""
    return "\n".join(sorted(set(values)))


def _joined(lines: str, separator: str) -> str:
    """The joined values of the lines, which are texts."""
    try:
        return separator.join(bytes.fromhex(line.rpartition("\t")[2]).decode() for line in lines.split("\n"))
    except ValueError:
        raise DataError(
            f"{lines[:40]!r} is not a sequence of texts", code="not-a-number", help="write string_agg in SQL"
        ) from None


def _found(lines: str, line: str, function: str) -> str:
    try:
        return _values(lines, function)[line]
    except (KeyError, ValueError, ArithmeticError):
        raise DataError(
            f"`{function[:40]}` has no value for a line of its window",
            code="not-a-number",
            help="write a window function in SQL",
        ) from None


@lru_cache(maxsize=64)
def _values(lines: str, function: str) -> dict[str, str]:
    """The value of every line. `function` is the name, the kind of the values, and the frame or distance."""
    name, kind, option = function.split(" ")
    rows = lines.split("\n")
    peers = [list(rows_alike) for _, rows_alike in groupby(rows, key=lambda row: row.partition("|")[0])]
    if name in _NUMBERINGS:
        return dict(zip(rows, _numbered(name, rows, peers, option), strict=True))
    fields = [row.rpartition("\t")[2] for row in rows]
    if name in ("lag", "lead"):
        step, _, beyond = option.partition(",")
        move = -int(step) if name == "lag" else int(step)
        return {row: fields[at + move] if 0 <= at + move < len(rows) else beyond or "N" for at, row in enumerate(rows)}
    name, _, place = name.partition(":")
    fold = _RunningAggregate(name, Kind(kind), int(place or 0))
    if "," in option:
        return _framed(fold, option, peers)
    return _running(fold, option, peers)


_NUMBERINGS = ("chosen", "row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist")


def _numbered(name: str, rows: list[str], peers: list[list[str]], option: str) -> Iterator[str]:
    if name == "row_number":
        yield from (f"V{at}" for at in range(1, len(rows) + 1))
    elif name == "chosen":
        taken = set[str]()
        for row in rows:
            keys = row.partition("|")[2].split("\t")
            free = taken.isdisjoint(keys)
            taken.update(keys if free else ())
            yield f"V{int(free)}"
    elif name == "ntile":
        size, larger = divmod(len(rows), int(option))
        for bucket in range(int(option)):
            yield from [f"V{bucket + 1}"] * (size + (bucket < larger))
    else:
        before = 0
        for place, alike in enumerate(peers, start=1):
            yield from [f"V{_rank(name, place, before, len(alike), len(rows))}"] * len(alike)
            before += len(alike)


def _rank(name: str, place: int, before: int, alike: int, rows: int) -> float:
    match name:
        case "rank":
            return before + 1
        case "dense_rank":
            return place
        case "percent_rank":
            return before / (rows - 1) if rows > 1 else 0.0
        case _:
            return (before + alike) / rows


def _running(fold: _RunningAggregate, frame: str, peers: list[list[str]]) -> dict[str, str]:
    """Aggregates from the first row to the last equal one (`range`), to the row itself (`rows`), or of all rows."""
    steps = [[row] for alike in peers for row in alike] if frame == "rows" else peers
    if frame == "all":
        steps = [[row for alike in peers for row in alike]]
    found = dict[str, str]()
    for step in steps:
        for row in step:
            fold.add(row.rpartition("\t")[2])
        value = fold.value()
        found.update(dict.fromkeys(step, value))
    return found


def _framed(fold: _RunningAggregate, frame: str, peers: list[list[str]]) -> dict[str, str]:
    """Aggregates over a frame `rows,-2,0` or `range,0,`: bounds relative to the current row, or without a number the
    first and the last row. The bound 0 of a range includes all equal rows."""
    word, start, end = frame.split(",")
    units = [[row] for alike in peers for row in alike] if word == "rows" else peers
    found = dict[str, str]()
    for at, unit in enumerate(units):
        first = max(at + int(start), 0) if start else 0
        last = min(at + int(end), len(units) - 1) if end else len(units) - 1
        one = _RunningAggregate(fold.name, fold.kind, fold.place)
        for other in units[first : max(last + 1, 0)]:
            for row in other:
                one.add(row.rpartition("\t")[2])
        found.update(dict.fromkeys(unit, one.value()))
    return found


_FOLDS = ("count", "sum", "mean", "min", "max", "first_value", "last_value", "nth_value")


class _RunningAggregate:
    """An aggregate of the values added so far."""

    def __init__(self, name: str, kind: Kind, place: int = 0) -> None:
        if name not in _FOLDS:
            raise KeyError(name)
        self.name, self.kind, self.place = name, kind, place
        self._rows, self._nth = 0, "N"
        self._count, self._total, self._endless = 0, Fraction(0), 0.0
        self._best: tuple[Any, str] | None = None
        self._first, self._last, self._places = "", "", 0

    def add(self, field: str) -> None:
        self._first = self._first or field
        self._last = field
        self._rows += 1
        if self._rows == self.place:
            self._nth = field
        if field == "N":
            return
        self._count += 1
        if self.name in ("sum", "mean"):
            value = _READ[self.kind](field[1:])
            if isinstance(value, float) and not math.isfinite(value):
                self._endless += value
            else:
                self._total += Fraction(value)
                self._places = max(self._places, len(field.partition(".")[2]))
        elif self.name in ("min", "max"):
            value = _READ[self.kind](field[1:])
            rank = (math.isnan(value), value) if isinstance(value, float) else (False, value)
            if self._best is None or (rank > self._best[0] if self.name == "max" else rank < self._best[0]):
                self._best = (rank, field)

    def value(self) -> str:
        match self.name:
            case "count":
                return f"V{self._count}"
            case "first_value":
                return self._first or "N"
            case "last_value":
                return self._last or "N"
            case "nth_value":
                return self._nth
            case "min" | "max":
                return self._best[1] if self._best is not None else "N"
        return self._sum() if self._count else "N"

    def _sum(self) -> str:
        if self._endless != 0.0:
            return f"V{self._endless!r}"
        if self.name == "mean" and self.kind is Kind.DECIMAL:
            total = decimal_of(int(self._total * 10**self._places), self._places)
            return f"V{quotient(total, self._count):f}"
        if self.name == "mean":
            return f"V{float(self._total / self._count)!r}"
        if self.kind is Kind.FLOAT:
            return f"V{float(self._total)!r}"
        if self.kind is not Kind.DECIMAL:
            return f"V{int(self._total)}"
        return f"V{decimal_of(int(self._total * 10**self._places), self._places):f}"


def _reader(kind: Kind) -> Callable[..., Any]:
    def read(text: str, *_: Any) -> Any:
        if text in ("N", "D"):
            # A rule tests for these, but not always before it reads the value.
            return _EMPTY[kind]
        try:
            return _READ[kind](text[1:])
        except (ValueError, ArithmeticError):
            raise DataError(
                f"{text!r} is not the value of a window", code="not-a-number", help="write a window function in SQL"
            ) from None

    return read


def _read_function(kind: Kind) -> BuiltinFunction:
    arguments = (_SYMBOL, only(Kind.DECIMAL)) if kind is Kind.DECIMAL else (_SYMBOL,)
    spelled = f"window_{kind.value}(text{', like' if kind is Kind.DECIMAL else ''})"
    meanings = {Kind.SYMBOL: FunctionMeaning(_reader(kind), fails=True)}
    return BuiltinFunction(
        f"window_{kind.value}", fixed(only(kind), *arguments), meanings, spelled,
        "the value of a window, read from its text", scale=lambda scales: scales[-1],
    )  # fmt: skip


WINDOW_FUNCTIONS = (
    BuiltinFunction(
        "window_text", fixed(_SYMBOL, ORDERED), {kind: FunctionMeaning(write) for kind, write in _WRITTEN.items()},
        "window_text(a)", "a value as text for a window",
    ),
    BuiltinFunction(
        "window_value", fixed(_SYMBOL, _SYMBOL, _SYMBOL, _SYMBOL), {Kind.SYMBOL: FunctionMeaning(_found, fails=True)},
        "window_value(sequence, line, function)", "the value of a window function for a line of its partition",
    ),
    BuiltinFunction(
        "join_lines", fixed(_SYMBOL, _SYMBOL, _SYMBOL), {Kind.SYMBOL: FunctionMeaning(_joined, fails=True)},
        "join_lines(sequence, separator)", "the values of a sequence as one text",
    ),
    *map(_read_function, _READ),
)  # fmt: skip
