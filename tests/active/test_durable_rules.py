"""Rules and what they have still to do, across the end of a process that was killed at the worst moment, or closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import upshot

CALLING = """
.decl fact(x: number)
.rule gone(X) on insert fact(X) do call tell(X).
"""
CHANGING = """
.decl fact(x: number)
.decl copy(x: number)
.decl echo(x: number)
.rule copies(X) coupling=after on insert fact(X) do insert copy(X).
.rule echoes(X) coupling=after on insert copy(X) do insert echo(X).
"""

KILLED_CHILD = """
import os, signal, sys
import upshot

folder, program, moment, told = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def tell(rows, firing):
    with open(told, "a") as file:
        file.write(f"{moment} {rows} {firing.key}\\n")
    die()

db = upshot.connect(folder)
db.define(program)
db.action("tell", tell)
if moment in db.schemas:
    db.watch(moment, die, since=db.version)
with db.transaction() as tx:
    tx.insert("fact", [(1,), (2,)])
raise SystemExit("it should be dead")
"""


def killed(folder: Path, program: str, moment: str = "in the call") -> list[list[str]]:
    """Runs the child until it dies at this moment: in the function, or when it hears of a change to a relation. What
    the function wrote down."""
    told = folder.parent / "told"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_CHILD, str(folder), program, moment, str(told)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    return [line.rsplit(" ", 1) for line in told.read_text().splitlines()] if told.exists() else []


def test_a_call_that_the_process_did_not_live_to_make_is_made_once(tmp_path: Path) -> None:
    """Killed when the commit was on the disk and announced, before the call."""
    assert killed(tmp_path / "db", CALLING, "fact") == []
    calls: list[Any] = []
    with upshot.connect(tmp_path / "db") as db:
        assert db.rows("fact") == [(1,), (2,)]
        (waiting,) = db.pending()
        assert (waiting.rule, waiting.version, waiting.rows.sorted()) == ("gone", 2, [(1,), (2,)])
        db.action("tell", lambda rows, firing: calls.append((rows, firing.key)))
        assert db.pending() == ()
        db.action("tell", lambda rows, firing: calls.append((rows, firing.key)))
    assert calls == [([(1,), (2,)], waiting.key)]
    with upshot.connect(tmp_path / "db") as db:
        assert db.pending() == ()


def test_a_call_that_was_under_way_is_made_again_with_the_same_key(tmp_path: Path) -> None:
    """Whether the world has seen it nobody knows: at least once, and the key tells the world that it is the same."""
    ((_, key),) = killed(tmp_path / "db", CALLING)
    calls: list[Any] = []
    with upshot.connect(tmp_path / "db") as db:
        db.action("tell", lambda rows, firing: calls.append((rows, firing.key)))
    assert calls == [([(1,), (2,)], key)]


def test_the_call_is_still_made_when_its_rule_is_gone(tmp_path: Path) -> None:
    """What a commit promised stands, whatever becomes of the rule."""
    killed(tmp_path / "db", CALLING, "fact")
    calls: list[Any] = []
    with upshot.connect(tmp_path / "db") as db:
        db.drop("gone")
        db.action("tell", calls.extend)
        assert calls == [(1,), (2,)]
        assert db.pending() == ()


@pytest.mark.parametrize("moment", ["fact", "copy", "echo"])
def test_changes_after_a_commit_are_made_exactly_once(tmp_path: Path, moment: str) -> None:
    """Killed after the commit, after that of the first rule's change, or after that of the second's."""
    killed(tmp_path / "db", CHANGING, moment)
    with upshot.connect(tmp_path / "db") as db:
        for name in ("fact", "copy", "echo"):
            assert db.rows(name).sorted() == [(1,), (2,)]
        assert db.pending() == ()
        changed = [list(commit.changes) for commit in db.history(since=1)]
        assert changed == [["fact"], ["copy"], ["echo"]], "a commit each, and no other"
    with upshot.connect(tmp_path / "db") as db:
        assert db.version == 4


def test_a_change_after_a_commit_that_is_refused_waits_for_better_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(CHANGING + ".deny odd(X) :- copy(X), X % 2 = 1.")
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
        assert isinstance(tx.firings[0].error, upshot.ConstraintError)
        assert "odd" in caplog.text
    with upshot.connect(tmp_path / "db") as db:
        assert [firing.rule for firing in db.pending()] == ["copies"]
        db.define(".deny odd on_violation=warn")
        db.retry()
        assert db.pending() == ()
        assert db.rows("echo") == [(1,)]


def test_rules_and_their_activations_outlive_the_process(tmp_path: Path) -> None:
    program = """
    .decl stock(item: symbol, n: number) key(item)
    .decl order(item: symbol, n: number)
    .rule reorder(I, N) priority=3 when stock(I, Q), Q < 10, N = 10 - Q do insert order(I, N).
    .rule sleeping(I) active=false when stock(I, _) do insert order(I, 0).
    """
    with upshot.connect(tmp_path / "db") as db:
        db.define(program)
        db.activate("reorder", I="nail")
        with db.transaction() as tx:
            tx.insert("stock", [("nail", 20), ("screw", 20)])
        db.snapshot()
    for quantity in (5, 4):
        with upshot.connect(tmp_path / "db") as db:
            assert list(db.schemas) == ["stock", "order"]
            with db.transaction() as tx:
                tx.upsert("stock", [("nail", quantity), ("screw", quantity)])
            wanted = [("reorder", [("nail", 5)])] if quantity == 5 else []
            assert [(firing.rule, firing.rows.sorted()) for firing in tx.firings] == wanted
            db.verify()
    with upshot.connect(tmp_path / "db") as db:
        db.activate("reorder")
        db.activate("sleeping")
    with upshot.connect(tmp_path / "db") as db:
        with db.transaction() as tx:
            tx.upsert("stock", [("bolt", 1)])
        assert [firing.rule for firing in tx.firings] == ["reorder", "sleeping"]


def test_past_firings_are_not_kept_in_memory_and_nobody_pretends_they_are() -> None:
    heard: list[Any] = []
    with upshot.connect() as db:
        db.define(CHANGING)
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
        with pytest.raises(upshot.UsageError, match="firings since version 1") as caught:
            db.watch("copies", heard.append, since=1)
        assert caught.value.code == "history-not-kept"
        db.watch("copies", lambda event: heard.append((event.version, event.inserted.sorted())), since=db.version)
        with db.transaction() as tx:
            tx.insert("fact", [(2,)])
        assert heard == [(tx.version, [(2,)])]


def test_two_threads_commit_and_each_call_is_made_once(tmp_path: Path) -> None:
    calls: list[Any] = []
    failures: list[BaseException] = []

    def tell(rows: list[Any], firing: upshot.Firing) -> None:
        calls.extend((row[0], firing.key, firing.version) for row in rows)
        if rows[0][0] < 100:
            with db.transaction() as tx:
                tx.insert("fact", [(rows[0][0] + 100,)])

    def work(first: int) -> None:
        try:
            for number in range(first, first + 10):
                with db.transaction() as tx:
                    tx.insert("fact", [(number,)])
                mine = [call for call in calls if call[0] == number]
                assert mine == [(number, tx.firings[0].key, tx.version)], "before the block returned"
        except (AssertionError, upshot.Error) as error:
            failures.append(error)

    with upshot.connect(tmp_path / "db") as db:
        db.define(CALLING)
        db.action("tell", tell)
        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert failures == []
        assert db.pending() == ()
        assert sorted(call[0] for call in calls) == sorted(
            number + more for first in (0, 50) for number in range(first, first + 10) for more in (0, 100)
        )
        assert len({key for _, key, _ in calls}) == len(calls)
    with upshot.connect(tmp_path / "db") as db:
        assert db.pending() == ()


def test_threads_with_changes_after_their_commits_end_in_the_same_state() -> None:
    with upshot.connect() as db:
        db.define(CHANGING)

        def work(first: int) -> None:
            for number in range(first, first + 10):
                with db.transaction() as tx:
                    tx.insert("fact", [(number,)])

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert len(db.rows("echo")) == 20
        assert db.version == 1 + 3 * 20
        assert db.pending() == ()


def test_a_call_that_is_under_way_is_not_made_again_by_a_retry() -> None:
    """Neither by the function itself nor by another thread."""
    calls: list[Any] = []

    def tell(rows: list[Any]) -> None:
        calls.extend(rows)
        db.retry()
        other = threading.Thread(target=db.retry)
        other.start()
        other.join(timeout=60)

    with upshot.connect() as db:
        db.define(CALLING)
        db.action("tell", tell)
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
        db.retry()
        assert calls == [(1,)]


def test_keys_differ_between_databases_and_firings(tmp_path: Path) -> None:
    """A key names one firing in the whole world, not in this database only."""
    keys: list[str] = []
    for name in ("one", "two"):
        with upshot.connect(tmp_path / name) as db:
            db.define(CALLING)
            db.action("tell", lambda rows, firing: keys.append(firing.key))
            for number in (1, 2):
                with db.transaction() as tx:
                    tx.insert("fact", [(number,)])
    assert len(set(keys)) == 4


def test_the_identity_in_a_key_is_that_of_the_store(tmp_path: Path) -> None:
    keys: list[str] = []
    for number in (1, 2):
        with upshot.connect(tmp_path / "db") as db:
            if number == 1:
                db.define(CALLING)
            db.action("tell", lambda rows, firing: keys.append(firing.key))
            with db.transaction() as tx:
                tx.insert("fact", [(number,)])
    assert len(set(keys)) == 2
    assert len({key.split("-")[0] for key in keys}) == 1
    assert os.sep not in keys[0]


WAITING = """
.decl stock(i: symbol, n: number) key(i)
.decl threshold(i: symbol, n: number)
.decl low(i: symbol)
low(I) :- stock(I, N), threshold(I, T), N < T.
.decl quiet(i: symbol)
quiet(I) :- low(I).
.view quiet materialized=false events=none
.rule becoming(I) when low(I), !threshold(I, 0) do call tell(I).
.rule coming(I) on insert low(I) do call tell(I).
.rule hidden(I) on insert quiet(I) do call tell(I).
.rule moving(I, B) on update stock(I, _, I, B) do call tell(I, B).
.rule nervous(I) semantics=nervous when low(I) do call tell(I).
"""


def test_the_cause_of_a_call_in_the_outbox_is_found_after_reopening(tmp_path: Path) -> None:
    def fail(rows: Any) -> None:
        raise ConnectionError("away")

    with upshot.connect(tmp_path / "db") as db:
        db.define(WAITING)
        db.action("tell", fail)
        with db.transaction() as tx:
            tx.insert("threshold", [("nail", 10)])
            tx.insert("stock", [("nail", 50)])
        with db.transaction() as tx:
            tx.upsert("stock", [("nail", 5)])
        before = {firing.rule: firing.cause for firing in db.pending()}
        with db.transaction() as tx:
            tx.insert("stock", [("bolt", 1)])
    with upshot.connect(tmp_path / "db") as db:
        after = {firing.rule: firing.cause for firing in db.pending()}
        assert after == before
        assert set(after) == {"becoming", "coming", "hidden", "moving", "nervous"}
        assert after["coming"]["nail",].inserted == (("stock", ("nail", 5)),)
        heard: dict[str, Any] = {}

        def tell(rows: Any, firing: upshot.Firing) -> None:
            heard[firing.rule] = firing.cause

        db.action("tell", tell)
        assert heard == before, "the function that is called at last can read it"


def test_the_cause_is_not_kept_once_the_program_has_changed(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(CALLING)
        db.action("tell", lambda rows: 1 / 0)
        with db.transaction() as tx:
            tx.insert("fact", [(1,)])
        db.define(".decl other(x: number)")
    with upshot.connect(tmp_path / "db") as db:
        (firing,) = db.pending()
        with pytest.raises(upshot.UsageError) as caught:
            _ = firing.cause
        assert caught.value.code == "program-changed"
