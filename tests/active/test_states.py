"""Which state a condition, an action and a function see: the table in `docs/explanation/rules.md`, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

import upshot

PROGRAM = """
.decl fact(x: number)
.decl other(x: number)
.decl log(x: number)
.decl pair(x: number, y: number)
.decl twice(x: number)
twice(2 * X) :- fact(X).
"""


@pytest.fixture
def db() -> Iterator[Any]:
    """Holds fact(1) before each transaction."""
    with upshot.connect() as found:
        found.define(PROGRAM)
        with found.transaction() as tx:
            tx.insert("fact", [(1,)])
        yield found


def inserted(db: Any, *numbers: int) -> Any:
    with db.transaction() as tx:
        tx.insert("fact", [(number,) for number in numbers])
    return tx


def fired(tx: Any, rule: str) -> list[list[tuple[Any, ...]]]:
    """What the rule fired for, turn by turn."""
    return [firing.rows.sorted() for firing in tx.firings if firing.rule == rule]


@pytest.mark.parametrize("coupling", ["immediate", "deferred", "after"])
def test_a_condition_sees_what_statements_and_rules_so_far_have_left(db: Any, coupling: str) -> None:
    db.define(f"""
        .rule first(X) priority=2 coupling=immediate on insert fact(X) do insert other(X), delete fact(1).
        .rule second(X, Y, Z) priority=1 coupling={coupling}
            on insert fact(X) when other(Y), twice(Z), !fact(1) do insert pair(Y, Z).
    """)
    tx = inserted(db, 2)
    assert fired(tx, "second") == [[(2, 2, 4)]], "base relations and views, with what `first` inserted and deleted"


def test_old_is_the_state_before_the_window_of_the_rule(db: Any) -> None:
    db.define("""
        .rule grow(X) priority=1 on insert fact(X) when X < 4 do insert fact(X + 1).
        .rule look(X, Y) priority=2 on insert fact(X) when old fact(Y) do insert pair(X, Y).
    """)
    tx = inserted(db, 2)
    assert fired(tx, "look") == [[(2, 1)], [(3, 1), (3, 2)], [(4, 1), (4, 2), (4, 3)]]


def test_inserted_and_deleted_are_the_net_change_of_the_window(db: Any) -> None:
    db.define("""
        .rule clean(X) priority=2 on insert fact(X) when X > 10 do delete fact(X).
        .rule came(X) priority=1 when inserted fact(X) do insert log(X).
        .rule went(X) priority=1 when deleted fact(X) do insert other(X).
    """)
    with db.transaction() as tx:
        tx.insert("fact", [(2,), (3,), (11,)])
        tx.delete("fact", [(1,), (3,)])
        tx.insert("fact", [(1,)])
    assert (fired(tx, "came"), fired(tx, "went")) == ([[(2,)]], []), "undone by a statement or by a rule is nothing"


def test_all_actions_of_a_firing_use_the_instances_that_the_condition_found(db: Any) -> None:
    db.define(".rule move(X) on insert other(_) when fact(X) do delete fact(X), insert fact(X + 10), insert log(X).")
    with db.transaction() as tx:
        tx.insert("other", [(7,)])
    assert fired(tx, "move") == [[(1,)]], "the fact that the second action made is not an instance for the third"
    assert (db.rows("fact").sorted(), db.rows("log").sorted()) == ([(11,)], [(1,)])


@pytest.mark.parametrize("coupling", ["immediate", "deferred"])
def test_a_function_before_the_commit_sees_the_transaction_without_the_changes_of_its_firing(
    db: Any, coupling: str
) -> None:
    answers: list[Any] = []

    def look(rows: list[Any], firing: upshot.Firing) -> None:
        assert firing.query is not None
        answers.append([firing.query(text).sorted() for text in ("fact(X)", "other(X)", "log(X)")])
        answers.append(db.query("fact(X)").sorted())

    db.define(f"""
        .rule first(X) priority=2 coupling={coupling} on insert fact(X) do insert other(X).
        .rule second(X) priority=1 coupling={coupling} on insert fact(X) do insert log(X), call look(X).
    """)
    db.action("look", look)
    inserted(db, 2)
    assert answers[0] == [[(1,), (2,)], [(2,)], []], "what `first` did, and nothing of its own"
    assert answers[1] == [(1,)], "`db.query` is everybody's: the state before the transaction"
    assert db.rows("log") == [(2,)]


def test_another_thread_sees_nothing_of_a_transaction_that_rules_follow(db: Any) -> None:
    """Between the statements it reads the state before; what it asks during the commit is answered after that."""
    answers: list[Any] = []

    def ask() -> None:
        answers.append(db.query("fact(X)").sorted())

    def meanwhile(rows: list[Any]) -> None:
        waiting.start()
        waiting.join(timeout=0.05)

    waiting = Thread(target=ask)
    db.define("""
        .rule copy(X) coupling=immediate on insert fact(X) do insert other(X).
        .rule wait(X) coupling=deferred on insert fact(X) do call meanwhile(X).
    """)
    db.action("meanwhile", meanwhile)
    with db.transaction() as tx:
        tx.insert("fact", [(2,)])
        between = Thread(target=ask)
        between.start()
        between.join(timeout=120)
        assert answers == [[(1,)]]
    waiting.join(timeout=120)
    assert answers[1] in ([(1,)], [(1,), (2,)])


def test_a_function_after_the_commit_sees_the_committed_state_and_what_was_committed_since(db: Any) -> None:
    answers: list[Any] = []

    def look(rows: list[Any], firing: upshot.Firing) -> None:
        assert firing.query is not None
        asked = [firing.query("fact(X)").sorted(), firing.query("other(X)").sorted(), db.query("other(X)").sorted()]
        answers.append((rows, asked))

    db.define("""
        .rule change(X) coupling=after on insert fact(X) do insert other(X), delete fact(X).
        .rule tell(X) on insert fact(X) do call look(X).
    """)
    db.action("look", look)
    inserted(db, 2)
    assert answers == [([(2,)], [[(1,)], [(2,)], [(2,)]])], "the instances are of the transaction, the state is not"


def test_each_change_is_considered_once_by_each_rule_whatever_its_coupling(db: Any) -> None:
    """Every row that comes, by a statement or a rule, is in exactly one window of each rule that listens."""
    listeners = {f"r{place}": coupling for place, coupling in enumerate(("immediate", "deferred", "after") * 2)}
    for name, coupling in listeners.items():
        db.define(f".rule {name}(X) coupling={coupling} on insert fact(X) do call look(X).")
    db.define(".rule grow(X) priority=-1 on insert fact(X) when X < 5 do insert fact(X + 1).")
    db.action("look", lambda rows: None)
    with db.transaction() as tx:
        tx.insert("fact", [(2,)])
        tx.insert("fact", [(8,)])
    for name in listeners:
        rows = [row for turn in fired(tx, name) for row in turn]
        assert sorted(rows) == [(2,), (3,), (4,), (5,), (8,)], name
