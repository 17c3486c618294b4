"""A store whose disk, folder or files cannot be written: before it is opened, while it is open, in every write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from tests.store import immutable as immutability
from tests.store import read_only
from tests.store.immutable import immutable
from tests.store.stores import PATHS, small_is_large, state
from tests.store.test_full_disk import NAMESPACE, _missing

needs_immutable = pytest.mark.skipif(bool(immutability.missing()), reason=immutability.missing())


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
        image = shutil.copytree(root, tmp_path / "image", ignore=lambda _, names: {"lock"} & set(names))
        with upshot.connect(image) as copy:
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
