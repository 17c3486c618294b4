"""A new built-in is one record: everything that knows of built-ins reads it there."""

from __future__ import annotations

import statistics

import pytest

import upshot
from upshot.core.types import Kind
from upshot.values import aggregates, functions, reference
from upshot.values.records import BuiltinAggregate, BuiltinFunction, FunctionMeaning, RunningState
from upshot.values.signatures import NUMERIC, fixed, only

MIRRORED = BuiltinFunction(
    "mirrored",
    fixed(only(Kind.SYMBOL), only(Kind.SYMBOL)),
    {Kind.SYMBOL: FunctionMeaning(lambda text: text[::-1], lambda call: call.F.reverse(call.columns[0]))},
    "mirrored(text)",
    "characters in the opposite order",
    sql=("Initcap",),
)
MIDDLE = BuiltinAggregate(
    "middle",
    fixed(only(Kind.FLOAT), NUMERIC),
    lambda values, _: float(statistics.median(values)),
    RunningState.GROUP,
    "middle a : { … }",
    "value in the middle",
    sql=(("Mode", "middle"),),
)


def test_a_function_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(functions.FUNCTIONS, "mirrored", MIRRORED)
    with upshot.connect() as db:
        db.define('.decl a(x: symbol)\n.decl v(y: symbol)\nv(mirrored(X)) :- a(X).\na("ab"). a(mirrored("cd")).')
        assert set(db.rows("v")) == {("ba",), ("cd",)}
    assert "`mirrored(text)`" in reference.functions()


def test_an_aggregate_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aggregates.AGGREGATES, "middle", MIDDLE)
    with upshot.connect() as db:
        db.define(
            ".decl a(g: symbol, x: number?)\n.decl m(g: symbol, y: float)\n"
            "m(G, M) :- a(G, _), M = middle X : { a(G, X) }."
        )
        with db.transaction() as tx:
            tx.insert("a", [("p", 1), ("p", 5), ("p", 9), ("q", 2), ("q", 3), ("r", None)])
        assert set(db.rows("m")) == {("p", 5.0), ("q", 2.5)}
        with db.transaction() as tx:
            tx.insert("a", [("p", 6), ("r", 4)])
            tx.delete("a", [("q", 3)])
        assert set(tx.changes["m"].inserted) == {("p", 5.5), ("q", 2.0), ("r", 4.0)}
        assert set(tx.changes["m"].deleted) == {("p", 5.0), ("q", 2.5)}
        assert set(db.what_if(insert={"a": [("p", 7)]})["m"].inserted) == {("p", 6.0)}
        assert set(db.rows("m")) == {("p", 5.5), ("q", 2.0), ("r", 4.0)}
    assert "`middle a : { … }`" in reference.aggregates()
