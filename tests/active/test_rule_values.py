"""Values of every type in instances, in what functions are given, and in what rules are activated for."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import upshot

PROGRAM = """
.decl due(name: symbol?, day: date, price: decimal(8,2), at: timestamp, weight: float, fresh: boolean)
.decl noted(name: symbol?, day: date, price: decimal(8,2), at: timestamp, weight: float, fresh: boolean)
.rule note(N, D, P, T, W, F) when due(N, D, P, T, W, F) do insert noted(N, D, P, T, W, F), call tell(N, D, P, T, W, F).
"""
DAY = datetime.date(2026, 3, 1)
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
ROW = ("a", DAY, Decimal("1.50"), NOON, 1.5, True)
NAMES = ("N", "D", "P", "T", "W", "F")
OTHERS = ("b", datetime.date(2026, 3, 2), Decimal("2.00"), NOON.replace(hour=13), 2.5, False)


def database(folder: Path | None = None) -> tuple[Any, list[Any]]:
    seen: list[Any] = []
    db = upshot.connect(folder)
    db.action("tell", seen.extend)
    return db, seen


def due(db: Any, *rows: Any) -> Any:
    with db.transaction() as tx:
        tx.insert("due", rows)
    return tx


def fired(tx: Any) -> list[Any]:
    return [row for firing in tx.firings for row in firing.rows]


def test_every_type_comes_through_unchanged() -> None:
    db, seen = database()
    db.define(PROGRAM)
    rows = [ROW, (None, DAY, Decimal("-0.01"), NOON, math.inf, False), ("tab\t\"quote'\n", *OTHERS[1:])]
    tx = due(db, *rows)
    assert set(fired(tx)) == set(seen) == set(db.rows("noted")) == set(rows)
    assert [list(map(type, row)) for row in seen if row[0] == "a"] == [list(map(type, ROW))]


def test_null_and_nan_are_instances_like_others() -> None:
    db, seen = database()
    db.define(PROGRAM)
    row = (None, DAY, Decimal("1.00"), NOON, math.nan, True)
    assert len(fired(due(db, row))) == 1
    assert fired(due(db, row)) == [], "it is there already"
    assert seen[0][0] is None
    assert math.isnan(seen[0][4])


@pytest.mark.parametrize(
    ("parameter", "value"),
    [*zip(NAMES, ROW, strict=True), ("N", None), ("W", math.nan), ("W", -math.inf), ("P", 7), ("N", 'x"y\n')],
)
def test_a_rule_is_activated_for_a_value_of_any_type_and_a_store_keeps_it(
    tmp_path: Path, parameter: str, value: Any
) -> None:
    db, _ = database(tmp_path / "db")
    with db:
        db.define(PROGRAM)
        db.activate("note", **{parameter: value})
    db, _ = database(tmp_path / "db")
    with db:
        place = NAMES.index(parameter)
        row = (*ROW[:place], value, *ROW[place + 1 :])
        (found,) = fired(due(db, row, OTHERS))
        assert found[place] is value or found[place] == value or math.isnan(value)
        db.deactivate("note", **{parameter: value})
        with db.transaction() as tx:
            tx.replace("due", [])
        assert fired(due(db, row, OTHERS)) == []


def test_an_instant_is_the_same_in_every_time_zone() -> None:
    db, _ = database()
    db.define(PROGRAM)
    db.activate("note", T=NOON.astimezone(datetime.timezone(datetime.timedelta(hours=5))))
    assert fired(due(db, ROW, OTHERS)) == [ROW]


@pytest.mark.parametrize(
    ("bindings", "code"),
    [
        ({"D": "2026-03-01"}, "type-mismatch"),
        ({"D": NOON}, "type-mismatch"),
        ({"F": 1}, "type-mismatch"),
        ({"D": None}, "nullable-value"),
        ({"T": datetime.datetime(2026, 3, 1)}, "bad-parameter"),
        ({"N": object()}, "bad-parameter"),
        ({"X": 1}, "unknown-rule-parameter"),
        ({"P": Decimal("1.505")}, "constant-out-of-range"),
    ],
)
def test_a_value_that_fits_no_instance_is_refused(bindings: dict[str, Any], code: str) -> None:
    db, _ = database()
    db.define(PROGRAM)
    with pytest.raises(upshot.ProgramError) as caught:
        db.activate("note", **bindings)
    assert caught.value.code == code
    assert db.version == 1


def test_conditions_join_and_compare_such_values() -> None:
    with upshot.connect() as db:
        db.define("""
            .decl bill(id: number, sum: decimal(8,2), due: date, payer: symbol?)
            .decl today(day: date) key(day)
            .decl paid(id: number)
            .decl reminder(id: number, sum: decimal(8,2))
            .rule remind(I) when bill(I, S, D, P), today(T), D < T, !paid(I), S > decimal("10.00"), !is_null(P)
                do insert reminder(I, S * 1).
        """)
        with db.transaction() as tx:
            tx.insert("bill", [(1, Decimal("20.00"), DAY, "ann"), (2, Decimal("5.00"), DAY, "ann")])
            tx.insert("bill", [(3, Decimal("20.00"), DAY, None), (4, Decimal("30.00"), DAY, "bob")])
            tx.insert("today", [(DAY,)])
        assert tx.firings == ()
        with db.transaction() as tx:
            tx.replace("today", [(datetime.date(2026, 3, 2),)])
            tx.insert("paid", [(4,)])
        assert db.rows("reminder") == [(1, Decimal("20.00"))]
        with db.transaction() as tx:
            tx.delete("paid", [(4,)])
        assert tx.changes["reminder"].inserted == [(4, Decimal("30.00"))]
