"""A copy of a store, made while commits go on."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from tests.properties.settings import base_seed, case_count
from tests.store.stores import PATHS, contents, files, small_is_large, state
from upshot.cli.app import main
from upshot.store import retention


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copies" / "one"


def filled(root: Path, monkeypatch: pytest.MonkeyPatch) -> upshot.Database:
    """With a snapshot, commits in the log and commits in folders, records and cursors."""
    with small_is_large(monkeypatch, 3):
        db = upshot.connect(root)
        db.define(PATHS)
        for start in (0, 10, 20):
            with db.transaction(meta={"start": start}) as tx:
                tx.insert("edge", [(start + i, start + i + 1) for i in range(5)])
            if start == 10:
                db.snapshot()
    with db.transaction() as tx:
        tx.insert("edge", [(90, 91)])
    db.records("kind").put("a", {"n": 1})
    db.cursors.set("reader", 2)
    return db


def test_a_copy_holds_what_the_store_holds_and_goes_its_own_way(
    root: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(root, monkeypatch) as db:
        before = state(db)
        assert db.backup(target) == db.version
        with db.transaction() as tx:
            tx.insert("edge", [(70, 71)])
        with upshot.connect(target) as copy:
            assert state(copy) == before
            assert [past.meta.get("start") for past in copy.history()] == [None, 0, 10, 20, None]
            assert next(copy.history(since=1)).changes["path"].inserted.sorted()[0] == (0, 1)
            assert (copy.records("kind").all(), copy.cursors.all()) == ({"a": {"n": 1}}, {"reader": 2})
            copy.verify()
            with copy.transaction() as tx:
                tx.insert("edge", [(80, 81)])
        assert (80, 81) not in set(db.rows("edge"))


def test_a_place_that_is_not_empty_is_refused_and_stays_as_it_is(
    root: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.mkdir(parents=True)
    (target / "photo.jpg").write_bytes(b"...")
    with filled(root, monkeypatch) as db:
        for place in (target, target / "photo.jpg", root, root / "copy"):
            with pytest.raises(upshot.UsageError) as caught:
                db.backup(place)
            assert caught.value.code == "target-not-empty"
        assert files(target) == {"photo.jpg": b"..."}
        (target / "photo.jpg").unlink()
        db.backup(target)
    with upshot.connect() as db, pytest.raises(upshot.UsageError) as caught:
        db.backup(target)
    assert caught.value.code == "not-durable"


def test_a_store_that_another_process_has_open_is_copied_by_the_command(
    root: Path, target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with filled(root, monkeypatch) as db:
        before = state(db)
        assert main(["backup", str(root), str(target)]) == 0
    assert main(["backup", str(root), str(target)]) == 2
    assert main(["backup", str(root), str(target.parent / "two"), "--format", "json"]) == 0
    assert main(["verify", str(target)]) == 0
    printed = capsys.readouterr()
    assert (target.parent / "two" / "log.sqlite").exists()
    assert "ok: copied version 5 to" in printed.out
    assert "equal their recomputation" in printed.out
    assert "target-not-empty" in printed.err
    for place in (target, target.parent / "two"):
        with upshot.connect(place) as copy:
            assert state(copy) == before
    assert main(["backup", str(root / "nothing"), str(target.parent / "three")]) == 2
    assert main(["verify", str(target), "-F", str(root)]) == 2


def test_commits_go_on_while_a_copy_is_made_and_the_copy_is_of_one_of_them(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit moves one unit from one account to another: the total is the same in every copy."""
    monkeypatch.setattr(retention, "LOOK", 4)
    stop = threading.Event()
    with small_is_large(monkeypatch, 6), upshot.connect(root, keep=20) as db:
        db.define(".decl part(n: number, v: number)\n.decl total(s: number)\ntotal(S) :- S = sum V : { part(_, V) }.")

        def write() -> None:
            while not stop.is_set():
                with db.transaction() as tx:
                    n = db.version
                    tx.replace("part", [(i, 1 if i != n % 9 else 2) for i in range(9)])
                if db.version % 15 == 0:
                    db.snapshot()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            found = [10]
            for number in range(8):
                while db.version <= found[-1]:
                    assert thread.is_alive()
                    time.sleep(0.01)
                found.append(db.backup(tmp_path / f"copy {number}"))
            del found[0]
            while db.version <= found[-1]:
                assert thread.is_alive()
                time.sleep(0.01)
        finally:
            stop.set()
            thread.join()
        assert found == sorted(set(found))
    for number, version in enumerate(found):
        with upshot.connect(tmp_path / f"copy {number}", keep="all") as copy:
            assert (copy.version, list(copy.rows("total"))) == (version, [(10,)])
            copy.verify()
            oldest = copy._state.journal.store.oldest
            assert all(past.changes["part"] for past in copy.history(since=oldest) if past.version > 1)


# ---- copies that do not come to their end -----------------------------------------------------------


def _counted(patch: pytest.MonkeyPatch, fail_at: int, done: list[str]) -> None:
    """Every call by which a backup writes is counted, and one of them fails."""

    def wrap(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def act(*given: object, **named: object) -> object:
            done.append(name)
            if len(done) == fail_at:
                raise OSError(28, "No space left on device")
            return real(*given, **named)

        patch.setattr(owner, name, act)

    for owner, name in ((os, "fsync"), (Path, "mkdir"), (Path, "rename"), (Path, "open")):
        wrap(owner, name)


@pytest.mark.slow
def test_a_write_that_fails_leaves_no_copy_and_the_store_as_it_was(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(root, monkeypatch) as db:
        before, number, reached = state(db), 0, True
        while reached:
            number += 1
            place, done = tmp_path / f"copy {number}", []
            with pytest.MonkeyPatch.context() as patch:
                _counted(patch, number, done)
                try:
                    db.backup(place)
                except upshot.EngineError as error:
                    codes = {error.code}
                else:
                    codes = set()
            reached = len(done) >= number
            assert codes == ({"store-failed"} if reached else set()), done
            assert place.exists() is not reached
        assert state(db) == before
    assert number > 20


def test_a_copy_of_which_a_process_left_half_cannot_be_opened(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images: list[Path] = []
    target = tmp_path / "copy"

    def keep(real: Callable[..., object]) -> Callable[..., object]:
        def act(*given: object, **named: object) -> object:
            if target.exists():
                images.append(shutil.copytree(target, tmp_path / f"image {len(images)}"))
            return real(*given, **named)

        return act

    with filled(root, monkeypatch) as db:
        before = state(db)
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in ((os, "fsync"), (Path, "mkdir"), (Path, "rename")):
                patch.setattr(owner, name, keep(getattr(owner, name)))
            db.backup(target)
    codes = []
    for image in images:
        kept = files(image)
        try:
            with upshot.connect(image) as copy:
                assert state(copy) == before
                codes.append("whole")
        except upshot.UsageError as error:
            codes.append(error.code)
            assert files(image) == kept
    assert set(codes) == {"backup-unfinished", "whole"}
    assert codes == sorted(codes), "first the one, then the other"


def test_a_damaged_file_is_found_when_it_is_copied(root: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(root, monkeypatch) as db:
        victim = next(root.glob("snapshots/*/edge/*.parquet"))
        good = victim.read_bytes()
        victim.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(upshot.EngineError, match="does not hold the bytes") as caught:
            db.backup(target)
        assert caught.value.code == "store-damaged"
        victim.unlink()
        with pytest.raises(upshot.EngineError, match="is missing"):
            db.backup(target)
        assert not target.exists()
        victim.write_bytes(good)
        db.backup(target)


COPIER = """
import sys, upshot
from pathlib import Path
from upshot.store.backup import back_up_from_outside
print("begin", flush=True)
print(back_up_from_outside(Path(sys.argv[1]), sys.argv[2]), flush=True)
"""


@pytest.mark.slow
def test_a_copier_killed_at_any_moment_leaves_a_whole_copy_or_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(base_seed())
    found = []
    with filled(root, monkeypatch) as db:
        expected = contents(db)
        for number in range(case_count(60, least=5)):
            target = tmp_path / f"copy {number}"
            process = subprocess.Popen([sys.executable, "-c", COPIER, root, target], stdout=subprocess.PIPE, text=True)
            with process:
                assert process.stdout is not None
                process.stdout.readline()
                time.sleep(dice.uniform(0, 0.04))
                process.kill()
                said = process.stdout.read()
            try:
                with upshot.connect(target) as copy:
                    assert contents(copy) == (expected if copy.version else {})
                    found.append("whole" if copy.version else "none")
            except upshot.UsageError as error:
                found.append(error.code)
            assert not said or found[-1] == "whole"
            db.verify()
    assert set(found) <= {"whole", "none", "backup-unfinished"}


def test_the_log_of_a_copy_is_a_log_like_any_other(root: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(root, monkeypatch) as db:
        db.backup(target)
    with sqlite3.connect(target / "log.sqlite") as connection:
        settings = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")]
        assert settings == [1, 0x55505348]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
