"""Random tables, queries and transactions, in the SQL that DuckDB, PostgreSQL and Upshot all read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

NUMBER, TEXT, BOOLEAN, DATE, DECIMAL, FLOAT = "BIGINT", "TEXT", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE PRECISION"
Row = tuple[object, ...]
_DIGITS = ((4, 2), (4, 2), (8, 2), (6, 4), (5, 0), (18, 2))
_DECIMALS = {
    f"DECIMAL({precision}, {scale})": tuple(
        Decimal(number).scaleb(-scale) for number in (0, 1, -100, 150, 10**precision - 1, 1 - 10**precision)
    )
    for precision, scale in _DIGITS
}
_VALUES: dict[str, tuple[object, ...]] = {
    NUMBER: (0, 1, 2, 3),
    TEXT: ("", "a", "ab", "b"),
    BOOLEAN: (True, False),
    DATE: (date(1, 1, 1), date(1999, 12, 31), date(2024, 2, 29), date(9999, 12, 31)),
    **_DECIMALS,
}
_LITERALS: dict[str, tuple[object, ...]] = {
    **_VALUES,
    DECIMAL: tuple(map(Decimal, ("0.00", "1.5", "99.99", "-0.01", "12.345", "9999.9"))),
}
LONG = Decimal(10) ** 14
"""Values from here on may make what is computed from them too long for 18 digits."""


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[tuple[str, str, bool], ...]
    """Name, type as it is declared, and whether it can be NULL."""

    def definition(self) -> str:
        columns = (f"{name} {type}{'' if nullable else ' NOT NULL'}" for name, type, nullable in self.columns)
        return f"CREATE TABLE {self.name} ({', '.join(columns)})"


@dataclass(frozen=True)
class Column:
    """A column in scope, as it is written, and its type."""

    text: str
    type: str


@dataclass
class Scope:
    columns: list[Column] = field(default_factory=list)

    def of(self, type: str) -> list[Column]:
        return [column for column in self.columns if column.type == type]


def random_tables(choice: random.Random, *, long: bool = True) -> list[Table]:
    """Tables; unless they are `long`, nothing that is computed from them has more than 18 digits."""
    return [_random_table(choice, name, long) for name in ("r", "s", "t")[: choice.randint(2, 3)]]


def kind_of(type: str) -> str:
    """The type without its digits."""
    return DECIMAL if type.startswith(DECIMAL) else type


def _random_table(choice: random.Random, name: str, long: bool) -> Table:
    """The first column is always a number: something to join with."""
    decimals = [type for type in _DECIMALS if long or max(_DECIMALS[type]) < LONG]
    others = (NUMBER, NUMBER, NUMBER, TEXT, BOOLEAN, DATE, choice.choice(decimals), choice.choice(decimals))
    types = [NUMBER, *(choice.choice(others) for _ in range(choice.randint(1, 3)))]
    return Table(name, tuple((f"{name}{place}", type, choice.random() < 0.6) for place, type in enumerate(types)))


def random_row(choice: random.Random, table: Table) -> Row:
    return tuple(
        None if nullable and choice.random() < 0.3 else choice.choice(_VALUES[type])
        for _, type, nullable in table.columns
    )


_COLUMNS = (NUMBER, NUMBER, TEXT, DECIMAL, DATE)
"""The types that columns of inner queries have."""


class Queries:
    """Makes queries over the tables. Aliases are numbered, so that inner queries can use what is around them."""

    def __init__(self, choice: random.Random, tables: list[Table]) -> None:
        self._choice, self._tables, self._number = choice, tables, 0

    def query(self, depth: int = 2, types: list[str] | None = None) -> str:
        """A query, of columns c0 … of these types if there are any."""
        kind = self._choice.random() if depth else 1.0
        if kind < 0.15:
            wanted = types or [self._choice.choice(_COLUMNS) for _ in range(self._choice.randint(1, 2))]
            word = self._choice.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
            return f"{self.select(depth - 1, types=wanted)} {word} {self.select(depth - 1, types=wanted)}"
        if kind < 0.25 and types is None:
            return self._choice.choice((self._recursive, self._growing, self._using))()
        if kind < 0.33:
            name = self._alias()
            columns = [NUMBER, self._choice.choice(_COLUMNS)]
            inner = self.select(depth - 1, types=columns, names=("x", "y"))
            scope = Scope([Column(f"{name}.x", columns[0]), Column(f"{name}.y", columns[1])])
            return f"WITH {name} AS ({inner}) {self._body(scope, f' FROM {name}', depth - 1, types, ())}"
        return self.select(depth, types=types)

    def select(
        self, depth: int, around: Scope | None = None, types: list[str] | None = None, names: tuple[str, ...] = ()
    ) -> str:
        scope, text = self._from(depth)
        full = Scope(scope.columns + (around.columns if around else []))
        return self._body(full, text, depth, types, names, own=scope)

    def _body(
        self, scope: Scope, source: str, depth: int, types: list[str] | None, names: tuple[str, ...],
        own: Scope | None = None,
    ) -> str:  # fmt: skip
        where = f" WHERE {self.condition(scope, depth)}" if self._choice.random() < 0.7 else ""
        wanted = types or [
            self._choice.choice((*_COLUMNS, NUMBER, BOOLEAN, FLOAT)) for _ in range(self._choice.randint(1, 3))
        ]
        if self._choice.random() < 0.3:
            return self._grouped(own or scope, scope, source + where, wanted, names, depth)
        columns = [self.value(scope, type, depth) for type in wanted]
        named = [f"{c} AS {names[i] if names else f'c{i}'}" for i, c in enumerate(columns)]
        distinct = "DISTINCT " if self._choice.random() < 0.15 else ""
        return f"SELECT {distinct}{', '.join(named)}{source}{where}"

    def _grouped(
        self, own: Scope, scope: Scope, source: str, types: list[str], names: tuple[str, ...], depth: int
    ) -> str:
        keyed = [own.of(type) and self._choice.random() < 0.5 for type in types]
        columns, keys = list[str](), list[str]()
        for type, is_key in zip(types, keyed, strict=True):
            if is_key:
                key = self._choice.choice(own.of(type)).text
                if type == NUMBER and self._choice.random() < 0.2:
                    key = f"({key} + 1)"
                keys.append(key)
                columns.append(key)
            else:
                columns.append(self._aggregate(own, type))
        named = [f"{c} AS {names[i] if names else f'c{i}'}" for i, c in enumerate(columns)]
        group = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
        having = f" HAVING {self._aggregate(own, NUMBER)} > {self._choice.randint(0, 2)}" * (
            self._choice.random() < 0.3
        )
        return f"SELECT {', '.join(named)}{source}{group}{having}"

    def _aggregate(self, scope: Scope, type: str) -> str:
        if type == TEXT:
            return f"{self._choice.choice(('min', 'max'))}({self.value(scope, TEXT, 0)})"
        if type == BOOLEAN:
            return f"{self._choice.choice(('bool_and', 'bool_or'))}({self.value(scope, BOOLEAN, 0)})"
        value = self.value(scope, NUMBER if type == FLOAT else type, 0)
        if type == FLOAT:
            return f"avg({self.value(scope, self._choice.choice((NUMBER, DECIMAL)), 0)})"
        functions = ("sum({})", "min({})", "max({})", "sum(DISTINCT {})")
        if type == DATE:
            functions = functions[1:3]
        if type == NUMBER:
            functions += ("count(*)", "count({})", "count(DISTINCT {})")
        function = self._choice.choice(functions)
        if function.startswith("count(") and self._choice.random() < 0.5:
            value = self.value(scope, self._choice.choice((TEXT, BOOLEAN, DATE, DECIMAL)), 0)
        filtered = f" FILTER (WHERE {self.condition(scope, 0)})" if self._choice.random() < 0.1 else ""
        return function.format(value) + filtered

    def _recursive(self) -> str:
        table = self._choice.choice(self._tables)
        numbers = [name for name, type, _ in table.columns if type == NUMBER]
        a, b = self._choice.choice(numbers), self._choice.choice(numbers)
        used = self._choice.choice(
            ("SELECT * FROM w", "SELECT x, count(*) AS n FROM w GROUP BY x", "SELECT y FROM w WHERE x > 0")
        )
        first = f"SELECT {a}, {b} FROM {table.name}"  # noqa: S608 - random SQL is what is made here
        further = f"SELECT w.x, u.{b} FROM w JOIN {table.name} u ON w.y = u.{a}"  # noqa: S608
        return f"WITH RECURSIVE w(x, y) AS ({first} UNION {further}) {used}"

    def _growing(self) -> str:
        """A recursion that computes: its values grow until a bound stops them."""
        table = self._choice.choice(self._tables)
        type = self._choice.choice((NUMBER, DECIMAL, DECIMAL, TEXT))
        first = self._simple(Scope([Column(name, kind_of(known)) for name, known, _ in table.columns]), type)
        word = self._choice.choice(("UNION", "UNION", "UNION ALL"))
        step = {
            NUMBER: ("y + 1", "y * 2 + 1", "w.n + 2"),
            DECIMAL: ("y + y", "y + 1.25", "y - 0.50", "y + 99.99"),
            TEXT: ("y || 'a'",),
        }[type]
        limit = {NUMBER: "y < 9", DECIMAL: "y < 300.00", TEXT: "length(y) < 4"}[type]
        used = self._choice.choice(
            ("SELECT n, y FROM w", "SELECT max(y) AS y FROM w", "SELECT DISTINCT y FROM w WHERE n > 1",
             f"SELECT q.n, q.y FROM (SELECT n, y FROM w WHERE {limit}) AS q")  # noqa: S608
        )  # fmt: skip
        further = f"SELECT n + 1, {self._choice.choice(step)} FROM w WHERE n < {self._choice.randint(1, 6)} AND {limit}"  # noqa: S608
        return f"WITH RECURSIVE w(n, y) AS (SELECT 0, {first} FROM {table.name} {word} {further}) {used}"  # noqa: S608

    def _using(self) -> str:
        """A join by columns of the same name, of rows that are selected or listed."""
        type = self._choice.choice((NUMBER, NUMBER, TEXT, DATE, DECIMAL))
        sides = []
        for number in (1, 2):
            if self._choice.random() < 0.3:
                rows = ", ".join(
                    f"({self._literal(type)}, {self._literal(NUMBER)})" for _ in range(self._choice.randint(1, 3))
                )
                sides.append(f"(VALUES {rows}) AS u{number}(x, y)")
            else:
                sides.append(f"({self.select(0, types=[type, NUMBER], names=('x', 'y'))}) AS u{number}")
        word = self._choice.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if self._choice.random() < 0.2:
            return f"SELECT x, y FROM {sides[0]} NATURAL {word} {sides[1]}"  # noqa: S608
        used = self._choice.choice(("x, u1.y AS a, u2.y AS b", "x, count(*) AS n", "*"))
        if used == "*":
            return f"SELECT x, n FROM (SELECT x, u1.y AS n FROM {sides[0]} {word} {sides[1]} USING (x)) AS q"  # noqa: S608
        group = " GROUP BY x" if "count" in used else ""
        return f"SELECT {used} FROM {sides[0]} {word} {sides[1]} USING (x){group}"  # noqa: S608

    # ---- FROM -----------------------------------------------------------------------------------

    def _alias(self) -> str:
        self._number += 1
        return f"q{self._number}"

    def _table(self, depth: int) -> tuple[Scope, str]:
        name = self._alias()
        if depth and self._choice.random() < 0.2:
            types = [NUMBER, self._choice.choice(_COLUMNS)]
            word = self._choice.choice(("", "", "UNION ALL", "UNION"))
            inner = self.select(depth - 1, types=types, names=("x", "y"))
            if word:
                inner = f"{inner} {word} {self.select(depth - 1, types=types, names=('x', 'y'))}"
            return Scope([Column(f"{name}.x", types[0]), Column(f"{name}.y", types[1])]), f"({inner}) AS {name}"
        table = self._choice.choice(self._tables)
        columns = [Column(f"{name}.{c}", kind_of(type)) for c, type, _ in table.columns]
        return Scope(columns), f"{table.name} AS {name}"

    def _from(self, depth: int) -> tuple[Scope, str]:
        scope, text = self._table(depth)
        for _ in range(self._choice.choice((0, 0, 1, 1, 2) if depth else (0, 1))):
            other, right = self._table(depth)
            word = self._choice.choice((",", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"))
            both = Scope(scope.columns + other.columns)
            if word in (",", "CROSS JOIN"):
                # A comma binds less than a join: what is joined afterwards could not use what stands before it.
                text += f" CROSS JOIN {right}"
            else:
                text += f" {word} {right} ON {self._join_condition(scope, other, both)}"
            scope = both
        return scope, f" FROM {text}"

    def _join_condition(self, left: Scope, right: Scope, both: Scope) -> str:
        equal = f"{self._choice.choice(left.of(NUMBER)).text} = {self._choice.choice(right.of(NUMBER)).text}"
        if self._choice.random() < 0.3:
            return f"{equal} AND {self.condition(both, 0)}"
        return equal

    # ---- conditions -----------------------------------------------------------------------------

    def condition(self, scope: Scope, depth: int) -> str:
        kind = self._choice.randrange(14 if depth else 8)
        type = self._choice.choice((NUMBER, NUMBER, DECIMAL, DATE)) if kind < 8 else NUMBER
        number = lambda: self.value(scope, type, 0)  # noqa: E731
        match kind:
            case 0 | 1:
                return f"{number()} {self._choice.choice(('=', '<>', '<', '<=', '>', '>='))} {number()}"
            case 2:
                column = self._choice.choice(scope.columns).text
                return f"{column} IS {self._choice.choice(('', 'NOT '))}NULL"
            case 3:
                text = self.value(scope, TEXT, 0)
                return self._choice.choice(
                    (f"{text} LIKE 'a%'", f"{text} NOT LIKE '_b'", f"{text} < 'b'", f"{text} = 'a'")
                )
            case 4:
                word = self._choice.choice(("AND", "OR"))
                return f"({self.condition(scope, depth)} {word} {self.condition(scope, depth)})"
            case 5:
                return f"NOT ({self.condition(scope, max(depth - 1, 0))})"
            case 6:
                values = ", ".join(self._choice.choice((self._literal(type), "NULL")) for _ in range(2))
                return f"{number()} {self._choice.choice(('', 'NOT '))}IN ({values})"
            case 7:
                return self._choice.choice(
                    (
                        f"{number()} BETWEEN {number()} AND {number()}",
                        f"{number()} IS {self._choice.choice(('', 'NOT '))}DISTINCT FROM {number()}",
                        f"({self.condition(scope, 0)}) IS {self._choice.choice(('', 'NOT '))}TRUE",
                        f"({self.condition(scope, 0)}) IS {self._choice.choice(('', 'NOT '))}FALSE",
                        self.value(scope, BOOLEAN, 0),
                    )
                )
            case 8 | 9:
                return f"{self._choice.choice(('', 'NOT '))}EXISTS ({self.select(depth - 1, scope)})"
            case 10 | 11:
                inner = self.select(depth - 1, self._choice.choice((None, scope)), types=[NUMBER])
                return f"{number()} {self._choice.choice(('', 'NOT '))}IN ({inner})"
            case 12:
                inner = self.select(depth - 1, self._choice.choice((None, scope)), types=[NUMBER])
                op = self._choice.choice(("=", "<", ">=", "<>"))
                return f"{number()} {op} {self._choice.choice(('ANY', 'ALL'))} ({inner})"
            case _:
                return f"{number()} {self._choice.choice(('<', '=', '>='))} {self._scalar(scope, depth)}"

    # ---- values ---------------------------------------------------------------------------------

    def value(self, scope: Scope, type: str, depth: int) -> str:
        if type == FLOAT:
            return self._scalar(scope, depth, FLOAT)
        known = scope.of(type)
        if known and self._choice.random() < 0.6:
            return self._choice.choice(known).text
        kind = self._choice.randrange(8)
        if kind == 0:
            one, other = self._simple(scope, type), self._simple(scope, type)
            return f"CASE WHEN {self.condition(scope, 0)} THEN {one} ELSE {other} END"
        if kind == 1:
            return f"COALESCE({self._simple(scope, type)}, {self._simple(scope, type)})"
        if type == DATE and kind == 2:
            function = self._choice.choice(("GREATEST", "LEAST"))
            return f"{function}({self._simple(scope, type)}, {self._simple(scope, type)})"
        if type in (NUMBER, DECIMAL):
            if kind == 2:
                return f"({self._simple(scope, type)} {self._choice.choice('+-*')} {self._simple(scope, type)})"
            if kind == 3:
                return f"NULLIF({self._simple(scope, type)}, {self._simple(scope, type)})"
            if kind == 4:
                function = self._choice.choice(("GREATEST", "LEAST"))
                return f"{function}({self._simple(scope, type)}, {self._simple(scope, type)})"
            if kind == 5:
                return f"ABS({self._simple(scope, type)} - 2)"
            if kind == 6 and depth:
                return self._scalar(scope, depth, type)
            if kind == 7 and type == NUMBER:
                return f"LENGTH({self._simple(scope, TEXT)})"
        if type == TEXT and kind in (2, 3):
            return f"({self._simple(scope, type)} || {self._simple(scope, type)})"
        if type == BOOLEAN and kind in (2, 3, 4):
            return f"({self.condition(scope, 0)})"
        return self._simple(scope, type)

    def _simple(self, scope: Scope, type: str) -> str:
        known = scope.of(type)
        if known and self._choice.random() < 0.8:
            return self._choice.choice(known).text
        return self._literal(type)

    def _literal(self, type: str) -> str:
        value = self._choice.choice(_LITERALS[type])
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        return f"'{value}'" if isinstance(value, str) else str(value).upper()

    def _scalar(self, scope: Scope, depth: int, type: str = NUMBER) -> str:
        inner, source = self._from(0)
        full = Scope(inner.columns + (scope.columns if self._choice.random() < 0.6 else []))
        where = f" WHERE {self.condition(full, 0)}" if self._choice.random() < 0.8 else ""
        return f"(SELECT {self._aggregate(inner, type)}{source}{where})"
