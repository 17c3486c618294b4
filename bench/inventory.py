"""Items with stock, consumption and delivery times; an item is low when its quantity is under its threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

PROGRAM = """
.decl quantity(item: number, n: number) key(item)
.decl max_stock(item: number, n: number) key(item)
.decl min_stock(item: number, n: number) key(item)
.decl consume_freq(item: number, n: number) key(item)
.decl supplies(supplier: number, item: number)
.decl delivery_time(item: number, supplier: number, days: number) key(item, supplier)
.decl threshold(item: number, n: number)
.decl low(item: number)

threshold(I, T) :- consume_freq(I, F), delivery_time(I, S, D), supplies(S, I), min_stock(I, M), T = F * D + M.
low(I) :- quantity(I, Q), threshold(I, T), Q < T.
"""

_CONDITION = "when low(I), max_stock(I, M), quantity(I, Q), N = M - Q"
RULES = {
    "": "",
    "insert": ".decl order(item: number, n: number)\n"
    f".rule reorder(I, N) priority=10 {_CONDITION} do insert order(I, N).",
    "call": f".rule reorder(I, N) {_CONDITION} do call order(I, N).",
}
"""What is done about an item that becomes low, by its short name; nothing at first."""

SUPPLIERS = 1000


class Inventory:
    """`items` items, one supplier each, one in a hundred low at the start."""

    def __init__(self, items: int) -> None:
        rng = np.random.default_rng(7)
        self.items = items
        self.item = np.arange(items, dtype=np.int64)
        self.supplier = rng.integers(0, SUPPLIERS, items)
        self.frequency = rng.integers(1, 51, items)
        self.days = rng.integers(1, 11, items)
        self.minimum = rng.integers(50, 301, items)
        self.threshold = self.frequency * self.days + self.minimum
        self.low = rng.random(items) < 0.01
        self.quantity = np.where(self.low, self.threshold - 1, self.threshold + rng.integers(0, 1000, items))

    def relations(self) -> dict[str, dict[str, Any]]:
        """Every base relation, as columns by name."""
        return {
            "quantity": {"item": self.item, "n": self.quantity},
            "max_stock": {"item": self.item, "n": self.threshold * 10},
            "min_stock": {"item": self.item, "n": self.minimum},
            "consume_freq": {"item": self.item, "n": self.frequency},
            "supplies": {"supplier": self.supplier, "item": self.item},
            "delivery_time": {"item": self.item, "supplier": self.supplier, "days": self.days},
        }

    def crossings(self, count: int) -> Iterator[tuple[int, int]]:
        """`count` different items that are not low, each with a quantity just under its threshold."""
        rng = np.random.default_rng(11)
        for item in rng.permutation(self.item[~self.low])[:count].tolist():
            yield item, int(self.threshold[item]) - 1

    def order(self, item: int, quantity: int) -> tuple[int, int]:
        """What the rules order when the item has become low."""
        return item, int(self.threshold[item]) * 10 - quantity

    def quantity_of(self, item: int) -> int:
        return int(self.quantity[item])
