"""What a durable database tells of its past: history, what a watcher missed, what committers left with commits."""

from __future__ import annotations

import datetime as dt
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.store.stores import PATHS, small_is_large


def grow(db: upshot.Database, *steps: int) -> None:
    for step in steps:
        with db.transaction() as tx:
            tx.insert("edge", [(step, step + 1)])


def heard(events: list[upshot.Event]) -> list[tuple[int, bool, list[Any], list[Any]]]:
    return [(e.version, e.snapshot, e.inserted.sorted(), e.deleted.sorted()) for e in events]


def test_history_tells_every_commit_with_its_time_meta_program_and_changes(root: Path) -> None:
    began = dt.datetime.now(dt.UTC)
    with upshot.connect(root) as db:
        db.define(PATHS)
        with db.transaction(meta={"source": "import", "offset": {"file": [1, 2.5, None, "ü"]}}) as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
    with upshot.connect(root) as db:
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
        first, second, third = db.history()
        assert [c.version for c in (first, second, third)] == [1, 2, 3]
        assert began <= first.time <= second.time <= third.time <= dt.datetime.now(dt.UTC)
        assert first.program is not None
        assert "path(X, Z) :- path(X, Y), edge(Y, Z)." in first.program
        assert (second.program, third.program) == (None, None)
        assert second.meta == {"source": "import", "offset": {"file": [1, 2.5, None, "ü"]}}
        assert (first.meta, third.meta) == ({}, {})
        assert list(third.changes) == ["edge", "out", "path"]
        assert third.changes["path"].deleted == {(1, 2), (1, 3)}
        assert third.changes["any"].inserted == []
        with pytest.raises(upshot.UsageError, match="unknown relation `edje`"):
            third.changes["edje"]
        assert [c.version for c in db.history(since=1, reverse=True)] == [3, 2]
        assert list(db.history(since=3)) == []
        for wrong in (4, -1):
            with pytest.raises(upshot.UsageError) as caught:
                db.history(since=wrong)
            assert caught.value.code == "history-not-kept"
            assert ("there is no version 4 yet" in caught.value.message) == (wrong == 4)


def test_history_of_many_commits_is_read_in_pages_in_either_direction(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number)")
        for number in range(600):
            with db.transaction() as tx:
                tx.insert("r", [(number,)])
        assert [c.version for c in db.history()] == list(range(1, 602))
        assert [c.version for c in db.history(since=5, reverse=True)] == list(range(601, 5, -1))
        events: list[upshot.Event] = []
        db.watch("r", events.append, since=300)
        assert [event.version for event in events] == list(range(301, 602))


def test_rows_of_the_past_stay_readable_and_what_was_not_asked_for_is_gone_with_the_database(root: Path) -> None:
    db = upshot.connect(root)
    db.define(PATHS)
    grow(db, 1)
    first, second = db.history()
    inserted = second.changes["path"].inserted
    db.close()
    assert inserted == {(1, 2)}
    with pytest.raises(upshot.Error) as caught:
        _ = first.changes
    assert caught.value.code == "closed"


def test_a_transaction_with_meta_makes_a_version_even_if_nothing_changes(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        assert db.last_meta() is None
        with db.transaction(meta={"batch": 7}) as tx:
            tx.delete("edge", [(1, 2)])
        assert (tx.version, len(tx.changes)) == (2, 0)
        with db.transaction(meta={}) as tx:
            pass
        assert tx.version == 2
        db.define(".decl more(x: number)")
    with upshot.connect(root) as db:
        assert db.version == 3
        assert db.last_meta() == {"batch": 7}


@pytest.mark.parametrize("meta", [[1], "text", {1: 2}, {"a": object()}, {"a": float("nan")}])
def test_meta_that_is_not_json_is_refused_before_the_transaction(meta: Any) -> None:
    with upshot.connect() as db, pytest.raises(upshot.UsageError) as caught:
        db.transaction(meta=meta)
    assert caught.value.code == "wrong-argument"


def test_a_database_in_memory_has_no_past(root: Path) -> None:
    with upshot.connect() as db:
        db.define(PATHS)
        with db.transaction(meta={"kept": "nowhere"}) as tx:
            tx.insert("edge", [(1, 2)])
        assert db.last_meta() is None
        for call in (db.history, db.snapshot):
            with pytest.raises(upshot.UsageError) as caught:
                call()
            assert caught.value.code == "not-durable"


@pytest.mark.parametrize("rows", [0, 4096])
def test_a_watcher_that_comes_back_hears_what_it_missed_then_what_comes(
    rows: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live: list[upshot.Event] = []
    late: list[upshot.Event] = []
    with small_is_large(monkeypatch, rows):
        with upshot.connect(root) as db:
            db.define(PATHS)
            db.watch("path", live.append)
            grow(db, 1, 2)
            db.snapshot()
            with db.transaction() as tx:
                tx.delete("edge", [(1, 2)])
            seen = heard(live)
        with upshot.connect(root) as db:
            db.watch("path", late.append, since=2)
            assert heard(late) == seen[2:]
            grow(db, 3)
            assert heard(late)[-1] == (5, False, [(2, 4), (3, 4)], [])
            for wrong in (6, -1):
                with pytest.raises(upshot.UsageError) as caught:
                    db.watch("path", late.append, since=wrong)
                assert caught.value.code == "history-not-kept"
            db.watch("path", late.append, since=5)
            assert len(late) == 3


def test_other_columns_come_as_a_snapshot_to_those_who_were_away(root: Path) -> None:
    live: list[upshot.Event] = []
    late: list[upshot.Event] = []
    with upshot.connect(root) as db:
        db.define(PATHS)
        grow(db, 1)
        db.watch("out", live.append, since=db.version)
        db.define(".decl out(x: number)\nout(X) :- edge(X, _).")
        grow(db, 2)
        db.watch("out", late.append, since=2)
        assert heard(late) == heard(live)
        assert [event.snapshot for event in late] == [True, False]
        for event in late:
            assert event.inserted.columns == ("x",)


def test_a_view_that_was_dropped_and_made_anew_comes_as_a_snapshot(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number)\n.decl v(x: number)\nv(X) :- r(X).\nr(1).\nr(2).")
        db.drop("v")
        db.define(".decl w(x: number)\nw(X) :- r(X), X > 5.")
        db.define(".decl v(x: number)\nv(X) :- r(X), X > 1.")
        events: list[upshot.Event] = []
        db.watch("v", events.append, since=1)
        assert heard(events) == [(4, True, [(2,)], [])]
        db.watch("v", events.append, since=0)
        assert heard(events)[1:] == [(1, False, [(1,), (2,)], []), (4, True, [(2,)], [])]
    with upshot.connect(root) as db:
        assert db.rows("v") == {(2,)}


def test_watchers_that_come_while_others_commit_miss_nothing_and_hear_nothing_twice(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number)")

        def commit() -> None:
            for number in range(150):
                with db.transaction() as tx:
                    tx.insert("r", [(number,)])

        writer = threading.Thread(target=commit)
        writer.start()
        logs: list[list[upshot.Event]] = [[] for _ in range(20)]
        for events in logs:
            db.watch("r", events.append, since=1)
            time.sleep(0.005)
        writer.join()
        for events in logs:
            assert [event.version for event in events] == list(range(2, 152))


def test_a_past_that_cannot_be_read_ends_the_subscription(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        grow(db, 1, 2)
        db._state.journal.store.log._connection.execute("UPDATE changes SET crc = 0 WHERE version = 3")
        events: list[upshot.Event] = []
        subscription = db.watch("path", events.append, since=1)
        assert [event.version for event in events] in ([], [2])
        assert not subscription.active
        assert [error.code for error in subscription.errors] == ["store-damaged"]
        grow(db, 3)
        assert len(events) <= 1
