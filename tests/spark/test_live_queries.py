"""Queries with parameters, looks into open transactions and at the past, on Spark: as on the local engine."""

from __future__ import annotations

from typing import Any

import upshot
from upshot.database.watch import Event

PROGRAM = """
    .decl edge(x: symbol, y: symbol)
    .decl reach(x: symbol, y: symbol)
    reach(X, Y) :- edge(X, Y).
    reach(X, Z) :- reach(X, Y), edge(Y, Z).
    .view reach materialized=false events=none
"""


def told(events: list[Event]) -> list[tuple[bool, list[Any], list[Any]]]:
    found = [(each.snapshot, each.inserted.sorted(), each.deleted.sorted()) for each in events]
    events.clear()
    return found


def test_a_query_is_followed_on_spark(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("edge", [("a", "b"), ("b", "c"), ("z", "y")])
        first, second = list[Event](), list[Event]()
        db.watch("reach($x, Y)", first.append, x="a")
        subscription = db.watch("reach($x, Y)", second.append, x="z")
        assert told(first) == [(True, [("b",), ("c",)], [])]
        assert told(second) == [(True, [("y",)], [])]
        with db.transaction() as tx:
            tx.insert("edge", [("c", "d")])
            assert tx.query("reach($x, Y)", x="b").sorted() == [("c",), ("d",)]
            with tx.savepoint() as point:
                tx.delete("edge", [("a", "b")])
                assert not tx.query("reach($x, Y)", x="a")
                point.rollback()
        assert told(first) == [(False, [("d",)], [])]
        assert told(second) == []
        subscription.close()
        with db.transaction() as tx:
            tx.delete("edge", [("b", "c"), ("z", "y")])
        assert told(first) == [(False, [], [("c",), ("d",)])]
        assert told(second) == []
        assert db.at(db.version - 1).query("reach($x, Y)", x="a").sorted() == [("b",), ("c",), ("d",)]
        net = db.changes("reach($x, Y)", since=db.version - 1, x="a")
        assert net.deleted.sorted() == [("c",), ("d",)]


def test_a_query_that_fails_on_spark_ends_and_the_commit_goes_on(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(".decl a(x: number)  .decl v(x: number)  v(X) :- a(X).")
        events = list[Event]()
        failing = [db.watch("v(X), Y = 10 / (X - $d)", lambda _: None, d=d) for d in (5, 6)]
        db.watch("a(X), X > 3", events.append)
        with db.transaction() as tx:
            tx.insert("a", [(4,), (5,)])
        assert tx.changes["v"].inserted.sorted() == [(4,), (5,)]
        assert ["division by zero" in str(each.errors) for each in failing] == [True, False]
        assert told(events) == [(True, [], []), (False, [(4,), (5,)], [])]
        with db.transaction() as tx:
            tx.insert("a", [(7,)])
        assert told(events) == [(False, [(7,)], [])]
        db.verify()
