"""Upshot: the first realizations of requests that grow with the database, each with the least of several times."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import upshot
from bench.tasks import Answer, Task

CLOSURE = """
.decl edge(a: number, b: number)
.decl path(a: number, b: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
"""
ACCESS = """
.decl member(p: number, t: number)
.decl granted(t: number, r: number)
.decl access(p: number, r: number)
access(P, R) :- member(P, T), granted(T, R).
"""
PRICES = """
.decl item(s: symbol, p: number) key(s)
.decl rate(s: symbol, t: number)
.decl fee(s: symbol, f: number)
.decl net(s: symbol, p: number)
.decl taxed(s: symbol, p: number)
.decl shipped(s: symbol, p: number)
.decl offer(s: symbol, p: number)
.decl dear(s: symbol)
net(S, P) :- item(S, P).
taxed(S, P + T) :- net(S, P), rate(S, T).
shipped(S, P + F) :- taxed(S, P), fee(S, F).
offer(S, P) :- shipped(S, P), P < 1000.
dear(S) :- offer(S, P), P > 100.
item("a", 10). item("b", 20). item("c", 30).
rate("a", 1). rate("b", 2). rate("c", 3).
fee("a", 5). fee("b", 5). fee("c", 5).
"""
TIMES = 3


def run(task: Task) -> Answer:
    edges, grants, violations = (task.options[name] for name in ("edges", "grants", "violations"))
    answer = Answer(times={}, size=grants)
    requests: dict[str, Callable[[], object]] = {}
    for kind, listed in (("diamonds", _diamonds(edges)), ("chain", [(i, i + 1) for i in range(edges - 2)])):
        db, last = _closure(listed), max(b for _, b in listed)
        requests[f"{kind}, insertion, first ten"] = partial(_ten, db, {"path": [(last, 0)]}, None)
        requests[f"{kind}, deletion, first ten"] = partial(_ten, db, None, {"path": [(0, last)]})
    prices = upshot.connect()
    prices.define(PRICES)
    requests["price list, all"] = lambda: _all(prices)
    access = _access(grants)
    requests["revoke, fewest side effects"] = lambda: next(
        access.realize(delete={"access": [(0, 0)]}, prefer="least_side_effects", limit=1)
    )
    broken = _broken(violations)
    requests["repairs"] = lambda: next(broken.repairs(limit=1, bounds=upshot.Bounds(seconds=60)))
    for name, request in requests.items():
        for _ in range(TIMES):
            started = time.process_time()
            request()
            answer.times.setdefault(name, []).append(time.process_time() - started)
    return answer


def _diamonds(edges: int) -> list[tuple[int, int]]:
    starts = range(0, 3 * (edges // 4), 3)
    return [each for a in starts for each in ((a, a + 1), (a, a + 2), (a + 1, a + 3), (a + 2, a + 3))]


def _closure(edges: list[tuple[int, int]]) -> upshot.Database:
    db = upshot.connect()
    db.define(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", edges)
    return db


def _ten(db: upshot.Database, insert: object, delete: object) -> None:
    found = list(db.realize(insert, delete, limit=10))  # type: ignore[arg-type]
    assert len(found) == 10, "there are as many"


def _all(db: upshot.Database) -> None:
    found = db.realize({"dear": [("a",)]})
    assert (len(list(found)), found.status) == (3, "all"), found.reason


def _access(grants: int) -> upshot.Database:
    db = upshot.connect()
    db.define(ACCESS)
    with db.transaction() as tx:
        tx.insert("granted", [(i % (grants // 10), i // (grants // 10)) for i in range(grants)])
        tx.insert("member", [(i, i % (grants // 10)) for i in range(grants // 5)])
    return db


def _broken(violations: int) -> upshot.Database:
    db = upshot.connect()
    db.define(".decl a(x: number, y: number) .decl b(x: number)")
    with db.transaction() as tx:
        tx.insert("a", [(i, i + 1) for i in range(3 * violations)])
        tx.insert("b", [(i,) for i in range(0, 3 * violations, 3)])
    db.define(".deny d(X, Y) :- a(X, Y), b(X).\n.deny d existing=keep")
    return db
