"""What rules do after a commit, where it goes wrong half-way; and the order of rules some of which sleep."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from upshot.engine.local import LocalEngine

DECLARED = ".decl a(x: number) .decl b(x: number) .decl log(x: number)"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="upshot.rules")


def insert(db: upshot.Database, name: str, *rows: tuple[int]) -> upshot.Transaction:
    with db.transaction() as tx:
        tx.insert(name, list(rows))
    return tx


def order(db: upshot.Database) -> list[str]:
    return [firing.rule for firing in insert(db, "a", (1,)).firings]


def test_a_commit_that_is_taken_back_leaves_its_task_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, calls = LocalEngine.accept, []

    def fails_once(engine: LocalEngine) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError
        accept(engine)

    with upshot.connect(tmp_path / "db") as db:
        db.define(DECLARED + ".rule copy(X) coupling=after on insert a(X) do insert b(X).")
        monkeypatch.setattr(LocalEngine, "accept", fails_once)
        insert(db, "a", (1,))
        monkeypatch.undo()
        assert ["no memory left for the commit" in str(firing.error) for firing in db.pending()] == [True]
    with upshot.connect(tmp_path / "db") as db:
        assert db.rows("b") == [(1,)]
        assert db.pending() == ()


def test_each_call_has_a_key_of_its_own() -> None:
    with upshot.connect() as db:
        keys: list[str] = []
        db.action("one", lambda x, firing: keys.append(firing.key))
        db.action("two", lambda x, firing: keys.append(firing.key))
        db.define(DECLARED + ".rule tell(X) per=instance on insert a(X) do call one(X), call two(X).")
        insert(db, "a", (1,), (2,))
        insert(db, "a", (3,))
        assert len(keys) == len(set(keys)) == 6


def test_each_call_is_made_again_with_its_own_key(tmp_path: Path) -> None:
    keys: list[tuple[int, str]] = []

    def fails(x: int, firing: upshot.Firing) -> None:
        keys.append((x, firing.key))
        raise OSError

    with upshot.connect(tmp_path / "db") as db:
        db.action("one", lambda x: None)
        db.action("two", fails)
        db.define(
            DECLARED
            + ".rule tell(X) per=instance coupling=after on insert a(X) do call one(X), call two(X), insert b(X)."
        )
        insert(db, "a", (1,))
        db.retry()
    with upshot.connect(tmp_path / "db") as db:
        db.action("two", lambda x, firing: keys.append((x, firing.key)))
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_call_that_succeeds_does_not_hide_the_error_of_another() -> None:
    def fails(rows: list[tuple[int]]) -> None:
        raise OSError("away")

    with upshot.connect() as db:
        db.action("bad", fails)
        db.action("good", lambda rows: None)
        db.define(DECLARED + ".rule tell(X) on insert a(X) do call bad(X), call good(X).")
        tx = insert(db, "a", (1,))
        (waiting,) = db.pending()
        assert "away" in str(waiting.error)
        db.action("bad", lambda rows: None)
        assert db.pending() == ()
        assert tx.firings[0].error is None


def test_changes_that_lack_a_function_are_made_when_it_is_registered(tmp_path: Path) -> None:
    program = (
        DECLARED
        + """
        .rule copy(X) coupling=after on insert a(X) do insert b(X).
        .rule tell(X) on insert b(X) do call mail(X)."""
    )
    child = os.fork()
    if not child:
        db = upshot.connect(tmp_path / "db")
        db.define(program)
        db.action("mail", lambda rows: None)
        with db.transaction() as tx:
            tx.insert("a", [(1,)])
            db._state.actions.require = lambda rule: os._exit(0) if rule.name == "tell" else None  # type: ignore[method-assign]
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with upshot.connect(tmp_path / "db") as db:
        assert db.rows("b") == []
        assert [firing.error.code for firing in db.pending() if isinstance(firing.error, upshot.RuleError)] == [
            "unknown-action"
        ]
        sent: list[tuple[int]] = []
        db.action("mail", sent.extend)
        assert db.rows("b") == [(1,)]
        assert sent == [(1,)]
        assert db.pending() == ()


def test_rules_that_multiply_after_the_commit_are_stopped() -> None:
    with upshot.connect(max_firings=20) as db:
        told: list[tuple[int]] = []
        db.action("tell", told.extend)
        db.define(
            DECLARED
            + """
            .rule left(N) coupling=after on insert a(N) do insert a(2 * N).
            .rule right(N) coupling=after on insert a(N) do insert a(2 * N + 1).
            .rule tell(N) on insert a(N) do call tell(N)."""
        )
        with pytest.raises(upshot.RuleError) as caught:
            insert(db, "a", (1,))
        assert caught.value.code == "runaway-rules"
        assert len(db.rows("a")) == 41, "twenty transactions for each of the two firings"
        assert sorted(told) == db.rows("a").sorted(), "calls are not dropped"
        assert db.pending() == ()


def test_a_function_of_an_immediate_rule_cannot_change_its_transaction() -> None:
    with upshot.connect() as db:
        opened = [db.transaction()]
        db.action("meddle", lambda rows: opened[0].insert("log", [(9,)]))
        db.define(DECLARED + ".rule r(X) coupling=immediate on insert a(X) do call meddle(X), insert b(X).")
        with pytest.raises(upshot.RuleError) as caught, opened[0] as tx:
            tx.insert("a", [(1,)])
        assert caught.value.code == "action-failed"
        assert "a function called by a rule cannot change the transaction" in caught.value.message
        assert [len(db.rows(name)) for name in ("a", "b", "log")] == [0, 0, 0]


def test_an_order_by_way_of_a_rule_that_sleeps_holds() -> None:
    with upshot.connect() as db:
        db.define(
            DECLARED
            + """
            .rule last(X) on insert a(X) do insert log(X).
            .rule middle(X) active=false precedes=last on insert a(X) do insert log(X).
            .rule first(X) precedes=middle on insert a(X) do insert b(X)."""
        )
        assert order(db) == ["first", "last"]


def test_immediate_rules_come_first_whatever_precedes_them() -> None:
    with upshot.connect() as db:
        db.define(
            DECLARED
            + """
            .rule late(X) precedes=early on insert a(X) do insert log(X).
            .rule early(X) coupling=immediate on insert a(X) do insert b(X)."""
        )
        assert [firing.rule for firing in db.what_if(insert={"a": [(1,)]}).firings] == ["early", "late"]
        assert order(db) == ["early", "late"]


def test_a_rule_of_high_priority_waits_for_the_one_that_precedes_it() -> None:
    with upshot.connect() as db:
        db.define(".decl fact(x: number) .decl log(x: number)")
        for options in ("low priority=1", "high priority=5", "lowest precedes=high", "same priority=1"):
            name, _, said = options.partition(" ")
            db.define(f".rule {name}(X) {said} on insert fact(X) do insert log(X).")
        tx = insert(db, "fact", (1,))
        assert [firing.rule for firing in tx.firings] == ["low", "same", "lowest", "high"]
        db.define(".rule lowest(X) priority=6 precedes=high on insert fact(X) do insert log(X).")
        tx = insert(db, "fact", (2,))
        assert [firing.rule for firing in tx.firings] == ["lowest", "high", "low", "same"]


def test_a_bound_on_firings_is_a_number() -> None:
    with pytest.raises(upshot.UsageError):
        upshot.connect(max_firings=None)  # type: ignore[arg-type]


def test_what_a_firing_answers_ends_with_the_call() -> None:
    with upshot.connect() as db:
        kept: list[upshot.Firing] = []
        queries: list[Callable[..., upshot.Rows]] = []

        def keep(rows: list[tuple[int]], firing: upshot.Firing) -> None:
            assert firing.query is not None
            assert firing.query("a(X)") == [(1,)]
            kept.append(firing)
            queries.append(firing.query)

        db.action("keep", keep)
        db.define(DECLARED + ".rule look(X) coupling=immediate on insert a(X) do call keep(X).")
        insert(db, "a", (1,))
        assert kept[0].query is None
        with db.transaction() as tx:
            tx.insert("b", [(2,)])
            with pytest.raises(upshot.UsageError) as caught:
                queries[0]("b(X)")
        assert caught.value.code == "transaction-ended"


def test_an_order_against_the_couplings_does_not_bend_priorities() -> None:
    with upshot.connect() as db:
        db.action("tell", lambda rows: None)
        db.define(
            DECLARED
            + """
            .rule tell(X) on insert a(X) do call tell(X).
            .rule low(X) on insert a(X) do insert log(X).
            .rule high(X) priority=1 follows=tell on insert a(X) do insert b(X)."""
        )
        assert order(db) == ["high", "low", "tell"]


def test_violations_of_changes_after_the_commit_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="upshot.rules")
    with upshot.connect() as db:
        db.define(
            DECLARED
            + """
            .deny big(X) :- b(X), X > 5. .deny big on_violation=warn
            .rule copy(X) coupling=after on insert a(X) do insert b(X)."""
        )
        insert(db, "a", (9,))
    assert "big(9)" in caplog.text


def test_a_function_that_a_call_does_not_run_is_refused() -> None:
    async def later(rows: list[tuple[int]]) -> None: ...

    def bit_by_bit(rows: list[tuple[int]]) -> Iterator[None]:
        yield

    with upshot.connect() as db:
        for function in (later, bit_by_bit):
            with pytest.raises(upshot.UsageError) as caught:
                db.action("tell", function)
            assert caught.value.code == "wrong-argument"


def test_what_can_never_succeed_is_given_up_by_its_key(tmp_path: Path) -> None:
    def fail(rows: list[Any]) -> None:
        raise ConnectionError("nobody there")

    with upshot.connect(tmp_path / "db") as db:
        db.define(".decl fact(x: number)\n.rule gone(X) on insert fact(X) do call tell(X).")
        db.action("tell", fail)
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
        (waiting,) = db.pending()
        with pytest.raises(upshot.UsageError, match="no pending firing has the key"):
            db.discard("another")
        db.discard(waiting.key)
        assert db.pending() == ()
    with upshot.connect(tmp_path / "db") as db:
        assert db.pending() == ()


def test_options_and_orders_without_effect_are_warned_of() -> None:
    with upshot.connect() as db:
        made = db.define("""
            .decl a(x: number)
            .decl b(x: number)
            .rule early(X) coupling=immediate on insert a(X) do insert b(X).
            .rule late(X) semantics=strict per=instance strategy=epf precedes=early on insert a(X) do delete b(X).
        """)
    found = sorted(warning.slug for warning in made.warnings if warning.slug != "rule-order-matters")
    assert found == ["idle-rule-option"] * 3 + ["order-against-coupling"]


def test_rules_without_end_that_a_process_left_behind_do_not_keep_the_database_shut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What stood in the outbox is carried out until the bound; that is logged, and the database is open."""
    caplog.set_level(logging.ERROR, logger="upshot.rules")
    with upshot.connect(tmp_path / "db") as db, monkeypatch.context() as patch:
        patch.setattr("upshot.database.rules.outbox.run_tasks", lambda *_: None)
        db.define(".decl c(n: number)\n.rule up(N) coupling=after on insert c(N) do insert c(N + 1).")
        with db.transaction() as tx:
            tx.insert("c", [(0,)])
        assert len(db.pending()) == 1
    with upshot.connect(tmp_path / "db", max_firings=10) as db:
        assert "runaway-rules" in caplog.text
        assert db.rows("c").sorted()[:2] == [(0,), (1,)]
        assert len(db.rows("c")) <= 12
        db.verify()
