"""Constraints written with a declaration, violations that stay, and violations that go."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot

Row = tuple[object, ...]

STOCK = """
.decl quantity(item: symbol, n: number) key(item)
.decl order(item: symbol?, n: number?, max: number?, unit: symbol?)
    foreign(item) quantity(item) notnull(n) check(n > 0, n <= max) determines(item : unit)
"""
NAMES = ("order_foreign_item", "order_notnull_n", "order_check_1", "order_determines_unit")
WARN = "".join(f".deny {name} on_violation=warn\n" for name in NAMES)


def insert(db: upshot.Database, name: str, rows: list[Row]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.insert(name, rows)
    return tx


def delete(db: upshot.Database, name: str, rows: list[Row]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.delete(name, rows)
    return tx


# ---- short forms ------------------------------------------------------------------------------------


def test_every_short_form_rejects_with_the_whole_row(db: upshot.Database) -> None:
    db.define(STOCK)
    insert(db, "quantity", [("nail", 1)])
    insert(db, "order", [("nail", 5, 9, "box")])
    for row, name in (
        (("screw", 5, 9, "box"), "order_foreign_item"),
        ((None, None, 9, None), "order_notnull_n"),
        ((None, 0, 9, None), "order_check_1"),
        ((None, 10, 9, None), "order_check_1"),
    ):
        with pytest.raises(upshot.ConstraintError) as error:
            insert(db, "order", [row])
        assert error.value.violations == {name: [row]}
    with pytest.raises(upshot.ConstraintError) as error:
        insert(db, "order", [("nail", 6, 9, "piece")])
    assert error.value.violations == {"order_determines_unit": [("nail", 5, 9, "box"), ("nail", 6, 9, "piece")]}
    with pytest.raises(upshot.ConstraintError) as error:
        delete(db, "quantity", [("nail", 1)])
    assert error.value.violations == {"order_foreign_item": [("nail", 5, 9, "box")]}
    db.verify()


def test_what_null_leaves_undecided_passes(db: upshot.Database) -> None:
    db.define(STOCK)
    insert(db, "quantity", [("nail", 1)])
    undecided = [(None, 5, None, "a"), (None, 5, None, "b"), ("nail", 5, None, None), ("nail", 5, None, "a")]
    insert(db, "order", undecided)
    assert set(db.rows("order")) == set(undecided)
    assert all(not len(db.rows(name)) for name in db.policies)


def _foreign(order: set[Row], quantity: set[Row]) -> set[Row]:
    items = {item for item, _ in quantity}
    return {row for row in order if row[0] is not None and row[0] not in items}


def _notnull(order: set[Row], _: set[Row]) -> set[Row]:
    return {row for row in order if row[1] is None}


def _check(order: set[Row], _: set[Row]) -> set[Row]:
    return {
        (item, n, most, unit)
        for item, n, most, unit in order
        if isinstance(n, int) and (n <= 0 or (isinstance(most, int) and n > most))
    }


def _determines(order: set[Row], _: set[Row]) -> set[Row]:
    return {
        row
        for row in order
        for other in order
        if row[0] is not None and row[0] == other[0] and None not in (row[3], other[3]) and row[3] != other[3]
    }


NAIVE: dict[str, Callable[[set[Row], set[Row]], set[Row]]] = dict(
    zip(NAMES, (_foreign, _notnull, _check, _determines), strict=True)
)


@pytest.mark.parametrize("seed", range(8))
def test_after_random_transactions_the_witnesses_are_those_of_a_naive_check(db: upshot.Database, seed: int) -> None:
    chosen = random.Random(seed)
    db.define(STOCK + WARN)
    pick = chosen.choice
    before: dict[str, set[Row]] = {name: set() for name in NAMES}
    for _ in range(25):
        with db.transaction() as tx:
            for _ in range(chosen.randint(1, 4)):
                row = (pick(["a", "b", None]), pick([None, 0, 1, 2]), pick([None, 1]), pick(["x", "y", None]))
                pick([tx.insert, tx.insert, tx.delete])("order", [row])
            if chosen.random() < 0.4:
                pick([tx.upsert, tx.delete])("quantity", [(pick("ab"), 1)])
        order, quantity = set(db.rows("order")), set(db.rows("quantity"))
        for name, naive in NAIVE.items():
            found = set(db.rows(name))
            assert found == naive(order, quantity), name
            assert set(tx.violations.get(name, ())) == found - before[name]
            assert set(tx.repaired.get(name, ())) == before[name] - found
            before[name] = found


@pytest.mark.parametrize("seed", range(4))
def test_random_transactions_are_refused_exactly_for_what_they_add(db: upshot.Database, seed: int) -> None:
    chosen = random.Random(100 + seed)
    db.define(STOCK)
    pick = chosen.choice
    refused = 0
    for _ in range(60):
        order, quantity = set(db.rows("order")), set(db.rows("quantity"))
        row: Row = (pick(["a", "b", None]), pick([None, 0, 1, 1, 1]), pick([None, 1]), pick(["x", "y"]))
        stock: Row = (pick("ab"), 1)
        statement = pick(["insert", "insert", "delete", "stock", "sell"])
        new_order = {"insert": order | {row}, "delete": order - {row}}.get(statement, order)
        new_quantity = {"stock": quantity | {stock}, "sell": quantity - {stock}}.get(statement, quantity)
        added = {name: naive(new_order, new_quantity) for name, naive in NAIVE.items()}
        added = {name: rows for name, rows in added.items() if rows}
        relation, rows = ("quantity", [stock]) if statement in ("stock", "sell") else ("order", [row])
        change = delete if statement in ("delete", "sell") else insert
        if added:
            with pytest.raises(upshot.ConstraintError) as error:
                change(db, relation, rows)
            assert {name: set(found) for name, found in error.value.violations.items()} == added
            refused += 1
        else:
            change(db, relation, rows)
            assert (set(db.rows("order")), set(db.rows("quantity"))) == (new_order, new_quantity)
    assert refused > 5
    db.verify()


# ---- definitions ------------------------------------------------------------------------------------


def test_a_declaration_that_is_replaced_takes_its_constraints_with_it(db: upshot.Database) -> None:
    db.define(".decl r(a: number) check(a > 0)\n.deny r_check_1 on_violation=warn\n.output r_check_1")
    insert(db, "r", [(-1,), (5,)])
    db.define(".decl r(a: number) check small(a < 10)")
    assert set(db.schemas) == {"r", "r_small"}
    with pytest.raises(upshot.ConstraintError):
        insert(db, "r", [(10,)])
    with pytest.raises(upshot.ConstraintError):
        db.define(".decl r(a: number) check(a > 0)")
    assert set(db.schemas) == {"r", "r_small"}
    db.define(".decl r(a: number)")
    assert set(db.schemas) == {"r"}


def test_a_policy_stays_while_its_declaration_does(db: upshot.Database) -> None:
    db.define(".decl r(a: number) check(a > 0)\n.deny r_check_1 on_violation=warn")
    db.define(".decl other(a: number)")
    assert insert(db, "r", [(0,)]).violations == {"r_check_1": [(0,)]}


def test_a_relation_that_is_referred_to_cannot_go(db: upshot.Database) -> None:
    db.define(".decl q(a: number)\n.decl r(a: number) foreign(a) q(a)\n.deny r_foreign_a on_violation=warn")
    with pytest.raises(upshot.UsageError) as error:
        db.drop("q")
    assert error.value.code == "relation-in-use"
    assert "r_foreign_a" in error.value.message
    with pytest.raises(upshot.ProgramError):
        db.define(".decl q(b: number)")
    with pytest.raises(upshot.UsageError, match="declaration of `r`"):
        db.drop("r_foreign_a")
    with db.watch("r_foreign_a", lambda event: None), pytest.raises(upshot.UsageError, match="watched"):
        db.drop("r")
    db.drop("r")
    db.drop("q")
    assert set(db.schemas) == set()


# ---- violations that were there before --------------------------------------------------------------


def test_existing_violations_are_kept_where_the_constraint_says_so(db: upshot.Database) -> None:
    db.define(".decl n(x: number)")
    insert(db, "n", [(-1,), (-2,), (3,)])
    with pytest.raises(upshot.ConstraintError) as error:
        db.define(".deny negative(X) :- n(X), X < 0.")
    assert "existing=keep" in error.value.help
    made = db.define(".deny negative(X) :- n(X), X < 0.\n.deny negative existing=keep")
    (warning,) = made.warnings
    assert warning.slug == "violations-kept"
    assert warning.message.startswith("2 violations of constraint `negative` stay: negative(-2), negative(-1)")
    assert db.rows("negative") == {(-1,), (-2,)}
    insert(db, "n", [(-1,), (4,)])
    with pytest.raises(upshot.ConstraintError) as error:
        insert(db, "n", [(-3,)])
    assert error.value.violations == {"negative": [(-3,)]}
    assert delete(db, "n", [(-1,)]).repaired == {"negative": [(-1,)]}
    with pytest.raises(upshot.ConstraintError):
        insert(db, "n", [(-1,)])
    db.verify()


def test_keep_is_for_the_definition_of_the_constraint_only(db: upshot.Database) -> None:
    db.define(".decl n(x: number)  .decl v(x: number)  v(X) :- n(X), X > 0.")
    insert(db, "n", [(-1,), (1,)])
    db.define(".deny bad(X) :- v(X).\n.deny bad existing=keep")
    with pytest.raises(upshot.ConstraintError):
        db.define("v(X) :- n(X).")
    with pytest.raises(upshot.ConstraintError):
        db.define("n(7).")
    made = db.define(".deny bad(X) :- n(X).\n.deny bad existing=keep")
    assert [warning.slug for warning in made.warnings] == ["violations-kept"]
    with pytest.raises(upshot.ConstraintError):
        db.define(".deny bad on_violation=reject")
    db.define(".deny bad on_violation=warn")
    assert db.define(".deny bad existing=keep").warnings[0].message.startswith("2 violations")


def test_a_short_form_may_keep_what_is_there(db: upshot.Database) -> None:
    db.define(".decl r(a: number)")
    insert(db, "r", [(0,)])
    made = db.define(".decl r(a: number) check(a > 0)\n.deny r_check_1 existing=keep")
    assert [warning.slug for warning in made.warnings] == ["violations-kept"]
    with pytest.raises(upshot.ConstraintError):
        insert(db, "r", [(-1,)])


def test_kept_violations_are_there_when_the_database_is_opened_again(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "store") as db:
        db.define(".decl r(a: number)")
        insert(db, "r", [(0,)])
        db.define(".decl r(a: number) check(a > 0)\n.deny r_check_1 existing=keep")
    with upshot.connect(tmp_path / "store") as db:
        assert db.rows("r_check_1") == {(0,)}
        with pytest.raises(upshot.ConstraintError):
            insert(db, "r", [(-1,)])
        assert delete(db, "r", [(0,)]).repaired == {"r_check_1": [(0,)]}


# ---- violations that come and go --------------------------------------------------------------------


def test_a_transaction_tells_what_it_violates_and_what_it_repairs(db: upshot.Database) -> None:
    db.define(".decl r(a: number) check(a > 0)\n.deny r_check_1 on_violation=warn")
    tx = insert(db, "r", [(0,), (-1,), (5,)])
    assert (tx.violations, tx.repaired) == ({"r_check_1": [(-1,), (0,)]}, {})
    with db.transaction() as tx:
        tx.delete("r", [(0,)])
        tx.insert("r", [(-7,)])
    assert (tx.violations, tx.repaired) == ({"r_check_1": [(-7,)]}, {"r_check_1": [(0,)]})
    tx = insert(db, "r", [(8,)])
    assert (tx.violations, tx.repaired) == ({}, {})


def test_violations_can_be_watched(db: upshot.Database) -> None:
    db.define(".decl r(a: number) check(a > 0)\n.deny r_check_1 on_violation=warn")
    seen: list[tuple[list[Row], list[Row]]] = []
    with db.watch("r_check_1", lambda event: seen.append((event.inserted.sorted(), event.deleted.sorted()))):
        insert(db, "r", [(0,), (1,)])
        insert(db, "r", [(2,)])
        delete(db, "r", [(0,)])
    assert seen == [([], []), ([(0,)], []), ([], [(0,)])]


def test_the_error_leads_to_the_constraints(db: upshot.Database) -> None:
    db.define(".decl r(a: number) check(a > 0)\n.deny five(X) :- r(X), X = -5.")
    with pytest.raises(upshot.ConstraintError) as error:
        insert(db, "r", [(-5,)])
    assert {name: span.text for name, span in error.value.places.items()} == {
        "five": "five(X)",
        "r_check_1": "check(a > 0)",
    }
    assert error.value.span is error.value.places["five"]
    assert "2 | .deny five(X) :- r(X), X = -5." in str(error.value)
    assert "note: `r_check_1` is defined here" in str(error.value)
