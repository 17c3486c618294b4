"""Traps that rule engines with truth maintenance are known to fall into."""

from __future__ import annotations

from typing import Any

import pytest

import upshot

BASE = """
.decl fact(x: number)
.decl other(x: number)
.decl log(x: number)
"""


def database(text: str, **options: Any) -> Any:
    db = upshot.connect(**options)
    db.action("tell", lambda rows: None)
    db.define(BASE + text)
    return db


def change(db: Any, *, insert: Any = None, delete: Any = None) -> Any:
    with db.transaction() as tx:
        for name, rows in (delete or {}).items():
            tx.delete(name, rows)
        for name, rows in (insert or {}).items():
            tx.insert(name, rows)
    return tx


def fired(tx: Any) -> list[tuple[str, list[Any]]]:
    return [(firing.rule, firing.rows.sorted()) for firing in tx.firings]


def test_insert_and_retract_in_one_firing_is_nothing() -> None:
    """The fact a rule puts in and takes out again was never there for anybody."""
    with database("""
        .rule flash(X) on insert fact(X) do insert other(X), delete other(X).
        .rule saw(X) on insert other(X) do insert log(X).
    """) as db:
        tx = change(db, insert={"fact": [(1,)]})
        assert fired(tx) == [("flash", [(1,)])]
        assert set(tx.changes) == {"fact"}


def test_retract_and_insert_in_one_firing_leaves_the_fact() -> None:
    with database("""
        .rule swap(X) on insert fact(X) do delete other(X), insert other(X).
        .rule saw(X) on change other(X) do insert log(X).
    """) as db:
        change(db, insert={"other": [(1,)]})
        change(db, delete={"log": [(1,)]})
        tx = change(db, insert={"fact": [(1,)]})
        assert fired(tx) == [("swap", [(1,)])]
        assert db.rows("other") == [(1,)]


def test_a_fact_supported_twice_survives_the_loss_of_one_support() -> None:
    with database("""
        .decl known(x: number)
        known(X) :- fact(X).
        known(X) :- other(X).
        .rule gone(X) on delete known(X) do insert log(X).
    """) as db:
        change(db, insert={"fact": [(1,)], "other": [(1,)]})
        assert fired(change(db, delete={"fact": [(1,)]})) == []
        assert fired(change(db, delete={"other": [(1,)]})) == [("gone", [(1,)])]
        assert db.rows("log") == [(1,)]


def test_a_support_exchanged_for_another_is_no_event() -> None:
    with database("""
        .decl known(x: number)
        known(X) :- fact(X).
        known(X) :- other(X).
        .rule seen(X) on change known(X) do insert log(X).
    """) as db:
        change(db, insert={"fact": [(1,)]})
        change(db, delete={"log": [(1,)]})
        assert fired(change(db, delete={"fact": [(1,)]}, insert={"other": [(1,)]})) == []


def test_support_through_negation_comes_and_goes() -> None:
    with database("""
        .decl free(x: number)
        free(X) :- fact(X), !other(X).
        .rule freed(X) when free(X) do insert log(X).
        .rule taken(X) on delete free(X) do delete log(X).
    """) as db:
        assert fired(change(db, insert={"fact": [(1,), (2,)], "other": [(2,)]})) == [("freed", [(1,)])]
        assert fired(change(db, insert={"other": [(1,)]})) == [("taken", [(1,)])]
        assert db.rows("log") == []
        assert fired(change(db, delete={"other": [(1,), (2,)]})) == [("freed", [(1,), (2,)])]
        assert fired(change(db, delete={"fact": [(1,)]}, insert={"other": [(1,)]})) == [("taken", [(1,)])]
        assert db.rows("log") == [(2,)]


def test_retract_after_mutation_finds_the_row_as_it_is_now() -> None:
    """A row that was changed is another row: taking out the old one is nothing, and what followed from it is gone."""
    with database("""
        .decl stock(item: number, n: number) key(item)
        .decl low(item: number)
        low(I) :- stock(I, N), N < 10.
        .rule order(I) when low(I) do insert log(I).
        .rule cancel(I) on delete low(I) do delete log(I).
    """) as db:
        change(db, insert={"stock": [(1, 5)]})
        assert db.rows("log") == [(1,)]
        with db.transaction() as tx:
            tx.upsert("stock", [(1, 7)])
            tx.delete("stock", [(1, 5)])
        assert fired(tx) == [], "it is low all the time"
        with db.transaction() as tx:
            tx.upsert("stock", [(1, 50)])
            tx.delete("stock", [(1, 7)])
        assert fired(tx) == [("cancel", [(1,)])]
        assert db.rows("log") == []
        assert db.rows("stock") == [(1, 50)]


def test_a_rule_that_undoes_its_own_trigger_fires_once() -> None:
    with database("""
        .rule refuse(X) on insert fact(X) when X > 10 do delete fact(X), insert log(X).
    """) as db:
        tx = change(db, insert={"fact": [(1,), (11,)]})
        assert fired(tx) == [("refuse", [(11,)])]
        assert db.rows("fact") == [(1,)]
        assert tx.changes["fact"].inserted == [(1,)]
        assert db.rows("log") == [(11,)]


def test_an_action_can_untrigger_a_rule_that_waits() -> None:
    with database("""
        .rule clean(X) priority=2 on insert fact(X) when X > 10 do delete fact(X).
        .rule note(X) priority=1 on insert fact(X) do insert log(X).
    """) as db:
        tx = change(db, insert={"fact": [(1,), (11,)]})
        assert fired(tx) == [("clean", [(11,)]), ("note", [(1,)])]
        assert db.rows("log") == [(1,)]


def test_two_rules_that_fight_are_stopped_and_shown() -> None:
    with database(
        """
        .rule put(X) when other(X) do delete other(X), insert fact(X).
        .rule take(X) when fact(X) do delete fact(X), insert other(X).
        """,
        max_firings=50,
    ) as db:
        with pytest.raises(upshot.RuleError) as caught:
            change(db, insert={"fact": [(1,)], "log": [(7,)]})
        error = caught.value
        assert error.code == "runaway-rules"
        assert sorted(set(error.trace)) == ["put", "take"]
        assert len(error.trace) == 2
        assert "`put` deletes other(1), inserts fact(1)" in error.message
        assert "`take` deletes fact(1), inserts other(1)" in error.message
        assert db.rows("fact") == []
        assert db.rows("log") == [], "rolled back whole"
        assert db.version == 1
        db.verify()


def test_a_rule_that_only_puts_back_what_another_took_does_not_fight_it() -> None:
    """What was undone before a rule had its turn did not happen for it."""
    with database("""
        .rule put(X) on delete fact(X) do insert fact(X).
        .rule take(X) on insert fact(X) do delete fact(X).
    """) as db:
        assert [name for name, _ in fired(change(db, insert={"fact": [(1,)]}))] == ["take"]
        assert db.rows("fact") == []


def test_a_counter_that_never_ends_is_stopped() -> None:
    with database(".rule up(X) on insert fact(X) do insert fact(X + 1).", max_firings=20) as db:
        with pytest.raises(upshot.RuleError, match="`up` inserts fact"):
            change(db, insert={"fact": [(0,)]})
        assert db.rows("fact") == []


def test_a_cascade_that_ends_runs_to_its_end() -> None:
    with database(".rule down(X) on insert fact(X) when X > 0 do insert fact(X - 1).") as db:
        tx = change(db, insert={"fact": [(200,)]})
        assert len(tx.firings) == 200
        assert len(db.rows("fact")) == 201


def test_a_recursive_support_that_lost_its_ground_is_gone() -> None:
    """Two facts that support each other do not keep each other alive."""
    with database("""
        .decl edge(x: number, y: number)
        .decl reached(x: number)
        reached(X) :- fact(X).
        reached(Y) :- reached(X), edge(X, Y).
        .rule lost(X) on delete reached(X) do insert log(X).
    """) as db:
        change(db, insert={"fact": [(1,)], "edge": [(1, 2), (2, 3), (3, 2)]})
        assert fired(change(db, delete={"edge": [(1, 2)]})) == [("lost", [(2,), (3,)])]
