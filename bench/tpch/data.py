"""Rows of TPC-H and its refresh streams, drawn in the proportions of the specification with text of our own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
_MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "AIR REG")
_INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
_TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
_CONTAINERS = (("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))
_COLORS = ("almond", "azure", "blue", "forest", "green", "ivory", "lime", "navy", "orchid", "plum", "rose", "tan")
_WORDS = ("packages", "accounts", "deposits", "ideas", "quickly", "furiously", "bold", "final", "regular", "silent")
_START, _TODAY = dt.date(1992, 1, 1), dt.date(1995, 6, 17)
_LAST_ORDER = (dt.date(1998, 8, 2) - _START).days
_DAYS = [_START + dt.timedelta(days=day) for day in range(2600)]


@dataclass(slots=True)
class Generator:
    """Draws rows at a scale: 1 is 1.5 million orders. The same scale and seed give the same rows."""

    scale: float
    seed: int = 19

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._parts = max(40, round(200_000 * self.scale))
        self._suppliers = max(20, round(10_000 * self.scale))
        self._customers = max(30, round(150_000 * self.scale))
        self._orders = max(60, round(1_500_000 * self.scale))

    _rng: np.random.Generator = None  # type: ignore[assignment]
    _parts: int = 0
    _suppliers: int = 0
    _customers: int = 0
    _orders: int = 0
    _next: int = 1

    def tables(self) -> Rows:
        """All rows at the start."""
        found: Rows = {
            "region": [(key, name, "") for key, name in enumerate(_REGIONS)],
            "nation": [(key, name, region, "") for key, (name, region) in enumerate(_NATIONS)],
            "part": [self._part(key) for key in range(1, self._parts + 1)],
            "supplier": [self._supplier(key) for key in range(1, self._suppliers + 1)],
            "partsupp": [row for key in range(1, self._parts + 1) for row in self._supplies(key)],
            "customer": [self._customer(key) for key in range(1, self._customers + 1)],
        }
        found["orders"], found["lineitem"] = self.orders(self._orders)
        return found

    def refreshes(self, tables: Rows, orders: int, steps: int) -> Iterator[tuple[Rows, Rows]]:
        """Pairs of rows to insert and rows to delete: RF1 and RF2 in turn, of so many orders each. The tables are kept
        up to date."""
        for step in range(steps):
            if step % 2 == 0:
                new_orders, new_items = self.orders(orders)
                tables["orders"] += new_orders
                tables["lineitem"] += new_items
                yield {"orders": new_orders, "lineitem": new_items}, {}
                continue
            chosen = {int(place) for place in self._rng.choice(len(tables["orders"]), orders, replace=False)}
            gone = [tables["orders"][place] for place in sorted(chosen)]
            keys = {row[0] for row in gone}
            items = [row for row in tables["lineitem"] if row[0] in keys]
            tables["orders"] = [row for row in tables["orders"] if row[0] not in keys]
            tables["lineitem"] = [row for row in tables["lineitem"] if row[0] not in keys]
            yield {}, {"orders": gone, "lineitem": items}

    def orders(self, count: int) -> tuple[list[Row], list[Row]]:
        """New orders and their lines; one customer in three never orders."""
        orders: list[Row] = []
        lines: list[Row] = []
        for _ in range(count):
            order, items = self._order(self._next)
            self._next += 1
            orders.append(order)
            lines += items
        return orders, lines

    # ---- rows ---------------------------------------------------------------------------------------

    def _order(self, key: int) -> tuple[Row, list[Row]]:
        customer = self._below(self._customers) + 1
        customer = customer - 1 if customer % 3 == 0 else customer
        day = self._below(_LAST_ORDER)
        # Orders as large as query 18 looks for are one in 26,000 in the specification, none at small scales.
        large = self._below(500) == 0
        lines = 7 if large else self._below(7) + 1
        items = [self._line(key, number, day, 44 if large else 1) for number in range(1, lines + 1)]
        total = sum((line[5] * (1 - line[6]) * (1 + line[7]) for line in items), Decimal(0)).quantize(Decimal("0.01"))
        statuses = {line[9] for line in items}
        status = statuses.pop() if len(statuses) == 1 else "P"
        words = [self._of(_WORDS), self._of(_WORDS)]
        if self._below(40) == 0:
            words = ["special", self._of(_WORDS), "requests"]
        order = (
            key, customer, status, total, _DAYS[day], self._of(_PRIORITIES), f"Clerk#{self._below(1000):09}", 0,
            " ".join(words),
        )  # fmt: skip
        return order, items

    def _line(self, order: int, number: int, day: int, least: int) -> Row:
        part = self._below(self._parts) + 1
        supplier = self._supplier_of(part, self._below(4))
        quantity = self._below(51 - least) + least
        shipped = day + self._below(121) + 1
        promised = day + self._below(61) + 30
        received = shipped + self._below(30) + 1
        flag = ("R", "A")[self._below(2)] if _DAYS[received] <= _TODAY else "N"
        return (
            order, part, supplier, number, Decimal(quantity), quantity * _price(part), _hundredths(self._below(11)),
            _hundredths(self._below(9)), flag, "O" if _DAYS[shipped] > _TODAY else "F", _DAYS[shipped], _DAYS[promised],
            _DAYS[received], self._of(_INSTRUCTIONS), self._of(_MODES), self._of(_WORDS),
        )  # fmt: skip

    def _part(self, key: int) -> Row:
        maker = self._below(5) + 1
        return (
            key, " ".join(self._of(_COLORS) for _ in range(4)), f"Manufacturer#{maker}",
            f"Brand#{maker}{self._below(5) + 1}", " ".join(map(self._of, _TYPES)), self._below(50) + 1,
            " ".join(map(self._of, _CONTAINERS)), _price(key), self._of(_WORDS),
        )  # fmt: skip

    def _supplier(self, key: int) -> Row:
        nation = key % len(_NATIONS)
        words = "Customer slow Complaints" if self._below(50) == 0 else self._of(_WORDS)
        return (
            key, f"Supplier#{key:09}", self._address(), nation, self._phone(nation), self._balance(), words,
        )  # fmt: skip

    def _supplies(self, part: int) -> list[Row]:
        return [
            (part, self._supplier_of(part, place), self._below(9999) + 1, _hundredths(self._below(99_901) + 100), "")
            for place in range(4)
        ]

    def _customer(self, key: int) -> Row:
        nation = self._below(len(_NATIONS))
        return (
            key, f"Customer#{key:09}", self._address(), nation, self._phone(nation), self._balance(),
            self._of(_SEGMENTS), self._of(_WORDS),
        )  # fmt: skip

    def _supplier_of(self, part: int, place: int) -> int:
        """One of the four suppliers of a part."""
        return (part + place * (self._suppliers // 4) + (part - 1) // self._suppliers) % self._suppliers + 1

    # ---- values -------------------------------------------------------------------------------------

    def _below(self, bound: int) -> int:
        return int(self._rng.integers(bound))

    def _of(self, choices: tuple[str, ...]) -> str:
        return choices[self._below(len(choices))]

    def _address(self) -> str:
        return f"{self._below(1000)} {self._of(_WORDS)} {self._of(_COLORS)}"

    def _phone(self, nation: int) -> str:
        return f"{nation + 10}-{self._below(900) + 100}-{self._below(900) + 100}-{self._below(9000) + 1000}"

    def _balance(self) -> Decimal:
        return _hundredths(self._below(1_099_998) - 99_999)


def _hundredths(number: int) -> Decimal:
    return Decimal(number).scaleb(-2)


def _price(part: int) -> Decimal:
    return _hundredths(90_000 + (part // 10) % 20_001 + 100 * (part % 1000))
