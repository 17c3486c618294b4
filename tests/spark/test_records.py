"""Records and branches on Spark: made, taken apart and recursive, with exact changes."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from upshot.check import check
from upshot.engine.naive import evaluate
from upshot.syntax import parse

pytestmark = pytest.mark.slow

PROGRAM = """
.type P = [x: number, y: symbol]
.type L = [head: number, tail: L]
.type S = Circle {r: number} | Named {p: P} | Empty {}
.decl e(p: P) .decl s(v: S) .decl l(v: L)
.decl x(n: number, y: symbol)  x(N, Y) :- e([N, Y]).
.decl named(v: S)              named($Named([N + 1, Y])) :- x(N, Y).
.decl shown(v: S)              shown(V) :- named(V).  shown(V) :- s(V).
.decl radius(r: number)        radius(R) :- s($Circle(R)).
.decl suffix(v: L)             suffix(V) :- l(V).  suffix(T) :- suffix([_, T]).
.decl member(n: number)        member(N) :- suffix([N, _]).
"""
VIEWS = ("x", "named", "shown", "radius", "suffix", "member")
CHANGES: list[dict[str, tuple[set[str], set[str]]]] = [
    {
        "e": ({'[1, "a"]', '[2, "b, \\"c\\""]', "nil"}, set()),
        "s": ({"$Circle(3)", "$Empty", '$Named([2, "a"])'}, set()),
        "l": ({"[1, [2, [3, nil]]]", "[4, [3, nil]]"}, set()),
    },
    {"e": ({'[3, "d"]'}, {'[1, "a"]'}), "l": (set(), {"[1, [2, [3, nil]]]"})},
    {"s": (set(), {"$Circle(3)", '$Named([2, "a"])'}), "l": ({"nil"}, {"[4, [3, nil]]"})},
]


def test_changes_of_records_are_exact(spark: Any) -> None:
    program = check(parse(PROGRAM))
    held: dict[str, set[tuple[str]]] = {"e": set(), "s": set(), "l": set()}
    before = evaluate(program, held)
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(PROGRAM)
        for change in CHANGES:
            with db.transaction() as tx:
                for name, (inserted, deleted) in change.items():
                    new, old = {(each,) for each in inserted}, {(each,) for each in deleted}
                    held[name] = (held[name] - old) | new
                    tx.delete(name, sorted(old))
                    tx.insert(name, sorted(new))
            found = evaluate(program, held)
            for view in VIEWS:
                assert set(tx.changes[view].inserted) == found[view] - before[view]
                assert set(tx.changes[view].deleted) == before[view] - found[view]
            before = found
        assert db.sql("SELECT p FROM e WHERE p = :p", p=(3, "d")) == {('[3, "d"]',)}
        db.verify()
