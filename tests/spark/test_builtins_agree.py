"""A built-in has the same value on Spark as everywhere else: all of them in one program."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.properties.engines import Make
from tests.values.edges import EDGES, comparable, packed, uses
from upshot.values.aggregates import AGGREGATES
from upshot.values.records import RunningState

pytestmark = pytest.mark.slow


def test_every_function_and_aggregate_has_the_values_of_the_oracle_on_spark(on_spark: Make) -> None:
    case = packed()
    with on_spark() as db:
        db.define(case.text)
        with db.transaction() as tx:
            for name, rows in case.rows.items():
                tx.insert(name, rows)
        for view, expected in case.expected.items():
            found = {(*row[:-1], comparable(row[-1])) for row in db.rows(view)}
            assert (found - expected, expected - found) == (set(), set()), view


def test_null_among_the_arguments_makes_the_value_null_on_spark(on_spark: Make) -> None:
    # One use of each function: NULL is looked at before the function is.
    some = list({use.name: use for use in uses()}.values())
    with on_spark() as db:
        db.define("".join(use.program(nullable=True) for use in some))
        with db.transaction() as tx:
            for use in some:
                row = [EDGES[type][1] for type in use.types]
                rows = [[None if at == place else each for at, each in enumerate(row)] for place in range(len(row))]
                tx.insert(f"r{use.number}", [(n, *each) for n, each in enumerate(rows)])
        for use in some:
            assert set(db.rows(f"h{use.number}")) == {(n, None) for n in range(len(use.types))}, use.term


def test_an_aggregate_that_only_python_computes_runs_on_spark(on_spark: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("min", "max"):
        monkeypatch.setitem(AGGREGATES, name, replace(AGGREGATES[name], running=RunningState.GROUP))
    text = """
    .decl a(g: symbol, x: number?, y: decimal(8,2))
    .decl high(g: symbol, x: number)
    .decl low(y: decimal(8,2))
    high(G, M) :- a(G, _, _), M = max X : { a(G, X, _) }.
    low(M) :- M = min Y : { a(_, _, Y) }.
    """
    with on_spark() as db:
        db.define(text)
        with db.transaction() as tx:
            tx.insert("a", [("p", 1, Decimal("2.50")), ("p", None, Decimal("1.00")), ("p", 7, Decimal("9.99"))])
            tx.insert("a", [("q", None, Decimal("3.00"))])
        assert set(db.rows("high")) == {("p", 7)}
        assert set(db.rows("low")) == {(Decimal("1.00"),)}
        with db.transaction() as tx:
            tx.delete("a", [("p", 7, Decimal("9.99")), ("p", None, Decimal("1.00"))])
        assert set(tx.changes["high"].inserted) == {("p", 1)}
        assert set(tx.changes["low"].inserted) == {(Decimal("2.50"),)}
