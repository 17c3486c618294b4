"""Every built-in on values at the edges of its types, with the value that the oracle gives."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from tests.properties.settings import case_count, seed_of
from upshot.core.errors import DataError
from upshot.core.types import Kind, Type
from upshot.engine.naive_functions import aggregate, apply
from upshot.engine.naive_values import canonical
from upshot.syntax import print_term
from upshot.syntax.ast import Call, Variable
from upshot.values.aggregates import AGGREGATES
from upshot.values.date_functions import FIELDS, UNITS
from upshot.values.functions import FUNCTIONS
from upshot.values.signatures import only, preferred

Row = tuple[Any, ...]
T = TypeVar("T")

CENTS, MICROS, WIDE = (Type(Kind.DECIMAL, scale=scale).widest() for scale in (2, 6, 20))
EDGES: dict[Type, tuple[Any, ...]] = {
    Type(Kind.NUMBER): (
        -(2**63), -(2**63) + 1, -(2**53) - 1, -64, -1, 0, 1, 2, 63, 64, 2**53 - 1, 2**53 + 1, 2**63 - 1,
    ),
    Type(Kind.UNSIGNED): (0, 1, 2, 63, 64, 2**53 + 1, 2**63, 2**64 - 1),
    Type(Kind.FLOAT): (
        0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e308, -1e308, 5e-324, 2.0**53 + 2, math.inf, -math.inf, math.nan, 1e16,
    ),
    Type(Kind.SYMBOL): (
        "", " ", "a", "Z", "é", "e\u0301", "\U0001f600x", "\uffff", "a\0b", "12", " -42\t", "+007", "1_0", "\u00a01",
        "٣",        "9223372036854775807", "9223372036854775808", "-0", "0" * 30 + "5",
    ),
    Type(Kind.BOOLEAN): (False, True),
    Type(Kind.DATE): (dt.date.min, dt.date(1969, 12, 31), dt.date(2026, 1, 31), dt.date.max),
    Type(Kind.TIMESTAMP): (
        dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.UTC),
    ),
    CENTS: tuple(map(Decimal, ("0.00", "0.01", "-0.01", "1.50", "9999999999999999.99", "-9999999999999999.99"))),
    MICROS: tuple(map(Decimal, ("0.000000", "0.000001", "-2.500000", "999999999999.999999"))),
    WIDE: (
        Decimal("0.00000000000000000000"), Decimal("0.33333333333333333333"), Decimal("-0.00000000000000000001"),
        Decimal("2.00000000000000000000"), Decimal("-999999999999999999.99999999999999999999"),
    ),
}  # fmt: skip
_FEW_NUMBERS = (-1, 0, 1, 2, 2**63 - 1)
WORDS = {"date_field": tuple(FIELDS), "time_start": UNITS}
"""The texts that a function takes for its second argument."""


@dataclass(frozen=True, slots=True)
class Use:
    """A function on arguments of these types: its relations are `r`, `h` and, in SQL, `s`, with its number behind."""

    name: str
    types: tuple[Type, ...]
    number: int

    @property
    def result(self) -> Type:
        return FUNCTIONS[self.name].result(self.types)

    def rows(self) -> Iterator[Row]:
        if self.name == "window_value":
            yield from _window_rows()
            return
        if self.name == "join_lines":
            yield from itertools.product(("0\t61\n1\t\n2|\t6162", "\t61", "0", "", "no hex"), ("", ", ", "\t"))
            return
        values = [EDGES[type] for type in self.types]
        if self.name.startswith("window_") and self.types[0].kind is Kind.SYMBOL and self.name != "window_text":
            values[0] = (
                "N",
                "V12",
                "V1",
                "V2026-01-31",
                "V2026-01-31T10:00:00.000001",
                "V61c3a9",
                "V1.5",
                "x",
                "V",
            )
        numbers = [type.kind is Kind.NUMBER and at > 0 for at, type in enumerate(self.types)]
        values = [_FEW_NUMBERS if few else each for few, each in zip(numbers, values, strict=True)]
        if self.name in WORDS:
            values[1] = (*WORDS[self.name], "no such word")
        elif len(values) > 2 and self.name != "substr":
            values = [each[:3] if each is not _FEW_NUMBERS else each for each in values]
        yield from itertools.product(*values)

    def expected(self) -> list[tuple[Row, Any]]:
        """Every row with its value, or its error."""
        return [(row, self._value(row)) for row in self.rows()]

    def _value(self, row: Row) -> Any:
        try:
            return canonical(apply(self.name, [canonical(each) for each in row], self.result))
        except DataError as error:
            return error

    @property
    def term(self) -> str:
        return print_term(Call(self.name, tuple(Variable(f"A{at}") for at in range(len(self.types)))))

    def program(self, *, nullable: bool = False) -> str:
        mark, n = "?" if nullable else "", self.number
        columns = ", ".join(f"a{at}: {type}{mark}" for at, type in enumerate(self.types))
        names = ", ".join(f"A{at}" for at in range(len(self.types)))
        return (
            f".decl r{n}(i: number, {columns})\n.decl h{n}(i: number, v: {self.result}{mark})\n"
            f"h{n}(I, {self.term}) :- r{n}(I, {names}).\n"
        )

    def sql(self) -> str:
        """The view that computes the same in SQL; empty where there is no spelling."""
        spelled = SQL.get(self.name, "")
        # SQL brings decimals to one scale before it computes, which is an overflow of its own.
        if len(self.types) > 2 or {CENTS, MICROS} == {*self.types}:
            return ""
        if len({each.is_wide for each in self.types}) > 1:
            return ""
        if self.name == "to_string" and self.types[0].kind in (Kind.FLOAT, Kind.SYMBOL):
            return ""
        if self.name == "to_number" and self.types[0].kind is not Kind.SYMBOL:
            return ""
        return f"CREATE VIEW s{self.number} AS SELECT i, {spelled} AS v FROM r{self.number};\n" if spelled else ""  # noqa: S608


_FRAMES = ("rows,-1,1", "rows,,-1", "rows,0,", "rows,-4,-3", "rows,2,3", "range,0,", "range,0,0")


def _window_rows() -> Iterator[Row]:
    """Lines with ties, NULL and values of a kind, under every window function."""
    fields = {
        "number": ("V3", "N", "V-2", "V3", "V9"), "float": ("V1.5", "Vnan", "N", "V-0.25", "V2.0"),
        "decimal": ("V0.10", "V2.00", "N", "V-1.25", "V2.00"), "symbol": ("V61", "V", "N", "V6162", "V61"),
    }  # fmt: skip
    for kind, values in fields.items():
        lines = sorted(f"{key}|{at}\t{value}" for at, (key, value) in enumerate(zip("00112", values, strict=True)))
        names = ["row_number", "rank", "dense_rank", "count", "min", "max", "first_value", "last_value"]
        names += ["sum", "mean"] if kind != "symbol" else []
        functions = [f"{name} {kind} {frame}" for name in names for frame in ("range", "rows", "all", *_FRAMES)]
        functions += [f"{name} {kind} {step}" for name in ("lag", "lead") for step in (0, 1, 3, "2,D")]
        functions += [f"nth_value:{n} {kind} {frame}" for n in (0, 2, 9) for frame in ("range", "rows,-1,1")]
        functions += [f"percent_rank {kind} 0", f"cume_dist {kind} 0"]
        functions += [f"ntile {kind} 2", f"no_such {kind} rows", "sum"]
        for function, line in itertools.product(functions, (*lines, "no such line")):
            yield "\n".join(lines), line, function


SQL = {
    "+": "a0 + a1", "-": "a0 - a1", "*": "a0 * a1", "/": "a0 / a1", "%": "a0 % a1", "neg": "-a0",
    "max": "GREATEST(a0, a1)", "min": "LEAST(a0, a1)", "cat": "a0 || a1", "strlen": "LENGTH(a0)",
    "reverse": "REVERSE(a0)", "quotient": "a0 / a1", "to_number": "CAST(a0 AS BIGINT)", "to_string": "CAST(a0 AS TEXT)",
}  # fmt: skip
"""Spellings of SQL; `substr` takes constants there alone, and is tested with the other definitions of SQL."""


def uses() -> list[Use]:
    """Every function on every kind that it takes."""
    found: list[tuple[str, tuple[Type, ...]]] = []
    for name, function in FUNCTIONS.items():
        signature = function.signature
        if not function.spelled:
            continue  # of records, which `tests/properties/test_records.py` compares with plain columns
        for type in EDGES:
            if not signature.arguments[0] & only(type.kind):
                continue
            if signature.uniform:
                found.append((name, (type,) * signature.least))
                if signature.most is None:
                    found.append((name, (type,) * 3))
            else:
                others = [preferred(signature.argument(at)) for at in range(1, len(signature.arguments))]
                found.append((name, (type, *(CENTS if o is Kind.DECIMAL else Type(o) for o in others))))
                if name in ("to_decimal", "round_to", "quotient") and type in (CENTS, WIDE):
                    found.append((name, (type, *(WIDE if o is Kind.DECIMAL else Type(o) for o in others))))
        if signature.uniform and signature.least == 2 and signature.arguments[0] & only(Kind.DECIMAL):
            found += [(name, (CENTS, MICROS)), (name, (CENTS, WIDE))]
    return [Use(name, types, number) for number, (name, types) in enumerate(found)]


def sampled(rows: Sequence[T], use: Use) -> list[T]:
    """Some of the rows, by seed: as many as the run was told to take."""
    return random.Random(seed_of(f"builtins {use.number}", 0)).sample(
        list(rows), min(len(rows), case_count(100, least=3))
    )


@dataclass(frozen=True, slots=True)
class FoldUse:
    """An aggregate over groups of values of a type: relations `g`, `f` and `q`, with its number behind."""

    name: str
    type: Type
    number: int

    def groups(self) -> list[Row]:
        values = EDGES[self.type]
        if self.name == "kth":
            values = ("2:a", "1:b", "2:c", "2:b", "3:", "0:a", "x", "2:", "2:a", "2:d")
        pairs = itertools.combinations([*dict.fromkeys(map(canonical, values))], 2)
        return [*((each,) for each in dict.fromkeys(map(canonical, values))), *pairs, tuple(values[3:9])]

    def expected(self) -> list[tuple[Row, Any]]:
        """Every group with its value, or its error."""
        return [(group, self._value(group)) for group in self.groups() if group]

    def _value(self, group: Row) -> Any:
        if self.name == "count":
            return len(group)
        result = AGGREGATES[self.name].result(self.type)
        try:
            return canonical(aggregate(self.name, group, result))
        except DataError as error:
            return error

    def program(self) -> str:
        n, result = self.number, AGGREGATES[self.name].result(self.type)
        body = f"{{ g{n}(G, _, A) }}" if self.name != "count" else f"{{ g{n}(G, _, _) }}"
        folded = f"{self.name} A : {body}" if self.name != "count" else f"count : {body}"
        return (
            f".decl g{n}(g: number, i: number, a: {self.type})\n.decl f{n}(g: number, v: {result})\n"
            f"f{n}(G, V) :- g{n}(G, _, _), V = {folded}.\n"
        )

    def sql(self) -> str:
        if self.name == "average":
            spelled = "avg"
        elif not AGGREGATES[self.name].sql or (self.name == "mean" and self.type.kind is Kind.DECIMAL):
            return ""
        else:
            spelled = AGGREGATES[self.name].sql[0][1]
        return f"CREATE VIEW q{self.number} AS SELECT g, {spelled}(a) AS v FROM g{self.number} GROUP BY g;\n"  # noqa: S608


def folds() -> list[FoldUse]:
    """Every aggregate on every type that it takes."""
    pairs = [(name, type) for name, each in AGGREGATES.items() for type in EDGES if each.accepts(type.kind)]
    return [FoldUse(name, type, number) for number, (name, type) in enumerate(pairs)]


@dataclass(frozen=True, slots=True)
class Packed:
    """All uses and folds as one program of few relations: the arguments by their types, `chosen` for those of a use
    that have a value, and the values by their type."""

    text: str
    rows: dict[str, list[Row]]
    expected: dict[str, set[Row]]
    """By view, rows of the number of a use, that of its row, and the value."""


def _packs(name: str, types: Sequence[Type]) -> bool:
    """Leaves out what differs from another use in nothing that Spark computes."""
    kind, alike = types[0].kind, len({*types}) == 1
    if (types[0] == MICROS and alike) or (name == "count" and kind is not Kind.NUMBER):
        return False
    if len(types) > 2 and alike:
        return kind in (Kind.NUMBER, Kind.DECIMAL)
    return name != "min" or kind not in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.UNSIGNED)


def packed() -> Packed:
    """One program, for Spark: every rule more is a branch more to plan."""
    rows: dict[str, list[Row]] = {"chosen": []}
    expected: dict[str, set[Row]] = {}
    text = [".decl chosen(k: number, i: number)\n"]

    def declare(name: str, columns: str) -> bool:
        line = f".decl {name}({columns})\n"
        text.extend([] if line in text else [line])
        return name not in rows

    for use in (use for use in uses() if _packs(use.name, use.types)):
        source, view = "r_" + "_".join(map(_word, use.types)), f"h_{_word(use.result)}"
        if use.name == "substr":
            source += "_part"
        own_rows = use.name in WORDS or use.name.startswith(("window_", "join_lines"))
        if own_rows or (use.name.isidentifier() and len({*use.types}) > 1):
            source += f"_{use.name}"
        columns = ", ".join(f"a{at}: {type}" for at, type in enumerate(use.types))
        if declare(source, f"i: number, {columns}"):
            rows[source] = [(n, *row) for n, row in enumerate(use.rows())]
        declare(view, f"k: number, i: number, v: {use.result}")
        names = ", ".join(f"A{at}" for at in range(len(use.types)))
        text.append(f"{view}({use.number}, I, V) :- chosen({use.number}, I), {source}(I, {names}), V = {use.term}.\n")
        _choose(use.number, [value for _, value in use.expected()], rows, expected.setdefault(view, set()))
    for fold in (fold for fold in folds() if _packs(fold.name, (fold.type,))):
        number, result = 1000 + fold.number, AGGREGATES[fold.name].result(fold.type)
        source, view = f"g_{_word(fold.type)}", f"f_{_word(result)}"
        if fold.name == "kth":
            source += "_kth"
        if declare(source, f"g: number, i: number, a: {fold.type}"):
            groups = enumerate(fold.expected())
            rows[source] = [(g, i, value) for g, (group, _) in groups for i, value in enumerate(group)]
        declare(view, f"k: number, g: number, v: {result}")
        target = "" if fold.name == "count" else "A "
        body = f"{{ chosen({number}, G), {source}(G, _, {'_' if fold.name == 'count' else 'A'}) }}"
        text.append(f"{view}({number}, G, V) :- chosen({number}, G), V = {fold.name} {target}: {body}.\n")
        _choose(number, [value for _, value in fold.expected()], rows, expected.setdefault(view, set()))
    return Packed("".join(text), rows, expected)


def _choose(number: int, values: list[Any], rows: dict[str, list[Row]], expected: set[Row]) -> None:
    for n, value in enumerate(values):
        if not isinstance(value, DataError):
            rows["chosen"].append((number, n))
            expected.add((number, n, comparable(value)))


def _word(type: Type) -> str:
    return f"{type.kind.value}{type.scale or ''}"


def comparable(value: Any) -> Any:
    """The value with NaN equal to itself, and numbers of different types different."""
    return ("NaN",) if isinstance(value, float) and math.isnan(value) else (type(value).__name__, value)
