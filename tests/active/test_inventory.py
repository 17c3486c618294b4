"""The inventory of the paper on partial differencing: an item is ordered when its stock falls below what is needed
until a delivery arrives; once, and only if it is still so at the end of the transaction. [Sköld & Risch]"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import upshot

PROGRAM = """
.decl quantity(item: symbol, n: number) key(item)
.decl max_stock(item: symbol, n: number) key(item)
.decl min_stock(item: symbol, n: number) key(item)
.decl consume_freq(item: symbol, n: number) key(item)
.decl supplies(supplier: symbol, item: symbol)
.decl delivery_time(item: symbol, supplier: symbol, days: number)
.decl order(item: symbol, n: number)
.decl threshold(item: symbol, n: number)
threshold(I, T) :- consume_freq(I, F), delivery_time(I, S, D), supplies(S, I), min_stock(I, M), T = F * D + M.
.decl low(item: symbol)
low(I) :- quantity(I, Q), threshold(I, T), Q < T.
"""
REORDER = """
.rule reorder(I, N) priority=10 semantics={semantics} coupling=deferred
   when low(I), max_stock(I, M), quantity(I, Q), N = M - Q
   do insert order(I, N).
"""


def inventory(semantics: str = "strict", **options: Any) -> Any:
    db = upshot.connect(**options)
    db.define(PROGRAM)
    with db.transaction() as tx:
        tx.insert("max_stock", [("item1", 5000), ("item2", 7500)])
        tx.insert("min_stock", [("item1", 100), ("item2", 200)])
        tx.insert("consume_freq", [("item1", 20), ("item2", 30)])
        tx.insert("supplies", [("s1", "item1"), ("s2", "item2")])
        tx.insert("delivery_time", [("item1", "s1", 2), ("item2", "s2", 3)])
        tx.insert("quantity", [("item1", 5000), ("item2", 7500)])
    db.define(REORDER.format(semantics=semantics))
    return db


@pytest.fixture
def db() -> Iterator[Any]:
    with inventory() as found:
        yield found


def stock(db: Any, item: str, *quantities: int) -> Any:
    with db.transaction() as tx:
        for quantity in quantities:
            tx.upsert("quantity", [(item, quantity)])
    return tx


def test_the_thresholds_are_those_of_the_paper(db: Any) -> None:
    assert db.rows("threshold") == {("item1", 140), ("item2", 290)}


def test_it_fires_once_when_the_stock_falls_below_the_threshold(db: Any) -> None:
    assert stock(db, "item1", 140).firings == ()
    fired = stock(db, "item1", 139)
    assert [(firing.rule, set(firing.rows)) for firing in fired.firings] == [("reorder", {("item1", 4861)})]
    assert fired.changes["order"].inserted == [("item1", 4861)]
    assert fired.stats.firings == {"reorder": 1}
    assert stock(db, "item1", 120).firings == (), "it is low already"
    assert stock(db, "item1", 200).firings == (), "it is not low any more"
    assert stock(db, "item1", 100).changes["order"].inserted == [("item1", 4900)], "it becomes low again"
    assert stock(db, "item2", 290).firings == ()
    assert stock(db, "item2", 289).changes["order"].inserted == [("item2", 7211)]


def test_what_is_undone_in_the_transaction_does_not_fire(db: Any) -> None:
    assert stock(db, "item1", 100, 5000).firings == ()
    assert stock(db, "item1", 100, 150).firings == ()
    assert db.rows("order") == []


def test_a_transaction_that_fails_orders_nothing(db: Any) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:  # noqa: PT012 - the block is what is tested
        tx.upsert("quantity", [("item1", 1)])
        raise ZeroDivisionError
    assert db.rows("order") == []
    assert db.rows("quantity") == {("item1", 5000), ("item2", 7500)}


def test_another_way_to_become_low(db: Any) -> None:
    """The threshold rises above the stock: 5000 < 20 * 300 + 100."""
    with db.transaction() as tx:
        tx.replace("delivery_time", [("item1", "s1", 300), ("item2", "s2", 3)])
    assert tx.changes["order"].inserted == [("item1", 0)]


def test_two_items_fire_as_one_set(db: Any) -> None:
    with db.transaction() as tx:
        tx.upsert("quantity", [("item1", 1), ("item2", 2)])
    (firing,) = tx.firings
    assert set(firing.rows) == {("item1", 4999), ("item2", 7498)}


def test_nervous_rules_fire_again_while_the_item_stays_low() -> None:
    with inventory("nervous") as db:
        assert len(stock(db, "item1", 139).firings) == 1
        assert stock(db, "item1", 120).changes["order"].inserted == [("item1", 4880)]
        assert stock(db, "item1", 100, 5000).firings == (), "what does not hold does not fire, nervous or not"


def test_the_rule_is_active_for_the_items_it_was_activated_for(db: Any) -> None:
    db.activate("reorder", I="item1")
    assert len(stock(db, "item1", 1).firings) == 1
    assert stock(db, "item2", 1).firings == ()
    db.activate("reorder", I="item2")
    stock(db, "item2", 7500)
    assert len(stock(db, "item2", 1).firings) == 1
    db.deactivate("reorder", I="item1")
    stock(db, "item1", 5000)
    assert stock(db, "item1", 1).firings == ()
    db.deactivate("reorder")
    stock(db, "item2", 7500)
    assert stock(db, "item2", 1).firings == ()
    db.activate("reorder")
    stock(db, "item1", 5000)
    assert len(stock(db, "item1", 1).firings) == 1


def test_the_counters_are_those_of_all_propagations(db: Any) -> None:
    """A firing that changes something lets the transaction be propagated again; what the first propagation looked at
    counts as well, in all and view by view."""
    quiet, fired = stock(db, "item1", 141).stats, stock(db, "item1", 139).stats
    assert (quiet.firings, fired.firings) == ({}, {"reorder": 1})
    assert fired.components > quiet.components >= 1
    assert fired.components >= len(fired.views)
    for counter in ("probed", "matched", "derived", "rounds"):
        assert getattr(fired, counter) == sum(getattr(view, counter) for view in fired.views.values())
