"""A store whose disk, folder or files cannot be written: before it is opened, while it is open, in every write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import upshot
from tests.store import immutable as immutability
from tests.store import read_only
from tests.store.faults import Disk
from tests.store.immutable import immutable
from tests.store.stores import PATHS, small_is_large, state
from tests.store.test_failing_writes import ACTIONS, made
from tests.store.test_full_disk import NAMESPACE, _missing

needs_immutable = pytest.mark.skipif(bool(immutability.missing()), reason=immutability.missing())


@pytest.mark.slow
@pytest.mark.skipif(bool(_missing()), reason=_missing())
def test_a_store_that_is_read_only_somewhere_refuses_by_name_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    command = [*NAMESPACE, sys.executable, read_only.__file__, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4_000:]
    seen = json.loads(ended.stdout)
    for place in ("disk", "store", "acknowledged", "lock", "log.sqlite"):
        assert seen[f"{place}: opening: failed"] == 1, seen
    for place in ("log.sqlite", "log.sqlite-wal", "log.sqlite-shm", "acknowledged", "store"):
        assert seen[f"killed, {place}: opening: failed"] == 1, seen
    for what in ("deltas, large", "snapshots, snapshot", "open, store, large", "open, store, snapshot"):
        assert seen[f"{what}: failed"] == 1, seen
    for what in ("deltas, small", "snapshots, large", "deltas/newest, large"):
        assert seen[f"{what}: done"] == 1, seen
    writes = ("small", "large", "definition", "snapshot", "compact", "record", "cursor", "backup")
    assert {seen[f"writable again, {what}: done"] for what in writes} == {5}, seen


def insert(db: upshot.Database, count: int) -> None:
    with db.transaction() as tx:
        tx.insert("edge", [(1_000 * db.version + i, -1) for i in range(count)])


def failure_of(act: Callable[[], object]) -> upshot.EngineError | None:
    try:
        act()
    except upshot.EngineError as error:
        return error
    return None


ACTS: dict[str, Callable[[upshot.Database], object]] = {
    "small": lambda db: insert(db, 1),
    "large": lambda db: insert(db, 9),
    "definition": lambda db: db.define(f".decl new{db.version}(x: number)"),
    "snapshot": lambda db: db.snapshot(),
    "record": lambda db: db.records("note").put("a", {"version": db.version}),
    "cursor": lambda db: db.cursors.set_all({"somebody": db.version}),
}


@needs_immutable
@pytest.mark.parametrize("name", [".", "acknowledged", "lock", "log.sqlite", "log.sqlite-wal", "deltas", "snapshots"])
def test_a_file_that_becomes_read_only_under_an_open_store_fails_writes_by_name_and_loses_nothing(
    name: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_is_large(monkeypatch, 5), upshot.connect(root) as db:
        db.define(PATHS)
        insert(db, 9)
        db.snapshot()
        insert(db, 1)
        failed = set()
        with immutable(root / name):
            for what, act in ACTS.items():
                before, events = state(db), []
                db.watch("edge", events.append, since=db.version)
                error = failure_of(lambda: act(db))  # noqa: B023 - called here
                if error is not None:
                    assert (error.code, state(db), events) == ("store-failed", before, [])
                    assert str(root) in error.message
                    assert "can be written" in error.help
                    failed.add(what)
            before = state(db)
        with upshot.connect(_image(root, tmp_path / "image")) as copy:
            assert state(copy) == before
        for act in ACTS.values():
            act(db)
        after = state(db)
    with upshot.connect(root) as db:
        assert state(db) == after
        db.verify()
    expected = {"deltas": {"large"}, "snapshots": {"snapshot"}, ".": set(ACTS), "log.sqlite-wal": set(ACTS)}
    assert failed == expected.get(name, set())


@needs_immutable
def test_a_store_whose_files_are_read_only_is_refused_and_opens_when_they_are_not(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        insert(db, 9)
        before = state(db)
    for place in (root, *sorted(root.iterdir())):
        with immutable(place):
            error = failure_of(lambda: upshot.connect(root).close())
            assert error is None or (error.code, str(root) in error.message) == ("store-failed", True)
        with upshot.connect(root) as db:
            assert state(db) == before


@needs_immutable
@pytest.mark.slow
@pytest.mark.parametrize("name", [*ACTIONS, "compact"])
def test_a_disk_that_becomes_read_only_in_the_middle_of_a_write_leaves_all_of_it_or_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "start")
    act = ACTIONS.get(name, lambda db: db.compact())
    with small_is_large(monkeypatch, 8):
        number = 1
        while _becomes_read_only(act, number, tmp_path):
            number += 1
    assert number > 2


def _becomes_read_only(act: Callable[[upshot.Database], object], number: int, tmp_path: Path) -> bool:
    """Whether there is a write of this number at all."""
    root = shutil.copytree(tmp_path / "start", tmp_path / str(number))
    with pytest.MonkeyPatch.context() as patch, upshot.connect(root, keep=1) as db:
        before, disk = state(db), Disk(db, patch)
        with ExitStack() as stack:
            disk.before = lambda _: len(disk.writes) + 1 == number and stack.enter_context(immutable(root))
            error = failure_of(lambda: act(db))
            found, count = state(db), len(disk.writes)
            assert error is None or (error.code, found) == ("store-failed", before)
        disk.before = lambda _: None
        with upshot.connect(_image(root, tmp_path / f"{number} image")) as ended:
            assert state(ended) == found
        if error is not None:
            act(db)
        after = state(db)
    with upshot.connect(root) as db:
        assert state(db) == after
        db.verify()
    return count >= number


def _image(root: Path, target: Path) -> Path:
    return shutil.copytree(root, target, ignore=lambda _, names: {"lock"} & set(names))


@needs_immutable
@pytest.mark.slow
def test_a_back_up_whose_disk_becomes_read_only_in_the_middle_is_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_is_large(monkeypatch, 3):
        made(root)
    with upshot.connect(root) as db, pytest.MonkeyPatch.context() as patch:
        before, disk = state(db), Disk(db, patch)
        number, count = 0, 1
        while count >= number:
            number, disk.writes[:] = number + 1, []
            target = tmp_path / "copies" / str(number)
            target.mkdir(parents=True)
            with ExitStack() as stack:
                disk.before = lambda _: len(disk.writes) + 1 == number and stack.enter_context(immutable(target))  # noqa: B023
                error = failure_of(lambda: db.backup(target))  # noqa: B023
                count = len(disk.writes)
            disk.before = lambda _: None
            if error is None:
                with upshot.connect(target) as copy:
                    assert state(copy) == before
                continue
            assert (error.code, str(target) in error.message) == ("store-failed", True)
            if any(target.iterdir()):
                with pytest.raises(upshot.Error) as caught:
                    upshot.connect(target)
                assert caught.value.code == "backup-unfinished"
        assert number > 5
        assert state(db) == before
