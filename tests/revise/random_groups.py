"""Small random groups of three columns, often empty, in rules and in SQL, and requests for what they come to."""

from __future__ import annotations

import random
from itertools import product

from tests.revise.random_requests import Fact

ROWS = {"emp": 3, "boss": 1}
"""The base relations and their columns: `emp` has an id, a group and what is folded."""

GUARDS = (
    "emp(_, D, _)",
    "emp(I, D, _), boss(I)",
    "boss(D)",
    "emp(D, _, _)",
    "boss(D), emp(_, D, P0), P0 > 1",
    "emp(_, D, P0), P0 != 2",
    "emp(I, D, P0), P0 < I",
)
TESTS = ("", "", ", S > 1", ", S % 2 = 1", ", S * S > 3", ", D < S")
DENIED = " .deny big(I, D, P) :- emp(I, D, P), P > 1."
TABLES = """
    CREATE TABLE emp(id INTEGER NOT NULL, dept INTEGER NOT NULL, pay INTEGER NOT NULL);
    CREATE TABLE boss(id INTEGER NOT NULL);
"""
SELECTS = (
    "SELECT dept, {} AS s FROM emp GROUP BY dept",
    "SELECT dept, {} AS s FROM emp WHERE pay > 1 GROUP BY dept",
    "SELECT dept, {} AS s FROM emp JOIN boss ON boss.id = emp.id GROUP BY dept",
    "SELECT dept, {0} AS s FROM emp GROUP BY dept HAVING {0} > 1",
)


def random_groups(seed: int, *, in_sql: bool) -> tuple[str, frozenset[Fact], Fact, bool]:
    """A program with a view `s` of groups and values, facts, a row of it, and whether it is to be there."""
    random_ = random.Random(seed)
    function = random_.choice(["count", "sum", "min", "max"])
    if in_sql:
        called = "count(*)" if function == "count" else f"{function}(pay)"
        program = f"{TABLES} CREATE VIEW s AS {random_.choice(SELECTS).format(called)};"
    else:
        fold = "count : { emp(_, D, _) }" if function == "count" else f"{function} P : {{ emp(_, D, P) }}"
        program = (
            ".decl emp(id: number, dept: number, pay: number) .decl boss(id: number) .decl s(d: number, s: number) "
            f"s(D, S) :- {random_.choice(GUARDS)}, S = {fold}{random_.choice(TESTS)}."
        )
    facts = frozenset(fact for fact in base_rows() if random_.random() < random_.choice([0.0, 0.2]))
    if not in_sql and random_.random() < 0.3:
        program += DENIED
        facts = frozenset(fact for fact in facts if fact[0] != "emp" or fact[1][2] <= 1)
    return program, facts, ("s", (random_.choice([1, 2]), random_.choice([1, 2, 3]))), random_.random() < 0.8


def base_rows() -> list[Fact]:
    """All base rows over two values."""
    return [(name, row) for name, arity in ROWS.items() for row in product((1, 2), repeat=arity)]
