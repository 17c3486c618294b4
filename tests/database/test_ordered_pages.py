"""Pages of rows in any order: `Rows.page` against sorting all rows in Python."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import upshot
from upshot.core.row_order import RowOrder, row_order
from upshot.core.rows import Rows
from upshot.engine.local.storage.codec import Codec

VALUES: dict[str, Sequence[Any]] = {
    "number": [-(2**62), -1, 0, 1, 7, 2**62],
    "unsigned": [0, 1, 2**63, 2**64 - 2],
    "float": [float("-inf"), -0.5, 0.0, 1.5, float("inf"), float("nan")],
    "symbol": ["", "a", "ab", "b", "Z", "é", "𝄞", "\uffff"],
    "boolean": [False, True],
    "date": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 11, 17)],
    "timestamp": [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 11, 17, tzinfo=dt.UTC)],
    "decimal(8,2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("12.25")],
    "decimal(38,20)": [Decimal("-1.5"), Decimal("-0.33333333333333333333"), Decimal(0), Decimal("999999999999999999")],
}


def some_rows(chance: random.Random) -> Rows:
    types = [chance.choice(list(VALUES)) + chance.choice(["", "?"]) for _ in range(chance.randint(1, 4))]
    columns = ", ".join(f"c{place}: {type}" for place, type in enumerate(types))
    rows = [
        tuple(chance.choice([*VALUES[t.rstrip("?")], *([None] * t.endswith("?"))]) for t in types)
        for _ in range(chance.randint(0, 40))
    ]
    db = upshot.connect()
    db.define(f".decl r({columns})")
    with db.transaction() as tx:
        tx.insert("r", rows)
    return db.rows("r")


def paged(rows: Rows, order: RowOrder, limit: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    while part := rows.page(limit, order, found[-1] if found else None):
        assert len(part) <= limit
        found += part
    return found


@pytest.mark.parametrize("case", range(60))
def test_pages_one_after_another_are_all_rows_in_order(case: int) -> None:
    chance = random.Random(f"pages {case}")
    rows = some_rows(chance)
    names = chance.sample(rows.columns, chance.randint(0, len(rows.columns)))
    text = ",".join(chance.choice(["", "-"]) + name for name in names) or None
    order = row_order(rows.schema, text)
    # Paged first: rows that were read as a whole are paged in Python, not by their codes.
    found = paged(rows, order, chance.randint(1, 7))
    expected = order.sorted(list(rows))
    assert repr(found) == repr(expected)
    if text is None:
        assert repr(expected) == repr(rows.sorted())


def test_a_page_starts_after_a_row_that_is_not_there_any_more() -> None:
    db = upshot.connect()
    db.define(".decl r(x: number, t: symbol?)")
    with db.transaction() as tx:
        tx.insert("r", [(1, "a"), (1, "c"), (2, None)])
    assert db.rows("r").page(5, None, (1, "b")) == [(1, "c"), (2, None)]
    assert db.rows("r").page(5, "-t", (9, "b")) == [(1, "a"), (2, None)]
    assert db.rows("r").page(5, "t", (2, None)) == [(1, "a"), (1, "c")]


@pytest.mark.parametrize("text", ["q", "-q"])
def test_a_page_starts_after_a_decimal_of_more_than_18_places(text: str) -> None:
    db = upshot.connect()
    db.define(".decl r(q: decimal(38,20)?, x: number)")
    with db.transaction() as tx:
        tx.insert("r", [(None, 0), *((Decimal(n) / 7, abs(n)) for n in range(-7, 8, 7)), (Decimal("0.5"), 3)])
    rows = db.rows("r")
    order = row_order(rows.schema, text)
    found = paged(rows, order, 2)
    assert rows.page(9, "q", (Decimal("0.4"), 0)) == [(Decimal("0.5"), 3), (Decimal(1), 7)]
    with pytest.raises(upshot.UsageError, match="starts after an invalid row"):
        rows.page(9, "q", ("x", 0))
    assert found == order.sorted(list(rows))


def test_of_a_large_relation_only_the_page_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    db = upshot.connect()
    db.define(".decl r(x: number, t: symbol)")
    with db.transaction() as tx:
        tx.insert("r", [(i * 7919 % 100_003, f"t{i % 50}") for i in range(100_000)])
    decoded = 0
    decode = Codec.decode

    def counting(self: Codec, codes: NDArray[np.int64], type: Any) -> list[Any]:
        nonlocal decoded
        decoded += len(codes)
        return decode(self, codes, type)

    monkeypatch.setattr(Codec, "decode", counting)
    rows = db.rows("r")
    first = rows.page(5, "-x")
    assert [row[0] for row in first] == sorted((row[0] for row in first), reverse=True)
    assert first[0][0] == 100_002
    assert [row[1] for row in rows.page(5, "t,x")] == ["t0"] * 5
    assert rows.page(5, "-x", first[-1])[0][0] < first[-1][0]
    assert decoded == 3 * 5 * 2


def test_an_order_by_no_column_or_by_one_twice_is_refused_by_name() -> None:
    db = upshot.connect()
    db.define(".decl edge(source: number, target: number)")
    with pytest.raises(upshot.UsageError, match="unknown column `sorce`") as caught:
        db.rows("edge").page(5, "-sorce")
    assert (caught.value.code, caught.value.help) == ("unknown-column", "did you mean `source`?")
    with pytest.raises(upshot.UsageError, match="twice"):
        db.rows("edge").page(5, "source,-source")
