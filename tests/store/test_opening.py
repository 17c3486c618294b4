"""Who may open a store, and what is said of one that is not whole."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from tests.store.stores import PATHS, files, small_is_large, state
from upshot.plan import program_plan

HOLD = "import sys, upshot; db = upshot.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_a_second_opener_is_told_who_has_the_store(root: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(upshot.UsageError) as caught:
            upshot.connect(root)
        assert caught.value.code == "store-locked"
        assert f"process {holder.pid} on `{os.uname().nodename}`" in caught.value.message
        holder.kill()
        holder.communicate()
    with upshot.connect(root), pytest.raises(upshot.UsageError, match="this process"):
        upshot.connect(root)
    upshot.connect(root).close()


def test_a_folder_that_is_not_a_store_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"...")
    with pytest.raises(upshot.UsageError, match=r"photo\.jpg") as caught:
        upshot.connect(tmp_path)
    assert caught.value.code == "not-a-store"
    assert [each.name for each in tmp_path.iterdir()] == ["photo.jpg"]
    with pytest.raises(upshot.UsageError, match="is a file"):
        upshot.connect(tmp_path / "photo.jpg")
    other = tmp_path / "other"
    other.mkdir()
    with sqlite3.connect(other / "log.sqlite") as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(upshot.UsageError, match="something else"):
        upshot.connect(other)
    assert [each.name for each in other.iterdir()] == ["log.sqlite"]


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(upshot.EngineError, match="store") as caught:
        upshot.connect(tmp_path / "file" / "store")
    assert caught.value.code == "store-failed"


def test_a_new_store_may_be_deep_in_new_folders_and_a_creation_that_broke_off_is_no_obstacle(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    with upshot.connect(str(root)):
        pass
    (root / "log.sqlite").rename(root / "log.sqlite.new")
    with upshot.connect(root) as db:
        assert db.version == 0
    assert sorted(each.name for each in root.iterdir()) == ["acknowledged", "lock", "log.sqlite"]


def test_a_newer_format_is_refused_and_nothing_is_touched(root: Path) -> None:
    upshot.connect(root).close()
    with sqlite3.connect(root / "log.sqlite") as connection:
        connection.execute("PRAGMA user_version=7")
    connection.close()
    before = files(root)
    with pytest.raises(upshot.UsageError, match="format 7") as caught:
        upshot.connect(root)
    assert caught.value.code == "store-newer"
    assert files(root) == before


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a snapshot, commits in the log and commits in folders."""
    root = tmp_path_factory.mktemp("whole") / "store"
    with pytest.MonkeyPatch.context() as patch, small_is_large(patch, 3), upshot.connect(root) as db:
        db.define(PATHS)
        for start in (0, 10, 20):
            with db.transaction() as tx:
                tx.insert("edge", [(start + i, start + i + 1) for i in range(4)])
            if start == 0:
                db.snapshot()
        with db.transaction() as tx:
            tx.insert("edge", [(100, 101)])
        db.cursors.set("reader", 3)
    return root


def _sql(text: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        with sqlite3.connect(root / "log.sqlite") as connection:
            connection.execute(text)
        connection.close()

    return damage


def _file(pattern: str, change: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda root: change(next(root.glob(pattern))) and None


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGES = {
    "no log": (_file("log.sqlite", Path.unlink), "is missing"),
    "an empty log": (_file("log.sqlite", lambda path: os.truncate(path, 0)), "is not a log"),
    "half a log": (_file("log.sqlite", _truncate), "log.sqlite"),
    "no tables": (_sql("DROP TABLE changes"), "no such table"),
    "no commit": (_sql("DELETE FROM commits WHERE version = 3"), "version 3 is missing"),
    "no last commits": (_sql("DELETE FROM commits WHERE version > 1"), "versions 2 to 5 were committed"),
    "no change": (_sql("DELETE FROM changes WHERE version = 3 AND relation = 'edge'"), "version 3 changed 3 relations"),
    "other rows": (_sql("UPDATE changes SET came = X'4A5B5D' WHERE version = 5"), "checksum"),
    "other text": (_sql("UPDATE definitions SET program = program || ' '"), "definition of version 1"),
    "an unknown relation": (_sql("UPDATE changes SET relation = 'edje' WHERE relation = 'edge'"), "checksum"),
    "no snapshot folder": (_file("snapshots/v000002/path", shutil.rmtree), "v000002/path"),
    "half a snapshot": (_file("snapshots/*/edge/*.parquet", _truncate), "bytes and should have"),
    "a flipped bit": (_file("snapshots/*/edge/*.parquet", _flip), "does not hold the bytes"),
    "no delta": (_file("deltas/v000003/edge.inserted/*.parquet", Path.unlink), "is missing"),
    "another cursor": (_sql("UPDATE cursors SET version = version - 1"), "cursor `reader`"),
    "no snapshot of what was dropped": (_sql("DELETE FROM commits WHERE version < 4"), "version 3 is missing"),
    "a file too many": (
        _file("deltas/v000004/path.inserted", lambda f: (f / "more.parquet").touch()),
        "does not belong",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_and_nothing_is_touched(name: str, whole: Path, root: Path) -> None:
    shutil.copytree(whole, root)
    damage, words = DAMAGES[name]
    damage(root)
    before = files(root)
    with pytest.raises(upshot.EngineError) as caught:
        upshot.connect(root)
    assert caught.value.code == "store-damaged"
    assert words in caught.value.message
    assert files(root) == before
    with pytest.raises(upshot.EngineError, match="damaged"):
        upshot.connect(root)


@pytest.mark.parametrize("name", ["half a snapshot", "no delta", "a file too many"])
def test_damage_of_a_store_that_a_killed_process_left_is_named_and_nothing_is_touched(
    name: str, whole: Path, root: Path, tmp_path: Path
) -> None:
    """Its last commits are in SQLite's own log, which stays where it is."""
    with upshot.connect(shutil.copytree(whole, tmp_path / "running")) as db:
        with db.transaction() as tx:
            tx.insert("edge", [(200, 201)])
        shutil.copytree(tmp_path / "running", root, ignore=lambda _, names: [n for n in names if n == "lock"])
        good = state(db)
    image = shutil.copytree(root, tmp_path / "image")
    damage, words = DAMAGES[name]
    damage(root)
    before = files(root)
    assert before["log.sqlite-wal"]
    with pytest.raises(upshot.EngineError, match="damaged") as caught:
        upshot.connect(root)
    assert words in caught.value.message
    assert files(root) == before
    with upshot.connect(image) as db:
        assert state(db) == good


def test_a_log_with_any_page_gone_bad_is_never_taken_for_whole(whole: Path, tmp_path: Path) -> None:
    with upshot.connect(shutil.copytree(whole, tmp_path / "good")) as db:
        good = state(db)
    size = (whole / "log.sqlite").stat().st_size
    found = set()
    for page in range(0, size, 4096):
        root = shutil.copytree(whole, tmp_path / str(page))
        with (root / "log.sqlite").open("r+b") as file:
            file.seek(page)
            file.write(os.urandom(4096))
        try:
            db = upshot.connect(root)
        except upshot.Error as error:
            found.add(error.code)
        else:
            # The page was of something recovery does not need: what came before the snapshot, an index, no row.
            assert state(db) == good
            db.close()
    assert found == {"store-damaged"}


def test_what_a_killed_process_left_half_written_is_removed(whole: Path, root: Path) -> None:
    shutil.copytree(whole, root)
    with upshot.connect(shutil.copytree(whole, root.parent / "twin")) as db:
        good = state(db)
    before = {path.relative_to(root) for path in root.rglob("*")}
    for half in ("snapshots/v000005/edge", "deltas/v000006/edge.inserted"):
        (root / half).mkdir(parents=True)
        (root / half / "part-0.parquet").write_bytes(b"PAR1")
    with upshot.connect(root) as db:
        assert state(db) == good
    assert {path.relative_to(root) for path in root.rglob("*")} == before


def test_a_store_whose_views_ask_for_conflicting_strategies_opens_and_names_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions took one of the two; a new definition has to choose."""
    text = ".decl e(x: number) .decl p(x: number) .decl q(x: number) p(X) :- e(X). p(X) :- q(X). q(X) :- p(X)."
    asked = ".view p strategy=maintenance .view q strategy=bf"
    with monkeypatch.context() as earlier, upshot.connect(root) as db:
        earlier.setattr(program_plan, "strategy_conflicts", lambda *_: [])
        db.define(text + asked)
        with db.transaction() as tx:
            tx.insert("e", [(1,)])
    with upshot.connect(root) as db:
        assert [(each.slug, each.severity.value) for each in db.warnings] == [("conflicting-strategies", "warning")]
        with db.transaction() as tx:
            tx.insert("e", [(2,)])
        assert set(db.rows("q")) == {(1,), (2,)}
        with pytest.raises(upshot.ProgramError, match="conflicting-strategies"):
            db.define(".decl other(x: number)")
        db.define(f"{text} .view p strategy=bf .view q strategy=bf")
        db.verify()
    with upshot.connect(root) as db:
        assert (db.warnings, set(db.rows("q"))) == ((), {(1,), (2,)})
