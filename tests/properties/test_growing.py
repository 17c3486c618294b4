"""Counts and sums in their own recursion change exactly: against fixpoints computed step by step in Python.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import upshot
from tests.properties.settings import case_count, seed_of

Row = tuple[Any, ...]
State = dict[str, set[Row]]

CORE = """
.decl edge(x: number, y: number)
.decl near(x: number, y: number)
near(X, Y) :- edge(X, Y).
near(Y, X) :- edge(X, Y).
.decl gone(x: number)
gone(X) :- near(X, _), D = count : { near(X, _) }, count : { near(X, Y), gone(Y) } > D - 2.
.decl core(x: number)
core(X) :- near(X, _), !gone(X).
"""
CONTROL = """
.decl owns(a: number, b: number, share: unsigned)
.decl controls(a: number, b: number)
.decl through(a: number, b: number, c: number)
through(A, B, A) :- owns(A, B, _).
through(A, B, C) :- controls(A, C), owns(C, B, _).
controls(A, B) :- through(A, B, _), A != B, S = sum N : { owns(C, B, N), through(A, B, C) }, S > 50.
"""
SPREAD = """
.decl edge(x: number, y: number)
.decl seed(x: number)
.decl limit(x: number, n: number)
.decl active(x: number)
.decl score(x: number, n: max number)
active(X) :- seed(X).
active(X) :- score(X, N), limit(X, L), N >= L.
score(X, 2 * N) :- limit(X, _), N = count : { edge(X, Y), active(Y), Y != X }.
score(X, N) :- seed(X), N = sum Y : { edge(X, Y), active(Y), Y > 0 }.
"""


def _core(state: State) -> State:
    near = state["edge"] | {(y, x) for x, y in state["edge"]}
    nodes, gone = {x for x, _ in near}, set[int]()
    while True:
        further = {
            x
            for x in nodes
            if len([y for a, y in near if a == x and y in gone]) > len([1 for a, _ in near if a == x]) - 2
        }
        if further <= gone:
            return {"near": near, "gone": {(x,) for x in gone}, "core": {(x,) for x in nodes - gone}}
        gone |= further


def _control(state: State) -> State:
    controls: set[Row] = set()
    while True:
        through = {(a, b, a) for a, b, _ in state["owns"]}
        through |= {(a, b, c) for a, c in controls for d, b, _ in state["owns"] if d == c}
        held: Counter[Row] = Counter()
        for a, b, c in through:
            held[a, b] += sum(share for d, e, share in state["owns"] if (d, e) == (c, b))
        further = {pair for pair, share in held.items() if share > 50 and pair[0] != pair[1]}
        if further <= controls:
            return {"controls": controls, "through": through}
        controls |= further


def _spread(state: State) -> State:
    active = set(state["seed"])
    while True:
        score: dict[int, int] = {}
        for x, _ in state["limit"]:
            found = 2 * len([1 for a, y in state["edge"] if a == x and (y,) in active and y != x])
            score[x] = max(score.get(x, 0), found)
        for (x,) in state["seed"]:
            found = sum(y for a, y in state["edge"] if a == x and (y,) in active and y > 0)
            score[x] = max(score.get(x, 0), found)
        further = {(x,) for x, least in state["limit"] if x in score and score[x] >= least}
        if further <= active:
            return {"active": active, "score": set(score.items())}
        active |= further


def _pair(chance: random.Random) -> Row:
    return chance.randrange(7), chance.randrange(7)


PROGRAMS: dict[str, tuple[str, Callable[[State], State], dict[str, Callable[[random.Random], Row]]]] = {
    "core": (CORE, _core, {"edge": _pair}),
    "control": (CONTROL, _control, {"owns": lambda chance: (*_pair(chance), chance.choice((10, 20, 30, 51)))}),
    "spread": (
        SPREAD, _spread,
        {
            "edge": _pair,
            "seed": lambda chance: (chance.randrange(7),),
            "limit": lambda chance: (chance.randrange(7), chance.choice((0, 1, 2, 4, 6))),
        },
    ),
}  # fmt: skip


def _changes(seed: int, rows: dict[str, Callable[[random.Random], Row]]) -> list[dict[str, tuple[set[Row], set[Row]]]]:
    chance = random.Random(seed)
    held: State = {name: set() for name in rows}
    found = []
    for _ in range(chance.randint(3, 7)):
        change = {}
        for name, make in rows.items():
            inserted = {make(chance) for _ in range(chance.choice((0, 1, 2, 8)))} - held[name]
            deleted = {row for row in held[name] if chance.random() < chance.choice((0.0, 0.1, 0.4))}
            held[name] = (held[name] - deleted) | inserted
            change[name] = inserted, deleted
        found.append(change)
    return found


@pytest.mark.parametrize("option", ["policy=incremental", "policy=auto", "strategy=recompute"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_change_of_a_growing_aggregate_is_exact(program: str, option: str) -> None:
    text, oracle, rows = PROGRAMS[program]
    for number in range(case_count(8)):
        changes = _changes(seed_of(f"growing {program}", number), rows)
        with upshot.connect() as db:
            views = {"core": ["gone"], "control": ["controls"], "spread": ["active"]}[program]
            db.define(text + "".join(f".view {view} {option}\n" for view in views))
            state: State = {name: set() for name in rows}
            before = oracle(state)
            for change in changes:
                with db.transaction() as tx:
                    for name, (inserted, deleted) in change.items():
                        state[name] = (state[name] - deleted) | inserted
                        tx.delete(name, sorted(deleted))
                        tx.insert(name, sorted(inserted))
                after = oracle(state)
                for view in after:
                    assert set(db.rows(view)) == after[view], (view, state)
                    assert set(tx.changes[view].inserted) == after[view] - before[view]
                    assert set(tx.changes[view].deleted) == before[view] - after[view]
                before = after
            db.verify()
