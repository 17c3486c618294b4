"""Random tables, queries and transactions, in the SQL that DuckDB and Upshot both read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

NUMBER, TEXT, BOOLEAN = "BIGINT", "TEXT", "BOOLEAN"
Row = tuple[object, ...]
_VALUES: dict[str, tuple[object, ...]] = {NUMBER: (0, 1, 2, 3), TEXT: ("", "a", "ab", "b"), BOOLEAN: (True, False)}


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[tuple[str, str, bool], ...]
    """Name, type, and whether it can be NULL."""

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


def random_tables(choice: random.Random) -> list[Table]:
    return [_random_table(choice, name) for name in ("r", "s", "t")[: choice.randint(2, 3)]]


def _random_table(choice: random.Random, name: str) -> Table:
    """The first column is always a number: something to join with."""
    types = [NUMBER, *(choice.choice((NUMBER, NUMBER, NUMBER, TEXT, BOOLEAN)) for _ in range(choice.randint(1, 2)))]
    return Table(name, tuple((f"{name}{place}", type, choice.random() < 0.6) for place, type in enumerate(types)))


def random_row(choice: random.Random, table: Table) -> Row:
    return tuple(
        None if nullable and choice.random() < 0.3 else choice.choice(_VALUES[type])
        for _, type, nullable in table.columns
    )


class Queries:
    """Makes queries over the tables. Aliases are numbered, so that inner queries can use what is around them."""

    def __init__(self, choice: random.Random, tables: list[Table]) -> None:
        self._choice, self._tables, self._number = choice, tables, 0

    def query(self, depth: int = 2) -> str:
        kind = self._choice.random()
        if depth and kind < 0.15:
            width = [self._choice.choice((NUMBER, TEXT)) for _ in range(self._choice.randint(1, 2))]
            word = self._choice.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT"))
            return f"{self.select(depth - 1, types=width)} {word} {self.select(depth - 1, types=width)}"
        if depth and kind < 0.22:
            return self._recursive()
        if depth and kind < 0.3:
            name = self._alias()
            types = [NUMBER, self._choice.choice((NUMBER, TEXT))]
            inner = self.select(depth - 1, types=types, names=("x", "y"))
            scope = Scope([Column(f"{name}.x", types[0]), Column(f"{name}.y", types[1])])
            return f"WITH {name} AS ({inner}) {self._body(scope, f' FROM {name}', depth - 1, None, ())}"
        return self.select(depth)

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
            self._choice.choice((NUMBER, NUMBER, TEXT, BOOLEAN)) for _ in range(self._choice.randint(1, 3))
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
        columns, keys = [], []
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
        value = self.value(scope, NUMBER, 0)
        function = self._choice.choice(
            ("count(*)", "count({})", "sum({})", "min({})", "max({})", "count(DISTINCT {})", "sum(DISTINCT {})")
        )
        if function == "count({})" and self._choice.random() < 0.5:
            value = self.value(scope, self._choice.choice((TEXT, BOOLEAN)), 0)
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

    # ---- FROM -----------------------------------------------------------------------------------

    def _alias(self) -> str:
        self._number += 1
        return f"q{self._number}"

    def _table(self, depth: int) -> tuple[Scope, str]:
        name = self._alias()
        if depth and self._choice.random() < 0.2:
            types = [NUMBER, self._choice.choice((NUMBER, TEXT))]
            word = self._choice.choice(("", "", "UNION ALL", "UNION"))
            inner = self.select(depth - 1, types=types, names=("x", "y"))
            if word:
                inner = f"{inner} {word} {self.select(depth - 1, types=types, names=('x', 'y'))}"
            return Scope([Column(f"{name}.x", types[0]), Column(f"{name}.y", types[1])]), f"({inner}) AS {name}"
        table = self._choice.choice(self._tables)
        return Scope([Column(f"{name}.{c}", type) for c, type, _ in table.columns]), f"{table.name} AS {name}"

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
        number = lambda: self.value(scope, NUMBER, 0)  # noqa: E731
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
                values = ", ".join(self._choice.choice(("0", "1", "2", "NULL")) for _ in range(2))
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
        known = scope.of(type)
        if known and self._choice.random() < 0.6:
            return self._choice.choice(known).text
        kind = self._choice.randrange(8)
        if kind == 0:
            one, other = self._simple(scope, type), self._simple(scope, type)
            return f"CASE WHEN {self.condition(scope, 0)} THEN {one} ELSE {other} END"
        if kind == 1:
            return f"COALESCE({self._simple(scope, type)}, {self._simple(scope, type)})"
        if type == NUMBER:
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
                return self._scalar(scope, depth)
            if kind == 7:
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
        value = self._choice.choice(_VALUES[type])
        return f"'{value}'" if isinstance(value, str) else str(value).upper()

    def _scalar(self, scope: Scope, depth: int) -> str:
        inner, source = self._from(0)
        full = Scope(inner.columns + (scope.columns if self._choice.random() < 0.6 else []))
        where = f" WHERE {self.condition(full, 0)}" if self._choice.random() < 0.8 else ""
        return f"(SELECT {self._aggregate(inner, NUMBER)}{source}{where})"
