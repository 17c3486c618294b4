"""Stock and thresholds: net changes of upserts, a condition that is crossed, a join changed on both sides
[Sköld & Risch 1996]."""

from __future__ import annotations

import pytest

from tests.goldens.follower import NOTHING, Base, Follower
from tests.properties.strategies import STRATEGIES

STOCK = """
.decl quantity(item: symbol, n: number) key(item)
.decl max_stock(item: symbol, n: number) key(item)
.decl min_stock(item: symbol, n: number) key(item)
.decl consume_freq(item: symbol, n: number) key(item)
.decl delivery_time(item: symbol, supplier: symbol, days: number)
.decl supplies(supplier: symbol, item: symbol)
.decl threshold(item: symbol, n: number)
.decl low(item: symbol)
.decl order(item: symbol, n: number)
threshold(I, T) :- consume_freq(I, F), delivery_time(I, S, D), supplies(S, I), min_stock(I, M), T = F * D + M.
low(I) :- quantity(I, Q), threshold(I, T), Q < T.
order(I, N) :- low(I), max_stock(I, M), quantity(I, Q), N = M - Q.
"""
ITEMS: Base = {
    "quantity": [("item1", 1000), ("item2", 1000)],
    "max_stock": [("item1", 5000), ("item2", 7500)],
    "min_stock": [("item1", 100), ("item2", 200)],
    "consume_freq": [("item1", 20), ("item2", 30)],
    "delivery_time": [("item1", "sup1", 2), ("item2", "sup2", 3)],
    "supplies": [("sup1", "item1"), ("sup2", "item2")],
}

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@every_strategy
def test_the_thresholds_are_140_and_290(strategy: str) -> None:
    it = Follower(STOCK, strategy, ITEMS)
    assert it.rows("threshold") == {("item1", 140), ("item2", 290)}
    assert it.rows("low") == it.rows("order") == set()


@every_strategy
def test_an_item_is_low_from_the_moment_it_crosses_below_and_only_once(strategy: str) -> None:
    it = Follower(STOCK, strategy, ITEMS)
    assert it.change(upsert={"quantity": [("item1", 140)]})["low"] == NOTHING
    crossing = it.change(upsert={"quantity": [("item1", 139)]})
    assert crossing["low"] == ({("item1",)}, set())
    assert crossing["order"] == ({("item1", 5000 - 139)}, set())
    again = it.change(upsert={"quantity": [("item1", 60)]})
    assert again["low"] == NOTHING
    assert again["order"] == ({("item1", 4940)}, {("item1", 4861)})
    assert it.change(upsert={"quantity": [("item1", 140)]})["low"] == (set(), {("item1",)})
    assert it.change(upsert={"quantity": [("item2", 289), ("item1", 139)]})["low"][0] == {("item1",), ("item2",)}


@every_strategy
def test_the_threshold_may_cross_the_quantity_as_well(strategy: str) -> None:
    it = Follower(STOCK, strategy, ITEMS)
    raised = it.change(upsert={"min_stock": [("item1", 961)]})
    assert raised["threshold"] == ({("item1", 1001)}, {("item1", 140)})
    assert raised["low"] == ({("item1",)}, set())
    assert it.change(upsert={"consume_freq": [("item1", 1)]})["low"] == (set(), {("item1",)})
    assert it.change(delete={"supplies": [("sup1", "item1")]})["threshold"] == (set(), {("item1", 963)})


@every_strategy
def test_a_crossing_undone_in_the_same_transaction_did_not_happen(strategy: str) -> None:
    it = Follower(STOCK, strategy, ITEMS)
    with it.db.transaction() as tx:
        tx.upsert("quantity", [("item1", 60)])
        tx.upsert("quantity", [("item1", 1000)])
    assert len(tx.changes) == 0
    assert tx.stats.derived == tx.stats.components == 0
    with it.db.transaction() as tx:
        tx.upsert("quantity", [("item1", 60)])
        tx.upsert("quantity", [("item1", 999)])
    assert set(tx.changes) == {"quantity"}


def folded(*statements: tuple[str, int]) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """The net change of min_stock after these physical events, from 100 on."""
    it = Follower(STOCK, "counting", ITEMS)
    with it.db.transaction() as tx:
        for kind, n in statements:
            (tx.insert if kind == "+" else tx.delete)("min_stock", [("item1", n)])
    changes = tx.changes["min_stock"]
    return set(changes.inserted), set(changes.deleted)


def test_events_fold_in_order_and_counter_acting_ones_cancel() -> None:
    """Set to 150, then to 100 again: four events."""
    old, new = ("item1", 100), ("item1", 150)
    assert folded(("-", 100)) == (set(), {old})
    assert folded(("-", 100), ("+", 150)) == ({new}, {old})
    assert folded(("-", 100), ("+", 150), ("-", 150)) == (set(), {old})
    assert folded(("-", 100), ("+", 150), ("-", 150), ("+", 100)) == NOTHING


def test_the_order_of_events_matters() -> None:
    old = ("item1", 100)
    assert folded(("+", 100), ("-", 100)) == (set(), {old})
    assert folded(("-", 100), ("+", 100)) == NOTHING
    assert folded(("-", 150), ("+", 150), ("-", 150)) == NOTHING


@every_strategy
def test_a_join_that_changes_on_both_sides(strategy: str) -> None:
    text = """
    .decl q(x: number, y: number) .decl r(y: number, z: number) .decl p(x: number, z: number)
    p(X, Z) :- q(X, Y), r(Y, Z).
    """
    it = Follower(text, strategy, {"q": [(1, 1)], "r": [(1, 2), (2, 3)]})
    assert it.rows("p") == {(1, 2)}
    assert it.change(insert={"q": [(1, 2)], "r": [(1, 4)]})["p"] == ({(1, 3), (1, 4)}, set())
    assert it.change(delete={"q": [(1, 1)], "r": [(2, 3)]})["p"] == (set(), {(1, 2), (1, 3), (1, 4)})


@every_strategy
def test_a_new_tuple_met_by_a_new_tuple_is_counted_once(strategy: str) -> None:
    text = """
    .decl q(x: number, y: number) .decl r(y: number, z: number) .decl p(x: number, z: number)
    p(X, Z) :- q(X, Y), r(Y, Z).
    """
    it = Follower(text, strategy)
    assert it.change(insert={"q": [(1, 1)], "r": [(1, 1)]})["p"] == ({(1, 1)}, set())
    assert it.change(delete={"q": [(1, 1)]})["p"] == (set(), {(1, 1)})
    it.change(insert={"q": [(1, 1), (1, 2)], "r": [(2, 1)]})
    assert it.change(delete={"q": [(1, 1)], "r": [(1, 1)]})["p"] == NOTHING
    assert it.change(delete={"q": [(1, 2)], "r": [(2, 1)]})["p"] == (set(), {(1, 1)})
