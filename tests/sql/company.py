"""A small company with NULL in every column that can hold it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

TABLES = """
CREATE TABLE dept (id BIGINT PRIMARY KEY, title TEXT NOT NULL);
CREATE TABLE emp (
  id BIGINT PRIMARY KEY, name TEXT NOT NULL, dept BIGINT, salary BIGINT, boss BIGINT, since DATE, bonus DECIMAL(8, 2)
)
"""

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "dept": [(1, "tools"), (2, "sales"), (3, "food")],
    "emp": [
        (1, "ann", 1, 200, None, date(2019, 3, 1), Decimal("2.50")),
        (2, "bob", 1, 150, 1, date(2020, 6, 1), None),
        (3, "cy", None, None, 1, None, Decimal("1.50")),
        (4, "di", None, 90, 2, date(2022, 5, 1), Decimal("0.10")),
        (5, "ed", 2, 100, None, None, None),
        (6, "flo", 9, 100, 2, date(2020, 6, 1), Decimal("1.50")),
    ],
}
