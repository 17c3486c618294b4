"""A derived decimal with more digits than its column declares is an error of the transaction, and nothing happened."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import upshot
from tests.engine.kernels import both_forms, kernel

A = ".decl a(k: number, x: decimal(4,2)?)\n.decl wide(x: decimal(8,2))\n"
LARGE = Decimal("99.99")

PROGRAMS = {
    "arithmetic in the head": (".decl s(x: decimal(4,2)?)\ns(X + X) :- a(_, X).", "199.98"),
    "arithmetic in the body": (".decl s(x: decimal(4,2))\ns(Y) :- a(_, X), Y = X + X.", "199.98"),
    "a negative value": (".decl s(x: decimal(4,2))\ns(Y) :- a(_, X), Y = -X - X.", "-199.98"),
    "a product": (".decl s(x: decimal(6,4))\ns(Y) :- a(_, X), Y = X * X.", "9998.0001"),
    "a copy": (".decl s(x: decimal(4,2))\ns(X) :- wide(X).", "1234.50"),
    "a sum": (".decl s(x: decimal(4,2))\ns(S) :- S = sum X : { a(_, X) }.", "199.97"),
    "a sum of groups": (".decl s(k: number, x: decimal(4,2))\ns(G, S) :- a(K, _), G = K % 1, "
                        "S = sum X : { a(J, X), J % 1 = G }.", "199.97"),
    "a sum that is a view as it stands": (
        ".decl b(k: number, j: number, x: decimal(4,2))\nb(1, K, X) :- a(K, X), !is_null(X).\n"
        ".decl s(k: number, x: decimal(4,2))\ns(K, S) :- b(K, _, _), S = sum X : { b(K, _, X) }.", "199.97"),
    "a maximum": (".decl s(x: decimal(4,2))\ns(S) :- S = max X : { wide(X) }.", "1234.50"),
    "a view over a view": (".decl t(x: decimal(18,2))\nt(X + X) :- wide(X).\n"
                           ".decl s(x: decimal(5,2))\ns(X) :- t(X), !a(0, X).", "2469.00"),
}  # fmt: skip


def changed(db: upshot.Database, **rows: list[tuple[Any, ...]]) -> Any:
    with db.transaction() as tx:
        for name, given in rows.items():
            tx.insert(name, given)
    return tx


@both_forms
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_value_beyond_its_column_rolls_the_transaction_back(what: str, form: str) -> None:
    program, value = PROGRAMS[what]
    with kernel(form), upshot.connect() as db:
        db.define(A + program)
        changed(db, a=[(1, Decimal(1)), (5, None)], wide=[(Decimal(2),)])
        before, version = db.rows("s").to_arrow().to_pylist(), db.version
        with pytest.raises(upshot.OverflowError_) as raised:
            changed(db, a=[(2, LARGE), (3, Decimal("98.98"))], wide=[(Decimal("1234.5"),)])
        error = raised.value
        assert error.code == "overflow"
        assert f"`{value}`" in error.message
        assert "column `x` of `s`" in error.message
        assert error.span is not None
        assert error.span.text.startswith("s(")
        assert "more digits" in error.help
        assert (db.version, db.rows("s").to_arrow().to_pylist()) == (version, before)
        db.verify()
        changed(db, a=[(2, Decimal(3))])
        db.verify()


STRATEGIES = ("maintenance", "recompute", "production", "bf", "epf", "rod", "propagation")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_stops_a_recursion_at_the_digits_of_its_column(strategy: str) -> None:
    with upshot.connect() as db:
        db.define(
            f".decl a(x: decimal(4,2))\n.decl s(x: decimal(4,2))\n.view s strategy={strategy}\n"
            "s(X) :- a(X).\ns(X + X) :- s(X), X < 60.00."
        )
        changed(db, a=[(Decimal("32.00"),)])
        with pytest.raises(upshot.OverflowError_, match=r"`118\.00` for column `x` of `s`"):
            changed(db, a=[(Decimal("59.00"),)])
        assert db.rows("s") == [(Decimal("32.00"),), (Decimal("64.00"),)]
        db.verify()


def test_what_if_and_realize_meet_the_same_bound() -> None:
    with upshot.connect() as db:
        db.define(
            ".decl a(x: decimal(4,2))\n.decl s(x: decimal(4,2))\ns(X + X) :- a(X), X > 90.00.\n"
            ".decl p(x: decimal(4,2))\np(X) :- a(X)."
        )
        with pytest.raises(upshot.OverflowError_, match=r"`199\.98`"):
            db.what_if(insert={"a": [(LARGE,)]})
        assert [each.insert for each in db.realize(insert={"p": [(Decimal(7),)]})] == [{"a": ((Decimal("7.00"),),)}]
        assert list(db.realize(insert={"p": [(LARGE,)]})) == []


def test_a_view_that_gets_fewer_digits_must_hold_its_rows() -> None:
    with upshot.connect() as db:
        db.define(".decl a(x: decimal(8,2))\n.decl s(x: decimal(8,2))\ns(X) :- a(X).")
        changed(db, a=[(Decimal("1234.50"),)])
        with pytest.raises(upshot.OverflowError_, match=r"`1234\.50` for column `x` of `s`"):
            db.define(".decl s(x: decimal(4,2))\ns(X) :- a(X).")
        assert str(db.schemas["s"]) == "s(x: decimal(8,2))"
        db.define(".decl s(x: decimal(6,2))\ns(X) :- a(X).")
        assert db.rows("s").to_arrow().to_pydict() == {"x": [Decimal("1234.50")]}


def test_a_value_that_only_joins_finds_nothing_beyond_the_digits_of_the_other_column() -> None:
    with upshot.connect() as db:
        db.define(
            ".decl a(x: decimal(4,2))\n.decl b(x: decimal(4,2))\n"
            ".decl s(x: decimal(4,2))\ns(Y) :- b(Y), a(X), Y = X + X.\n"
            ".decl t(x: decimal(4,2))\nt(S) :- b(S), S = sum X : { a(X) }."
        )
        changed(db, a=[(LARGE,), (Decimal(1),)], b=[(Decimal(2),)])
        changed(db, a=[(Decimal("99.98"),)])
        changed(db, b=[(Decimal(9),)])
        assert db.rows("s") == [(Decimal("2.00"),)]
        assert db.rows("t") == []
        db.verify()


def test_a_view_on_demand_is_asked_for_values_that_its_column_cannot_hold() -> None:
    with upshot.connect() as db:
        db.define(
            ".decl a(x: decimal(8,2))\n.decl b(x: decimal(4,2))\n.decl s(x: decimal(4,2))\n.view s materialized=false\n"
            "s(X) :- b(X).\n.decl v(x: decimal(8,2))\nv(X) :- a(X), s(X)."
        )
        changed(db, a=[(Decimal("1234.50"),), (Decimal(2),)], b=[(Decimal(2),)])
        assert db.rows("v") == db.query("a(X), s(X)") == [(Decimal("2.00"),)]
        db.verify()


def test_a_decimal_has_18_digits_at_most_and_the_error_says_so() -> None:
    with upshot.connect() as db:
        db.define(".decl a(k: number, x: decimal(18,2))\n.decl t(x: decimal(18,2))\nt(S) :- S = sum X : { a(_, X) }.")
        most = Decimal(10) ** 16 - Decimal("0.01")
        changed(db, a=[(2, most)])
        with pytest.raises(upshot.OverflowError_, match="more than 18 digits"):
            db.query("a(_, X), Y = X + X")
        assert db.rows("t").to_arrow().to_pydict() == {"x": [most]}
        with pytest.raises(upshot.OverflowError_, match=r"`10000000000000000\.00`"):
            changed(db, a=[(3, Decimal("0.01"))])
        db.verify()
