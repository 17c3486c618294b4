"""Snapshots: written when that pays, never needed for the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

import upshot
from tests.store.stores import PATHS, files, state
from upshot.core.errors import EngineError
from upshot.database.durable import journal
from upshot.engine.local import LocalEngine


def names(root: Path) -> list[str]:
    return sorted(each.name for each in (root / "snapshots").iterdir()) if (root / "snapshots").exists() else []


def change(db: upshot.Database, number: int) -> None:
    with db.transaction() as tx:
        tx.replace("edge", [(number, number + 1), (number + 1, number + 2)])


def test_a_snapshot_is_written_when_the_changes_outgrow_the_rows(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WORTH_A_LOOK", 30)
    with upshot.connect(root) as db:
        db.define(PATHS)
        with db.transaction() as tx:
            tx.insert("edge", [(-i, -i - 1) for i in range(40)])
        # Everything is new: to write it once more would save nothing.
        assert names(root) == []
        written = set()
        for number in range(400):
            change(db, number)
            written.update(names(root))
            # The rest of the past is in the log; snapshots in between go at once.
            assert len(names(root)) <= 2
        assert 3 < len(written) < 100
        before = state(db)
    with upshot.connect(root) as db:
        assert len(names(root)) == 1
        assert state(db) == before
        assert len(list(db.history())) == db.version
        db.verify()


def test_many_small_changes_to_large_relations_end_in_a_snapshot_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "WORTH_A_LOOK", 5)
    monkeypatch.setattr(journal, "MOST_SMALL_ROWS", 50)
    with upshot.connect(root) as db:
        db.define(".decl r(x: number)")
        with db.transaction() as tx:
            tx.insert("r", [(-i,) for i in range(10_000)])
        assert names(root) == []
        for number in range(60):
            with db.transaction() as tx:
                tx.insert("r", [(number + 1,)])
        assert len(names(root)) == 1


def test_the_snapshot_that_was_opened_stays_until_the_store_is_closed(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        change(db, 1)
        db.snapshot()
    with upshot.connect(root) as db:
        for number in range(2, 5):
            change(db, number)
            assert db.snapshot() == db.version
        # The second and third are of no use to anybody, the first may still be read by the engine.
        assert names(root) == ["v000002", "v000005"]
        db.snapshot()
        before = state(db)
    with upshot.connect(root) as db:
        assert len(names(root)) == 1
        assert state(db) == before


def test_a_snapshot_that_fails_by_itself_harms_no_commit(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal, "WORTH_A_LOOK", 5)

    def full(self: LocalEngine, name: str, folder: Path) -> int:
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"PAR1")
        raise OSError(28, "No space left on device")

    with upshot.connect(root) as db:
        db.define(PATHS)
        with monkeypatch.context() as patch:
            patch.setattr(LocalEngine, "save", full)
            for number in range(20):
                change(db, number)
            assert db.version == 21
            assert "no snapshot of version" in caplog.text
            assert names(root) == []
            with pytest.raises(EngineError) as caught:
                db.snapshot()
            assert caught.value.code == "store-failed"
            assert names(root) == []
        for number in range(20, 40):
            change(db, number)
        assert names(root)
        before = state(db)
    with upshot.connect(root) as db:
        assert state(db) == before


def test_opening_and_closing_writes_nothing(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        change(db, 1)
        db.snapshot()
        change(db, 2)
    before = files(root)
    for _ in range(2):
        with upshot.connect(root) as db:
            db.verify()
            list(db.history())
            db.what_if(insert={"edge": [(7, 8)]})
    assert files(root) == before
