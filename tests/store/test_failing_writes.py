"""Every write of a store can fail, and the process can end before every one of them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from tests.store.faults import Disk
from tests.store.stores import PATHS, small_is_large, state
from upshot.engine.local import LocalEngine

Action = Callable[[upshot.Database], object]


def small(db: upshot.Database) -> None:
    with db.transaction(meta={"batch": 1}) as tx:
        tx.insert("edge", [(7, 8)])
        tx.delete("edge", [(1, 2)])


def large(db: upshot.Database) -> None:
    with db.transaction() as tx:
        tx.replace("edge", [(i, i + 1) for i in range(20, 25)])


def definition(db: upshot.Database) -> None:
    db.define(".decl far(x: number, y: number)\nfar(X, Y) :- path(X, Y), !edge(X, Y).\nedge(40, 41).\nedge(41, 42).")


def snapshot(db: upshot.Database) -> None:
    db.snapshot()


def group(db: upshot.Database) -> None:
    with db.group() as group:
        with group.transaction(meta={"batch": 2}) as tx:
            tx.insert("edge", [(7, 8)])
        with group.transaction() as tx:
            tx.replace("edge", [(i, i + 1) for i in range(20, 30)])
        with group.transaction() as tx:
            tx.delete("edge", [(20, 21)])


ACTIONS: dict[str, Action] = {
    "small": small,
    "large": large,
    "group": group,
    "definition": definition,
    "snapshot": snapshot,
}


def made(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        with db.transaction() as tx:
            tx.insert("edge", [(i, i + 1) for i in range(1, 5)])
        db.snapshot()
        with db.transaction() as tx:
            tx.insert("edge", [(10, 11)])


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["not done", "done but not said"])
@pytest.mark.parametrize("name", ACTIONS)
def test_a_write_that_fails_changes_nothing_and_the_next_one_works(
    name: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "start")
    act = ACTIONS[name]
    number, failed = 0, True
    with small_is_large(monkeypatch, 8):
        while failed:
            number += 1
            failed = _fails_and_goes_on(act, number, late, tmp_path)
    assert number > 5


def _fails_and_goes_on(act: Action, number: int, late: bool, tmp_path: Path) -> bool:
    """Whether there is a write of this number at all."""
    root = shutil.copytree(tmp_path / "start", tmp_path / str(number))
    with pytest.MonkeyPatch.context() as patch, upshot.connect(root) as db:
        before, events = state(db), []
        db.watch("path", events.append, since=db.version)
        disk = Disk(db, patch)
        with disk.failing_at(number, late=late):
            try:
                act(db)
            except upshot.EngineError as error:
                caught = error
            else:
                # A snapshot is made when its record is; that old ones cannot be removed is only logged.
                assert len(disk.writes) < number or act is snapshot
                return len(disk.writes) >= number
        assert caught.code == "store-failed", disk.writes[number - 1]
        assert (state(db), events) == (before, [])
        # What is on the disk now, should the process end here.
        with upshot.connect(shutil.copytree(root, tmp_path / f"{number} ended", ignore=_locks)) as ended:
            assert state(ended) == before
        act(db)
        after = state(db)
        assert [event.version for event in events] == list(range(before[0] + 1, after[0] + 1))
    with upshot.connect(root) as db:
        assert state(db) == after
    return True


def _locks(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "lock"]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_process_that_ends_before_any_write_leaves_the_state_before_or_after(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    made(root)
    images: list[Path] = []

    def keep(what: str) -> None:
        images.append(shutil.copytree(root, tmp_path / f"image {len(images)}", ignore=_locks))

    with small_is_large(monkeypatch, 8), pytest.MonkeyPatch.context() as patch, upshot.connect(root) as db:
        before = state(db)
        disk = Disk(db, patch)
        disk.before = keep
        ACTIONS[name](db)
        disk.before = lambda what: None
        keep("the end")
        after = state(db)
    found = []
    for image in images:
        with upshot.connect(image) as db:
            found.append(state(db))
            left = {path.name for path in (image / "deltas").glob("*")} if (image / "deltas").exists() else set()
            versions = range(before[0] + 1, after[0] + 1)
            assert left <= ({f"v{version:06}" for version in versions} if found[-1] == after else set())
    # First nothing happened, then, from one moment on, everything.
    turn = found.index(after)
    assert found == [before] * turn + [after] * (len(found) - turn)
    assert len(images) > 5


def test_a_log_cut_off_anywhere_holds_a_whole_number_of_commits(tmp_path: Path) -> None:
    root = tmp_path / "store"
    made(root)
    with upshot.connect(root) as db:
        states = [state(db)]
        sizes = [0]
        marks = [(root / "acknowledged").read_bytes()]
        for number in range(4):
            with db.transaction() as tx:
                tx.insert("edge", [(50 + number, 51 + number)])
            states.append(state(db))
            sizes.append((root / "log.sqlite-wal").stat().st_size)
            marks.append((root / "acknowledged").read_bytes())
        shutil.copytree(root, tmp_path / "image", ignore=_locks)
    for size in range(0, sizes[-1] + 1, 2_531):
        image = shutil.copytree(tmp_path / "image", tmp_path / str(size))
        (image / "log.sqlite-shm").unlink()
        os.truncate(image / "log.sqlite-wal", size)
        whole = sum(size >= each for each in sizes) - 1
        if whole < 4:
            with pytest.raises(upshot.EngineError, match=f"version.* {states[-1][0]} w.* committed"):
                upshot.connect(image)
        # The commits beyond were not acknowledged when the log was cut off.
        (image / "acknowledged").write_bytes(marks[whole])
        with upshot.connect(image) as db:
            assert state(db) == states[whole]


def test_a_full_disk_is_told_by_sqlite_itself_and_room_made_is_room_used(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number, s: symbol)")
        connection = db._state.journal.store.log._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages + 2}")
        rows = [(i, random.Random(i).randbytes(100).hex()) for i in range(300)]
        for _ in range(3):
            with pytest.raises(upshot.EngineError, match="full") as caught, db.transaction() as tx:
                tx.insert("r", rows)
            assert caught.value.code == "store-failed"
            assert (db.version, len(db.rows("r"))) == (1, 0)
        connection.execute("PRAGMA max_page_count=1000000")
        with db.transaction() as tx:
            tx.insert("r", rows)
    with upshot.connect(root) as db:
        assert (db.version, len(db.rows("r"))) == (2, 300)


def test_a_commit_that_the_engine_cannot_accept_is_taken_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short_of_memory(self: LocalEngine) -> None:
        raise upshot.EngineError("out of memory", code="out-of-memory")

    made(root)
    with small_is_large(monkeypatch, 8), upshot.connect(root) as db:
        before = state(db)
        with monkeypatch.context() as patch:
            patch.setattr(LocalEngine, "accept", short_of_memory)
            with pytest.raises(upshot.EngineError, match="out of memory"):
                large(db)
        assert state(db) == before
        assert not list((root / "deltas").iterdir())
        assert [c.version for c in db.history()] == [1, 2, 3]
        large(db)
        after = state(db)
    with upshot.connect(root) as db:
        assert state(db) == after


def test_a_commit_that_could_not_be_taken_back_is_taken_back_before_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The record is on the disk, and neither the engine nor the disk goes along."""
    made(root)

    def broken(self: LocalEngine) -> None:
        disk.fail_at = len(disk.writes) + 1
        raise upshot.EngineError("out of memory", code="out-of-memory")

    with upshot.connect(root) as db, pytest.MonkeyPatch.context() as faults:
        disk, before = Disk(db, faults), state(db)
        with monkeypatch.context() as patch:
            patch.setattr(LocalEngine, "accept", broken)
            with pytest.raises(upshot.EngineError, match="out of memory"):
                small(db)
        assert "not yet removed" in caplog.text
        assert state(db) == before
        large(db)
        after = state(db)
        assert after[0] == before[0] + 1
    with upshot.connect(root) as db:
        assert state(db) == after
        assert next(db.history(since=before[0])).meta == {}
        db.verify()
