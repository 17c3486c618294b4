"""Unstored closures that compose with themselves are followed in their linear form."""

from __future__ import annotations

import random

import upshot

PROGRAM = """
.decl edge(a: number, b: number)
.decl reach(a: number, b: number)
.decl from_one(b: number)
reach(X, Y) :- edge(X, Y).
reach(X, Y) :- reach(X, Z), reach(Z, Y).
from_one(Y) :- reach(1, Y).
"""


def test_a_composition_is_followed_by_fewer_look_ups_and_reports_the_same_changes() -> None:
    probed = {}
    for strategy in ("rod", "epf"):
        told = f".view reach strategy={strategy} events=none\n.view from_one strategy={strategy} policy=incremental\n"
        plain, whole = upshot.connect(optimize=False), upshot.connect()
        linear = upshot.connect()
        for db, text in ((linear, PROGRAM + told), (plain, PROGRAM + told), (whole, PROGRAM)):
            db.define(text)
        rng = random.Random(3)
        counts = [0, 0]
        for _ in range(40):
            row = (rng.randrange(9), rng.randrange(9))
            found = []
            for db in (linear, plain, whole):
                with db.transaction() as tx:
                    (tx.delete if row in set(db.rows("edge")) else tx.insert)("edge", [row])
                change = tx.changes["from_one"]
                found.append((change.inserted.sorted(), change.deleted.sorted()))
                if db is not whole:
                    counts[db is plain] += tx.stats.probed
            assert found[0] == found[1] == found[2]
        probed[strategy] = counts
    assert all(linear < plain / 2 for linear, plain in probed.values())
