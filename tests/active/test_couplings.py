"""When rules run, what state they see, and what becomes of their failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot

BASE = """
.decl fact(x: number)
.decl other(x: number)
.decl log(x: number)
.decl both(x: number)
both(X) :- fact(X), other(X).
"""


def insert(db: Any, **rows: list[Any]) -> Any:
    with db.transaction() as tx:
        for name, given in rows.items():
            tx.insert(name, given)
    return tx


def test_an_immediate_rule_answers_each_statement() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) coupling=immediate on insert fact(X) do insert other(X).")
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
            tx.delete("other", [(1,)])
            tx.insert("fact", [(2,)])
        assert [firing.rows.sorted() for firing in tx.firings] == [[(1,)], [(2,)]]
        assert db.rows("other") == [(2,)], "the second statement took back what the rule did after the first"


def test_a_deferred_rule_sees_only_what_is_left_at_the_end() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) on insert fact(X) do insert other(X).")
        with db.transaction() as tx:
            tx.insert("fact", [(1,), (2,)])
            tx.delete("fact", [(1,)])
        assert [firing.rows.sorted() for firing in tx.firings] == [[(2,)]]


def test_while_the_block_runs_others_see_the_state_before_it() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) coupling=immediate on insert fact(X) do insert other(X).")
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
            assert db.rows("other") == []
            assert db.query("both(X)") == []
        assert db.query("both(X)") == [(1,)]


def test_conditions_see_the_current_state_and_name_the_others() -> None:
    with upshot.connect() as db:
        db.define(
            BASE
            + """
            .decl jump(x: number, y: number)
            .decl stock(item: number, n: number) key(item)
            .rule halved(I, A, B) when old stock(I, A), inserted stock(I, B), 2 * B < A do insert jump(A, B).
            """
        )
        insert(db, stock=[(1, 100), (2, 100)])
        with db.transaction() as tx:
            tx.upsert("stock", [(1, 40), (2, 60)])
        assert tx.firings[0].rows == [(1, 100, 40)]
        assert db.rows("jump") == [(100, 40)]


def test_each_rule_considers_each_change_once() -> None:
    """`second` makes new facts; `first` is then told of these, and not again of the others."""
    with upshot.connect() as db:
        db.define(
            BASE
            + """
            .rule first(X) priority=2 on insert fact(X) do insert log(X).
            .rule second(X) priority=1 on insert fact(X) when X < 10 do insert fact(X + 10).
            """
        )
        tx = insert(db, fact=[(1,), (2,)])
        assert [(firing.rule, firing.rows.sorted()) for firing in tx.firings] == [
            ("first", [(1,), (2,)]),
            ("second", [(1,), (2,)]),
            ("first", [(11,), (12,)]),
        ]


def test_a_call_runs_after_the_commit_and_before_the_block_returns() -> None:
    seen: list[Any] = []
    with upshot.connect() as db:
        db.define(BASE + ".rule gone(X, Y) on insert fact(X) when other(Y) do call tell(X, Y).")
        db.action("tell", lambda rows: seen.append((rows, db.version, db.rows("fact").sorted())))
        tx = insert(db, other=[(5,), (6,)], fact=[(1,)])
        assert seen == [([(1, 5), (1, 6)], tx.version, [(1,)])]


def test_a_call_for_each_instance_gets_its_values() -> None:
    seen: list[Any] = []

    def tell(x: int, y: int, firing: upshot.Firing) -> None:
        seen.append((x, y, firing.rule, firing.version))

    with upshot.connect() as db:
        db.define(BASE + ".rule pair(X) per=instance on insert fact(X) do call tell(X, X + 1).")
        db.action("tell", tell)
        insert(db, fact=[(1,), (2,)])
    assert seen == [(1, 2, "pair", 2), (2, 3, "pair", 2)]


def test_a_function_with_a_parameter_for_each_value_is_called_for_each_instance() -> None:
    seen: list[Any] = []
    with upshot.connect() as db:
        db.define(BASE + ".rule pair(X) on insert fact(X) do call tell(X, X + 1).")
        db.action("tell", lambda x, y: seen.append((x, y)))
        insert(db, fact=[(1,), (2,)])
        db.action("tell", lambda rows, firing, marked=False: seen.append((rows, firing.rule, marked)))
        insert(db, fact=[(3,)])
    assert seen == [(1, 2), (2, 3), ([(3, 4)], "pair", False)]


def test_a_function_may_commit_and_what_it_sets_off_runs_too() -> None:
    seen: list[Any] = []
    with upshot.connect() as db:
        db.define(BASE + ".rule down(X) on insert fact(X) do call tell(X).")

        def tell(rows: list[Any]) -> None:
            seen.extend(rows)
            insert(db, fact=[(x - 1,) for (x,) in rows if x > 0])

        db.action("tell", tell)
        insert(db, fact=[(3,)])
    assert seen == [(3,), (2,), (1,), (0,)]


def test_a_veto_ends_the_transaction_and_leaves_nothing() -> None:
    def judge(rows: list[Any], firing: upshot.Firing) -> None:
        assert firing.query is not None
        assert firing.query("both(X)") == [(1,)], "the state that the transaction has reached"
        assert db.query("both(X)") == [], "the state before it"
        raise upshot.Veto("one is taken")

    with upshot.connect() as db:
        db.define(BASE + ".rule check(X) coupling=deferred on insert both(X) do call judge(X).")
        db.action("judge", judge)
        with pytest.raises(upshot.RuleError, match="one is taken") as caught:
            insert(db, fact=[(1,)], other=[(1,)])
        assert caught.value.code == "vetoed"
        assert db.rows("fact") == []


def test_a_function_in_a_transaction_cannot_write() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule check(X) coupling=deferred on insert fact(X) do call write(X).")
        db.action("write", lambda rows: insert(db, log=rows))
        with pytest.raises(upshot.RuleError, match="transaction is open") as caught:
            insert(db, fact=[(1,)])
        assert caught.value.code == "action-failed"
        assert db.rows("fact") == []
        assert db.rows("log") == []


def test_a_failing_immediate_rule_ends_the_transaction_even_if_its_error_is_caught() -> None:
    def refuse(rows: list[Any]) -> None:
        raise upshot.Veto("no")

    with upshot.connect() as db:
        db.define(BASE + ".rule check(X) coupling=immediate on insert fact(X) when X > 1 do call refuse(X).")
        db.action("refuse", refuse)
        with pytest.raises(upshot.UsageError, match="rolled back"), db.transaction() as tx:  # noqa: PT012
            tx.insert("fact", [(1,)])
            with pytest.raises(upshot.RuleError):
                tx.insert("fact", [(2,)])
            with pytest.raises(upshot.UsageError, match="was rolled back because a rule failed"):
                tx.insert("fact", [(3,)])
        assert db.rows("fact") == []
        assert insert(db, fact=[(1,)]).version == 2


def test_a_statement_that_does_not_fit_is_as_if_not_given() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) coupling=immediate on insert fact(X) do insert other(X).")
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
            with pytest.raises(upshot.DataError):
                tx.insert("fact", [("text",)])
        assert db.rows("other") == [(1,)]


def test_a_function_that_is_missing_is_missed_before_the_commit() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule gone(X) on insert fact(X) do call tel(X).")
        db.action("tell", print)
        with pytest.raises(upshot.RuleError, match="`tel`, which is not registered") as caught:
            insert(db, fact=[(1,)])
        assert caught.value.code == "unknown-action"
        assert "tell" in caught.value.help
        assert db.rows("fact") == []


@pytest.mark.parametrize("coupling", ["deferred", "after"])
@pytest.mark.parametrize(
    ("per", "function", "cure"),
    [
        ("set", lambda: None, "`def tell(rows)`, or `def tell(value1, value2)`"),
        ("set", lambda a, b, c: None, "`def tell(rows)`"),
        ("instance", lambda rows: None, "`def tell(value1, value2)`"),
        ("instance", lambda a, firing: None, "`def tell(value1, value2)`"),
    ],
)
def test_a_function_with_other_parameters_is_refused_before_the_commit(
    coupling: str, per: str, function: Any, cure: str
) -> None:
    with upshot.connect() as db:
        db.define(BASE + f".rule gone(X) coupling={coupling} per={per} on insert fact(X) do call tell(X, 1).")
        db.action("tell", function)
        with pytest.raises(upshot.RuleError, match="which does not match its parameters") as caught:
            insert(db, fact=[(1,)])
        assert caught.value.code == "action-signature"
        assert cure in caught.value.help
        assert db.rows("fact") == []
        assert db.pending() == ()


@pytest.mark.parametrize("name", ["", "two words", 3, None])
def test_a_function_needs_a_name_that_a_rule_can_call(name: Any) -> None:
    with upshot.connect() as db, pytest.raises(upshot.UsageError, match="is not a valid action name"):
        db.action(name, print)


def test_a_veto_after_the_commit_comes_too_late_and_says_so() -> None:
    def refuse(rows: list[Any]) -> None:
        raise upshot.Veto("no")

    with upshot.connect() as db:
        db.define(BASE + ".rule gone(X) on insert fact(X) do call refuse(X).")
        db.action("refuse", refuse)
        (firing,) = insert(db, fact=[(1,)]).firings
        assert isinstance(firing.error, upshot.RuleError)
        assert firing.error.message == "rule `gone` cannot reject a committed transaction: no"
        assert "coupling=deferred" in firing.error.help
        assert db.rows("fact") == [(1,)]


def test_a_function_may_ask_its_firing_in_every_coupling() -> None:
    answers: list[Any] = []

    def tell(rows: list[Any], firing: upshot.Firing) -> None:
        assert firing.query is not None
        answers.append((firing.coupling, firing.query("fact(X), X > $low", low=0).sorted()))

    with upshot.connect() as db:
        for coupling in ("immediate", "deferred", "after"):
            db.define(
                BASE * (coupling == "immediate")
                + f".rule {coupling} coupling={coupling} on insert fact(X) do call tell(X)."
            )
        db.action("tell", tell)
        assert all(firing.query is None for firing in insert(db, fact=[(0,), (1,)]).firings)
    assert answers == [("immediate", [(1,)]), ("deferred", [(1,)]), ("after", [(1,)])]


def test_what_cannot_be_computed_names_the_rule_and_not_the_clause() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule turn(X) on insert fact(X) do insert log(1 / X).")
        with pytest.raises(upshot.DataError) as caught:
            insert(db, fact=[(0,)])
        assert caught.value.message == "division by zero in rule `turn`"
        assert "nothing was committed" in caught.value.help
        assert db.rows("fact") == []


def test_changes_after_the_commit_are_a_transaction_of_their_own() -> None:
    versions: list[Any] = []
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) coupling=after on insert fact(X) do insert other(X), insert log(X).")
        db.watch("other", lambda event: versions.append((event.version, event.inserted.sorted())))
        tx = insert(db, fact=[(1,)])
        assert set(tx.changes) == {"fact"}
        assert db.version == tx.version + 1
        assert db.rows("both") == [(1,)]
    assert versions == [(1, []), (3, [(1,)])]


def test_rules_that_set_each_other_off_after_their_commits_are_stopped() -> None:
    with upshot.connect(max_firings=10) as db:
        db.define(BASE + ".rule up(X) coupling=after on insert fact(X) do insert fact(X + 1).")
        with pytest.raises(upshot.RuleError, match="`up` → `up`") as caught:
            insert(db, fact=[(0,)])
        assert caught.value.code == "runaway-rules"
        assert len(db.rows("fact")) == 11
        assert db.pending() == ()


def test_a_call_that_fails_after_the_commit_waits_in_the_outbox(caplog: pytest.LogCaptureFixture) -> None:
    keys: list[str] = []

    def tell(rows: list[Any], firing: upshot.Firing) -> None:
        keys.append(firing.key)
        if len(keys) < 3:
            raise ConnectionError("nobody there")

    with upshot.connect() as db:
        db.define(BASE + ".rule gone(X) on insert fact(X) do call tell(X).")
        db.action("tell", tell)
        tx = insert(db, fact=[(1,)])
        assert "nobody there" in str(tx.firings[0].error)
        assert [firing.rule for firing in db.pending()] == ["gone"]
        assert "nobody there" in caplog.text
        db.retry()
        assert len(db.pending()) == 1
        db.retry()
        assert db.pending() == ()
        assert len(keys) == 3
        assert len(set(keys)) == 1


def test_the_outbox_outlives_the_process(tmp_path: Path) -> None:
    def fail(rows: list[Any]) -> None:
        raise ConnectionError("nobody there")

    with upshot.connect(tmp_path / "db") as db:
        db.define(BASE + ".rule gone(X) on insert fact(X) do call tell(X, 1.5).")
        db.action("tell", fail)
        key = insert(db, fact=[(1,), (2,)]).firings[0].key
    seen: list[Any] = []
    with upshot.connect(tmp_path / "db") as db:
        assert [firing.key for firing in db.pending()] == [key]
        db.action("tell", lambda rows, firing: seen.append((rows, firing.key)))
        assert seen == [([(1, 1.5), (2, 1.5)], key)]
        assert db.pending() == ()
    with upshot.connect(tmp_path / "db") as db:
        assert db.pending() == ()


def test_watchers_of_a_rule_hear_of_its_firings() -> None:
    heard: list[Any] = []
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) on insert fact(X) do insert other(X).")
        db.watch("copy", lambda event: heard.append((event.version, event.inserted.sorted(), event.snapshot)))
        insert(db, fact=[(1,), (2,)])
        insert(db, log=[(1,)])
    assert heard == [(1, [], True), (2, [(1,), (2,)], False)]


def test_what_if_runs_the_rules_and_commits_nothing() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule copy(X) on insert fact(X) do insert other(X).")
        answer = db.what_if(insert={"fact": [(1,)]})
        assert answer["both"].inserted == [(1,)]
        assert [firing.rule for firing in answer.firings] == ["copy"]
        assert repr(answer).endswith("; would fire: copy 1>")
        assert db.rows("fact") == []


def test_constraints_are_checked_when_the_rules_are_quiet() -> None:
    with upshot.connect() as db:
        db.define(
            BASE
            + """
            .deny alone(X) :- fact(X), !other(X).
            .rule repair(X) on insert alone(X) when X < 10 do insert other(X).
            """
        )
        assert insert(db, fact=[(1,)]).changes["other"].inserted == [(1,)]
        with pytest.raises(upshot.ConstraintError):
            insert(db, fact=[(11,)])
