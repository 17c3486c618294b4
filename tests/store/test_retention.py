"""How much of the past is kept, and for whom."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.store.faults import Disk
from tests.store.stores import PATHS, contents, small_is_large, state
from upshot.store import retention


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOOK", 2)
    monkeypatch.setattr(retention, "SLICE", 4)
    monkeypatch.setattr(retention, "FREE_PAGES", 4)
    monkeypatch.setattr(retention, "SHRUNK_PAGES", 2)


def commit(db: upshot.Database, count: int = 1, rows: int = 1, **meta: Any) -> None:
    for _ in range(count):
        start = 1_000 * db.version
        with db.transaction(meta=meta or None) as tx:
            tx.insert("edge", [(start + 2 * i, start + 2 * i + 1) for i in range(rows)])


def versions(db: upshot.Database) -> list[int]:
    oldest = db._state.journal.store.oldest
    return [past.version for past in db.history(since=oldest)]


def opened(root: Path, keep: Any) -> upshot.Database:
    db = upshot.connect(root, keep=keep)
    if not db.version:
        db.define(PATHS)
    return db


def test_what_is_older_than_the_bound_goes_as_commits_come_once_a_snapshot_has_it(root: Path) -> None:
    with opened(root, 5) as db:
        commit(db, 20)
        assert versions(db) == list(range(1, 22)), "opening the store needs all of them"
        db.snapshot()
        commit(db, 30)
        assert versions(db)[0] == 22, "what came after the snapshot is needed"
        db.snapshot()
        commit(db, 20)
        found, after = versions(db), contents(db)
        assert (found[0], found[-1]) == (52, 71)
        with pytest.raises(upshot.UsageError) as caught:
            db.history(since=10)
        assert caught.value.code == "history-not-kept"
        events: list[Any] = []
        with pytest.raises(upshot.UsageError, match="since 51"):
            db.watch("edge", events.append, since=20)
        db.watch("edge", events.append, since=60)
        assert [event.version for event in events] == list(range(61, 72))
    with opened(root, 5) as db:
        assert (contents(db), versions(db)) == (after, found)
        db.verify()


def test_compacting_writes_the_snapshot_that_is_missing_and_drops_all_that_may_go(root: Path) -> None:
    with opened(root, 5) as db:
        commit(db, 40)
        assert db.compact() == upshot.database.durable.retention.Compacted(oldest=36, dropped=36)
        assert versions(db) == [37, 38, 39, 40, 41]
        assert db.compact().dropped == 0
        before = state(db)
    with opened(root, 3) as db:
        assert state(db) == before
        db.compact()
        assert versions(db) == [39, 40, 41]
        commit(db)
        assert db.version == 42


def test_the_last_commit_stays_and_so_does_the_program_it_rests_on(root: Path) -> None:
    with opened(root, 1) as db:
        db.define(".decl far(x: number, y: number)\nfar(X, Y) :- path(X, Y), !edge(X, Y).")
        commit(db, 10)
        db.compact()
        assert versions(db) == [12]
        assert next(db.history(since=11)).changes["edge"]
        before = state(db)
    with opened(root, 1) as db:
        assert state(db) == before
        assert next(db.history(since=11)).changes["path"]
        events: list[Any] = []
        db.watch("far", events.append, since=11)
        db.define("far(X, Y) :- edge(Y, X).")
        assert [event.version for event in events] == [13]


def test_the_notes_of_the_newest_commit_that_has_some_outlive_it(root: Path) -> None:
    with opened(root, 2) as db:
        commit(db, 1, position=7)
        commit(db, 20)
        db.compact()
        assert versions(db) == [21, 22]
        assert db.last_meta() == {"position": 7}
    with opened(root, 2) as db:
        assert db.last_meta() == {"position": 7}
        commit(db, 1, position=8)
        assert db.last_meta() == {"position": 8}


def test_bytes_and_age_are_bounds_too(root: Path, tmp_path: Path) -> None:
    with opened(root, {"bytes": 20_000}) as db:
        commit(db, 30, rows=50)
        db.compact()
        assert 3 < len(versions(db)) < 20
    with opened(tmp_path / "other", {"age": dt.timedelta(days=1)}) as db:
        commit(db, 10)
        db.compact()
        assert len(versions(db)) == 11
    with opened(tmp_path / "other", {"age": dt.timedelta(microseconds=1)}) as db:
        db.compact()
        assert len(versions(db)) == 1
    with opened(tmp_path / "third", "all") as db:
        commit(db, 10)
        assert db.compact().dropped == 0


@pytest.mark.parametrize("keep", [0, True, "some", {"comits": 3}, {"age": 3}, {"bytes": "many"}])
def test_a_bound_that_is_none_is_refused(keep: Any, root: Path) -> None:
    with pytest.raises(upshot.UsageError) as caught:
        upshot.connect(root, keep=keep)
    assert caught.value.code == "wrong-argument"
    assert not root.exists()
    with pytest.raises(upshot.UsageError, match="in a folder"):
        upshot.connect(keep=5)


# ---- cursors ----------------------------------------------------------------------------------------


def test_what_a_cursor_needs_is_kept_until_it_has_read_it(root: Path) -> None:
    with opened(root, 5) as db:
        commit(db, 10)
        db.cursors.set("reader", 8)
        db.cursors.set("other", 10)
        commit(db, 10)
        db.compact()
        assert versions(db)[0] == 9
    with opened(root, 5) as db:
        assert db.cursors.all() == {"other": 10, "reader": 8}
        db.cursors.set_all({"reader": 19, "other": None})
        db.compact()
        assert (versions(db)[0], db.cursors.all()) == (17, {"reader": 19})
        db.cursors.remove("reader")
        assert db.cursors.all() == {}


def test_a_cursor_too_far_behind_is_overruled_and_told(root: Path) -> None:
    with opened(root, 5) as db:
        commit(db, 10)
        db.cursors.set("reader", 5)
        commit(db, 40)
        db.compact()
        assert len(versions(db)) == 5, "one that is overruled holds nothing any more"
        with pytest.raises(upshot.UsageError) as caught:
            db.watch("edge", print, since=db.cursors.all()["reader"])
        assert caught.value.code == "history-not-kept"
        for version in (5, db.version + 1):
            with pytest.raises(upshot.UsageError, match="reader") as caught:
                db.cursors.set("reader", version)
            assert caught.value.code == "history-not-kept"
        db.cursors.set("reader", db.version)


def test_a_database_in_memory_has_no_past_to_keep() -> None:
    with upshot.connect() as db:
        for act in (db.compact, lambda: db.cursors.set("a", 0), lambda: db.cursors.all()):
            with pytest.raises(upshot.UsageError) as caught:
                act()
            assert caught.value.code == "not-durable"


# ---- readers of what goes ---------------------------------------------------------------------------


def test_one_who_reads_the_past_while_it_goes_is_told_and_never_given_a_gap(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upshot.store.log._PAGE", 3)
    with opened(root, 5) as db:
        commit(db, 20)
        past = db.history(since=1)
        first = next(past)
        events = db.past_events("edge", 1, db.version)
        next(events)
        db.compact()
        for reader in (past, events):
            read: list[int] = []
            with pytest.raises(upshot.UsageError) as caught:
                read.extend(each.version for each in reader)
            assert caught.value.code == "history-not-kept"
        with pytest.raises(upshot.UsageError) as caught:
            _ = first.changes
        assert caught.value.code == "history-not-kept"


def test_folders_of_what_goes_go_too_but_not_those_the_engine_was_opened_with(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folders() -> set[str]:
        return {each.name for each in (root / "deltas").iterdir()}

    with small_is_large(monkeypatch, 3):
        with opened(root, 3) as db:
            commit(db, 6, rows=5)
        with opened(root, 3) as db:
            commit(db, 6, rows=5)
            late = next(db.history(since=9)).changes["edge"].inserted
            db.compact()
            assert versions(db) == [11, 12, 13]
            assert folders() == {f"v{i:06}" for i in (*range(2, 8), 11, 12, 13)}
            with pytest.raises(upshot.UsageError) as caught:
                list(late)
            assert caught.value.code == "history-not-kept"
            before = state(db)
        with opened(root, 3) as db:
            assert state(db) == before
            assert folders() == {f"v{i:06}" for i in (11, 12, 13)}


def test_a_log_that_lost_much_becomes_a_smaller_file(root: Path) -> None:
    with opened(root, "all") as db:
        commit(db, 150, rows=20)
    size = (root / "log.sqlite").stat().st_size
    with opened(root, 3) as db:
        db.compact()
    assert (root / "log.sqlite").stat().st_size < size / 2


# ---- writes that fail -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["not done", "done but not said"])
def test_a_write_that_fails_while_the_past_goes_harms_nothing(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tmp_path / "start"
    with small_is_large(monkeypatch, 3):
        with opened(start, "all") as db:
            commit(db, 6, rows=2)
            commit(db, 3, rows=5)
        for number in _numbers():
            if not _fails_and_goes_on(shutil.copytree(start, tmp_path / str(number)), number, late):
                break
    assert number > 10


def _numbers() -> Iterator[int]:
    yield from range(1, 200)


def _fails_and_goes_on(root: Path, number: int, late: bool) -> bool:
    with pytest.MonkeyPatch.context() as patch, opened(root, 2) as db:
        before, disk, found, caught = state(db), Disk(db, patch), versions(db), []
        with disk.failing_at(number, late=late):
            try:
                db.compact()
            except upshot.EngineError as error:
                caught.append(error.code)
        assert set(caught) <= {"store-failed"}
        reached = len(disk.writes) >= number
        now = versions(db)
        assert state(db) == before
        assert now == found[-len(now) :]
        db.verify()
        with upshot.connect(_copied(root, root.parent / f"{number} ended")) as ended:
            assert state(ended) == before
            assert versions(ended) == now
        commit(db)
        db.compact()
        assert versions(db) == [db.version - 1, db.version]
        after = state(db)
    with opened(root, 2) as db:
        assert state(db) == after
    return reached


def _copied(root: Path, target: Path) -> Path:
    return shutil.copytree(root, target, ignore=lambda folder, names: [name for name in names if name == "lock"])
