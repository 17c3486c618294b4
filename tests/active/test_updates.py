"""`on update` and `updated`: a row that is deleted and another with the same key that is inserted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import upshot

PROGRAM = """
.decl stock(item: symbol, n: number) key(item)
.decl price(item: symbol, n: number?) key(item)
.decl log(item: symbol, old: number, new: number)
.decl seen(item: symbol)
.decl plain(item: symbol, n: number)
.decl total(item: symbol, n: number) key(item)
total(I, N) :- stock(I, _), N = sum M : { plain(I, M) }.
"""


DECLARE = "declare one, as in `.decl plain(item, n) key(item)`, or use `on change`"


@pytest.fixture
def db() -> Iterator[Any]:
    with upshot.connect() as found:
        found.define(PROGRAM)
        with found.transaction() as tx:
            tx.insert("stock", [("nail", 1), ("screw", 2), ("bolt", 3)])
        yield found


def fired(tx: Any, rule: str) -> list[list[tuple[Any, ...]]]:
    return [firing.rows.sorted() for firing in tx.firings if firing.rule == rule]


@pytest.mark.parametrize("coupling", ["immediate", "deferred", "after"])
@pytest.mark.parametrize(
    "rule", ["on update stock(I, A, I, B)", "when updated stock(I, A, I, B)", "on update stock(I, A, _, B)"]
)
def test_an_update_is_told_from_a_deletion_and_an_insertion(db: Any, rule: str, coupling: str) -> None:
    db.define(f".rule moved(I, A, B) coupling={coupling} {rule} do insert log(I, A, B).")
    with db.transaction() as tx:
        tx.delete("stock", [("bolt", 3)])
        tx.insert("stock", [("hook", 4)])
        tx.upsert("stock", [("nail", 5), ("screw", 2)])
    assert fired(tx, "moved") == [[("nail", 1, 5)]]
    assert db.rows("log").sorted() == [("nail", 1, 5)]


def test_deleting_and_inserting_by_two_statements_is_an_update_at_the_commit(db: Any) -> None:
    db.define(".rule moved(I, A, B) on update stock(I, A, I, B) do insert log(I, A, B).")
    with db.transaction() as tx:
        tx.delete("stock", [("nail", 1)])
        tx.insert("stock", [("nail", 7)])
    assert fired(tx, "moved") == [[("nail", 1, 7)]]


def test_an_update_that_is_undone_is_none(db: Any) -> None:
    db.define(".rule moved(I, A, B) on update stock(I, A, I, B) do insert log(I, A, B).")
    with db.transaction() as tx:
        tx.upsert("stock", [("nail", 7)])
        tx.upsert("stock", [("nail", 1)])
    assert tx.firings == ()


def test_several_updates_in_a_transaction_are_one_from_the_first_row_to_the_last(db: Any) -> None:
    db.define(".rule moved(I, A, B) on update stock(I, A, I, B) do insert log(I, A, B).")
    with db.transaction() as tx:
        tx.upsert("stock", [("nail", 7)])
        tx.upsert("stock", [("nail", 8)])
    assert fired(tx, "moved") == [[("nail", 1, 8)]]


def test_insert_and_delete_events_also_fire_for_an_update(db: Any) -> None:
    db.define("""
        .rule came(I, B) on insert stock(I, B) do call tell(I, B).
        .rule went(I, A) on delete stock(I, A) do call tell(I, A).
        .rule only(I) on delete stock(I, _) when !updated stock(I, _, _, _) do insert seen(I).
    """)
    db.action("tell", lambda rows: None)
    with db.transaction() as tx:
        tx.upsert("stock", [("nail", 7)])
        tx.delete("stock", [("bolt", 3)])
    assert fired(tx, "came") == [[("nail", 7)]]
    assert fired(tx, "went") == [[("bolt", 3), ("nail", 1)]]
    assert fired(tx, "only") == [[("bolt",)]], "`!updated` leaves the pure deletions"


def test_a_rule_waits_for_the_second_half_of_an_update(db: Any) -> None:
    """Another rule deletes the old row in a later turn; the window has both by then."""
    db.define("""
        .rule put(I) priority=3 on insert seen(I) do insert stock(I, 9).
        .rule moved(I, A, B) priority=2 on update stock(I, A, I, B) do insert log(I, A, B).
        .rule drop(I) priority=1 on insert seen(I) when stock(I, 9), stock(I, A), A != 9 do delete stock(I, A).
    """)
    with db.transaction() as tx:
        tx.delete("stock", [("bolt", 3)])
        tx.insert("seen", [("nail",)])
    assert [firing.rule for firing in tx.firings] == ["put", "drop", "moved"]
    assert fired(tx, "moved") == [[("nail", 1, 9)]]


def test_views_with_a_key_have_updates(db: Any) -> None:
    db.define(".rule moved(I, A, B) on update total(I, A, I, B) when A < B do insert log(I, A, B).")
    with db.transaction() as tx:
        tx.insert("plain", [("nail", 4), ("bolt", -1)])
    assert fired(tx, "moved") == [[("nail", 0, 4)]]


def test_null_outside_the_key_is_a_value_of_an_update(db: Any) -> None:
    db.define(".rule moved(I) on update price(I, A, I, B) when is_null(A), !is_null(B) do insert seen(I).")
    with db.transaction() as tx:
        tx.insert("price", [("nail", None), ("bolt", None)])
    with db.transaction() as tx:
        tx.upsert("price", [("nail", 3), ("bolt", None)])
    assert fired(tx, "moved") == [[("nail",)]]


def test_the_cause_of_an_update_is_both_rows(db: Any) -> None:
    db.define(".rule moved(I, A, B) on update stock(I, A, I, B) do insert log(I, A, B).")
    with db.transaction() as tx:
        tx.upsert("stock", [("nail", 7)])
    cause = tx.firings[0].cause["nail", 1, 7]
    assert (cause.deleted, cause.inserted) == ((("stock", ("nail", 1)),), (("stock", ("nail", 7)),))
    assert cause.differentials == ("-stock(I, A)", "+stock(I, B)")


def test_a_rule_that_its_own_action_updates_may_not_terminate(db: Any) -> None:
    made = db.define(".rule up(I, B) on update stock(I, _, I, B) do delete stock(I, B), insert stock(I, B + 1).")
    assert [warning.slug for warning in made.warnings] == ["rules-may-not-terminate"]


@pytest.mark.parametrize(
    ("rule", "code", "hint"),
    [
        ("on update plain(I, _, _, _)", "no-key", DECLARE),
        ("when updated plain(I, _, _, _)", "no-key", DECLARE),
        ("on update seen(I, _)", "no-key", "use `on change`"),
        ("on update stock(I, _)", "wrong-arity", "write `stock(old_item, old_n, new_item, new_n)`"),
    ],
)
def test_updates_need_a_key_and_two_rows(db: Any, rule: str, code: str, hint: str) -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        db.define(f".rule wrong(I) {rule} do insert seen(I).")
    assert (caught.value.code, caught.value.help) == (code, hint)
    assert caught.value.span is not None


def test_a_key_of_all_columns_never_sees_an_update(db: Any) -> None:
    db.define(".decl pair(x: number, y: number) key(x, y)")
    with pytest.raises(upshot.ProgramError, match="every column of `pair` is in its key"):
        db.define(".rule wrong(X) on update pair(X, _, _, _) do insert pair(X, X).")


def test_updates_are_kept_with_the_program_of_a_durable_database(tmp_path: Any) -> None:
    with upshot.connect(tmp_path / "db") as first:
        first.define(PROGRAM)
        first.define(".rule moved(I, A, B) on update stock(I, A, I, B) do insert log(I, A, B).")
        with first.transaction() as tx:
            tx.insert("stock", [("nail", 1)])
    with upshot.connect(tmp_path / "db") as again:
        with again.transaction() as tx:
            tx.upsert("stock", [("nail", 2)])
        assert fired(tx, "moved") == [[("nail", 1, 2)]]
