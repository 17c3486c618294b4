"""Subsumption outside of recursion: the rows that no other surpasses, by conditions of any kind."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import upshot
from tests.properties.settings import case_count, seed_of

Numbers = tuple[int, int, int]

CONDITIONS: dict[str, tuple[str, Callable[[Numbers, Numbers], bool]]] = {
    "first by a, then by b": (
        "v(X, A, B) <= v(X, C, D) :- C < A ; C = A, D <= B.",
        lambda worse, better: worse[0] == better[0] and better[1:] <= worse[1:],
    ),
    "all with the least a": (
        "v(X, A, _) <= v(X, C, _) :- C < A.",
        lambda worse, better: worse[0] == better[0] and better[1] < worse[1],
    ),
    "one with the least a": (
        "v(X, A, _) <= v(X, C, _) :- C <= A.",
        lambda worse, better: worse[0] == better[0] and better[1] <= worse[1],
    ),
    "least sum": (
        "v(_, A, B) <= v(_, C, D) :- C + D < A + B.",
        lambda worse, better: sum(better[1:]) < sum(worse[1:]),
    ),
    "by two columns": (
        "v(X, A, B) <= v(X, C, D) :- C <= A, D >= B.",
        lambda worse, better: worse[0] == better[0] and better[1] <= worse[1] and better[2] >= worse[2],
    ),
    "by two rules": (
        "v(X, A, B) <= v(X, A, D) :- D > B.\nv(X, A, B) <= v(X, C, B) :- C < A, mark(C).",
        lambda worse, better: (
            (worse[:2] == better[:2] and better[2] > worse[2])
            or ((worse[0], worse[2]) == (better[0], better[2]) and better[1] < worse[1] and better[1] in (1, 3))
        ),
    ),
    "by other relations": (
        "v(X, A, _) <= v(Y, C, _) :- Y = X + 1, A < C, !mark(A).",
        lambda worse, better: better[0] == worse[0] + 1 and worse[1] < better[1] and worse[1] not in (1, 3),
    ),
    "by a function": (
        ".functor far(a: number, b: number): boolean pure\nv(X, A, _) <= v(X, C, _) :- @far(A, C) = true.",
        lambda worse, better: worse[0] == better[0] and worse[1] > better[1] + 1,
    ),
}
RULES = """
.decl s(x: number, a: number, b: number)
.decl mark(a: number)
mark(1). mark(3).
.decl v(x: number, a: number, b: number)
v(X, A, B) :- s(X, A, B).
"""


def _unsurpassed(rows: set[Numbers], surpasses: Callable[[Numbers, Numbers], bool]) -> set[Numbers]:
    def drops(row: Numbers, other: Numbers) -> bool:
        return row != other and surpasses(row, other) and (not surpasses(other, row) or other < row)

    return {row for row in rows if not any(drops(row, other) for other in rows)}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_rows_that_no_other_surpasses_change_exactly(name: str) -> None:
    text, surpasses = CONDITIONS[name]
    for number in range(case_count(8)):
        chance = random.Random(seed_of("subsumption", number))
        db = upshot.connect()
        db.function("far", lambda a, b: a > b + 1)
        db.define(RULES + text)
        rows: set[Numbers] = set()
        before: set[Numbers] = set()
        for _ in range(6):
            come = {(chance.randint(0, 2), chance.randint(0, 4), chance.randint(0, 4)) for _ in range(5)} - rows
            go = {each for each in rows if chance.random() < 0.25}
            with db.transaction() as tx:
                tx.insert("s", sorted(come))
                tx.delete("s", sorted(go))
            rows = (rows - go) | come
            after = _unsurpassed(rows, surpasses)
            assert set(db.rows("v")) == after
            assert set(tx.changes["v"].inserted) == after - before
            assert set(tx.changes["v"].deleted) == before - after
            before = after
        db.verify()


def test_a_condition_may_call_an_inlined_relation() -> None:
    db = upshot.connect()
    db.define(
        RULES + ".decl below(a: number, b: number) inline\nbelow(A, B) :- A < B.\n"
        "v(X, A, _) <= v(X, C, _) :- below(C, A).\ns(1, 5, 1). s(1, 4, 1). s(1, 4, 2)."
    )
    assert set(db.rows("v")) == {(1, 4, 1), (1, 4, 2)}


def test_facts_are_subsumed_too() -> None:
    db = upshot.connect()
    db.define(".decl r(x: number, y: number)  r(1, 2). r(2, 1). r(2, 2).\nr(A, B) <= r(C, D) :- C + D < A + B.")
    assert set(db.rows("r")) == {(1, 2), (2, 1)}
