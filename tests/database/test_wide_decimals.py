"""Decimals of more than 18 places, which quotients and averages are, stand wherever values stand."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import upshot
from upshot.check import check
from upshot.engine.naive import evaluate

PROGRAM = """
.decl price(item: symbol, p: decimal(10,2), n: decimal(10,2))
.decl part(item: symbol, q: decimal(38,20))
part(X, quotient(P, N)) :- price(X, P, N), N != 0.00.
.decl same(x: symbol, y: symbol)
same(X, Y) :- part(X, Q), part(Y, Q), X < Y.
.decl more(x: symbol, y: symbol)
more(X, Y) :- part(X, A), part(Y, B), A > B.
.decl total(s: decimal(38,20), a: decimal(38,20), lo: decimal(38,20), m: float)
total(S, A, L, M) :- S = sum Q : { part(_, Q) }, A = average Q : { part(_, Q) }, L = min Q : { part(_, Q) },
  M = mean Q : { part(_, Q) }.
.decl third(x: symbol)
third(X) :- part(X, decimal("0.33333333333333333333")).
.decl product(x: symbol, y: decimal(38,22))
product(X, Q * P) :- part(X, Q), price(X, P, _).
"""
ROWS = [
    ("a", Decimal("1.00"), Decimal("3.00")),
    ("b", Decimal("-7.00"), Decimal("21.00")),
    ("c", Decimal("2.00"), Decimal("6.00")),
    ("d", Decimal("9999.99"), Decimal("0.01")),
    ("e", Decimal("0.00"), Decimal("5.00")),
]
VIEWS = ("part", "same", "more", "total", "third", "product")
THIRD = Decimal("0.33333333333333333333")


def test_every_change_gives_the_rows_of_the_oracle() -> None:
    with upshot.connect() as db:
        db.define(PROGRAM)
        for rows, deleted in ((ROWS[:2], []), (ROWS[2:], ROWS[:1]), ([], ROWS[3:])):
            with db.transaction() as tx:
                tx.delete("price", deleted)
                tx.insert("price", rows)
            expected = evaluate(check(db.program), {"price": set(db.rows("price"))})
            for view in VIEWS:
                assert set(db.rows(view)) == expected[view], view
        assert db.verify().views


def test_they_survive_the_log_a_snapshot_and_the_dictionary(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "s") as db:
        db.define(
            PROGRAM
            + ".decl given(q: decimal(38,20)?, s: symbol)\n.decl held(q: decimal(38,20)?) held(Q) :- given(Q, _)."
        )
        with db.transaction() as tx:
            tx.insert("price", ROWS)
            tx.insert("given", [(THIRD, "x"), (None, "y"), (Decimal("-999999999999999999.5"), "z"), (7, "w")])
        rows = {view: set(db.rows(view)) for view in (*VIEWS, "held")}
    for snapshot in (False, True):
        with upshot.connect(tmp_path / "s") as db:
            assert {view: set(db.rows(view)) for view in rows} == rows
            if snapshot:
                db.snapshot()
            with db.transaction() as tx:
                tx.delete("given", [(THIRD, "x")])
            assert tx.changes["held"].deleted == [(THIRD,)]
            with db.transaction() as tx:
                tx.insert("given", [(THIRD, "x")])


def test_they_are_decimals_in_arrow_json_and_text(tmp_path: Path) -> None:
    with upshot.connect() as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("price", ROWS[:1])
        table = db.rows("part").to_arrow()
        assert table.column("q").type == pa.decimal128(38, 20)
        assert table.column("q").to_pylist() == [THIRD]
        db.define(".decl copy(item: symbol, q: decimal(38,20))")
        with db.transaction() as tx:
            tx.insert("copy", table)
        assert set(db.rows("copy")) == {("a", THIRD)}
        assert set(db.query('copy(X, decimal("0.33333333333333333333"))')) == {("a",)}
        (row,) = db.sql("SELECT q::text AS t, q FROM copy")
        assert row == ("0.33333333333333333333", THIRD)


def test_a_value_with_too_many_digits_rolls_the_transaction_back() -> None:
    with upshot.connect() as db:
        db.define(
            PROGRAM + '.decl huge(x: symbol) huge(X) :- part(X, Q), Q * Q > decimal("1.0000000000000000000000000").'
        )
        with pytest.raises(upshot.ProgramError):
            db.define(".decl bad(q: decimal(38,2))")
        with pytest.raises(upshot.OverflowError_, match="more than 38 digits"), db.transaction() as tx:
            tx.insert("price", [("x", Decimal("99999999.99"), Decimal("0.01"))])
        assert db.rows("price") == []


def test_sums_of_wide_decimals_overflow_as_other_sums_do() -> None:
    with upshot.connect() as db:
        db.define(".decl v(i: number, q: decimal(38,20)) .decl s(q: decimal(38,20)) s(S) :- S = sum Q : { v(_, Q) }.")
        with pytest.raises(upshot.OverflowError_, match="outside the range"), db.transaction() as tx:
            tx.insert("v", [(n, Decimal("999999999999999999.5")) for n in range(2)])
        assert db.version == 1


def test_the_best_of_a_lattice_and_a_key_can_be_wide() -> None:
    with upshot.connect() as db:
        db.define(
            ".decl arc(x: symbol, y: symbol, w: decimal(38,20)) key(x, y)\n"
            ".decl dist(x: symbol, d: min decimal(38,20))\n"
            'dist("a", decimal("0.00000000000000000000")).\n'
            "dist(Y, D + W) :- dist(X, D), arc(X, Y, W)."
        )
        with db.transaction() as tx:
            tx.insert("arc", [("a", "b", THIRD), ("b", "c", THIRD), ("a", "c", Decimal("0.7")), ("c", "a", THIRD)])
        assert set(db.rows("dist")) == {("a", Decimal(0)), ("b", THIRD), ("c", 2 * THIRD)}
        with db.transaction() as tx:
            tx.delete("arc", [("b", "c", THIRD)])
        assert ("c", Decimal("0.7")) in set(db.rows("dist"))
        assert db.verify().views


def test_pages_and_windows_are_in_the_order_of_the_values() -> None:
    with upshot.connect() as db:
        db.define(
            "CREATE TABLE t (a NUMERIC(8, 2)); CREATE VIEW v AS SELECT a / 3 AS q FROM t;"
            "CREATE VIEW w AS SELECT q, rank() OVER (ORDER BY q) AS r FROM v;"
            "CREATE VIEW f AS SELECT q FROM v ORDER BY q LIMIT 2"
        )
        with db.transaction() as tx:
            tx.insert("t", [(Decimal(n),) for n in (-100, -2, 0, 1, 10, 9)])
        ordered = [row[0] for row in db.sql("SELECT q FROM v ORDER BY q DESC")]
        assert ordered == sorted(ordered, reverse=True)
        assert [row[0] for row in sorted(db.rows("w"), key=lambda row: row[1])] == ordered[::-1]
        assert {row[0] for row in db.rows("f")} == set(ordered[-2:])
