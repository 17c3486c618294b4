"""Notes kept beside the relations, and several answers of one version."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

import upshot
from tests.store.faults import Disk
from tests.store.stores import PATHS
from upshot.store.log import Log


def test_records_of_a_kind_are_there_when_the_store_is_opened_again(root: Path) -> None:
    with upshot.connect(root) as db:
        records = db.records("webhook")
        records.put("b", {"url": "https://example.org/ä", "tries": 3})
        records.put("a", {"url": None})
        records.put("a", {"url": "other"})
        db.records("other").put("a", {})
        records.put_all({"c": {"n": [1, 2]}, "b": None})
        assert db.version == 0
    with upshot.connect(root) as db:
        assert db.records("webhook").all() == {"a": {"url": "other"}, "c": {"n": [1, 2]}}
        db.records("webhook").remove("c")
        db.records("webhook").remove("nothing")
        assert (list(db.records("webhook").all()), db.records("other").all()) == (["a"], {"a": {}})


def test_a_database_in_memory_keeps_records_while_it_is_open() -> None:
    with upshot.connect() as db:
        db.records("webhook").put("a", {"n": 1})
        assert db.records("webhook").all() == {"a": {"n": 1}}
        db.records("webhook").remove("a")
        assert db.records("webhook").all() == {}


def test_what_is_no_json_is_no_record(root: Path) -> None:
    with upshot.connect(root) as db:
        with pytest.raises(upshot.UsageError, match="JSON"):
            db.records("k").put("a", {"x": float("nan")})
        assert db.records("k").all() == {}


def test_a_record_that_cannot_be_written_leaves_all_as_they_were(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with upshot.connect(root) as db:
        db.records("k").put("a", {"n": 1})
        disk = Disk(db, monkeypatch)
        for number in range(1, 5):
            with disk.failing_at(number, late=False), pytest.raises(upshot.EngineError, match="records") as caught:
                db.records("k").put_all({"a": {"n": 2}, "b": {}})
            assert caught.value.code == "store-failed"
            assert db.records("k").all() == {"a": {"n": 1}}
        db.records("k").put_all({"a": {"n": 2}, "b": {}})
    with upshot.connect(root) as db:
        assert db.records("k").all() == {"a": {"n": 2}, "b": {}}


def test_a_record_that_somebody_changed_is_damage(root: Path) -> None:
    with upshot.connect(root) as db:
        db.records("k").put("a", {"n": 1})
    with sqlite3.connect(root / "log.sqlite") as connection:
        connection.execute("UPDATE records SET text = '{}' WHERE kind = 'k'")
    connection.close()
    with upshot.connect(root) as db, pytest.raises(upshot.EngineError, match="record `a`") as caught:
        db.records("k").all()
    assert caught.value.code == "store-damaged"


def test_a_reading_answers_from_one_version_however_many_commits_wait() -> None:
    with upshot.connect() as db:
        db.define(PATHS)
        stop, wrong = threading.Event(), []

        def write() -> None:
            for i in range(150):
                with db.transaction() as tx:
                    tx.insert("edge", [(2 * i, 2 * i + 1)])
            stop.set()

        def read() -> None:
            while not stop.is_set():
                with db.reading() as at:
                    found = (at.version, len(at.rows("edge")), len(at.query("path(X, Y)")), at.version)
                if found != (found[0], found[0] - 1, found[0] - 1, found[0]):
                    wrong.append(found)

        threads = [threading.Thread(target=each) for each in (write, read, read, read)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert (wrong, db.version) == ([], 151)


def test_nothing_is_read_after_a_reading() -> None:
    with upshot.connect() as db:
        db.define(PATHS)
        with db.reading() as at:
            rows = at.rows("edge")
            assert "path" in at.schemas
        assert list(rows) == []
        for ask in (lambda: at.version, lambda: at.rows("edge"), lambda: at.query("edge(X, Y)")):
            with pytest.raises(upshot.UsageError) as caught:
                ask()
            assert caught.value.code == "transaction-ended"


def test_a_store_made_before_there_were_records_and_cursors_gets_them_when_it_is_opened(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        with db.transaction(meta={"n": 1}) as tx:
            tx.insert("edge", [(1, 2)])
    with sqlite3.connect(root / "log.sqlite") as connection:
        for table in ("records", "cursors", "outbox", "firings"):
            connection.execute(f"DROP TABLE {table}")
    connection.close()
    log = Log(root, read_only=True)
    assert log.last_meta() == '{"n":1}'
    log.close()
    with upshot.connect(root, keep=1) as db:
        assert (db.last_meta(), db.records("k").all(), db.cursors.all()) == ({"n": 1}, {}, {})
        db.compact()
        assert db.rows("path").sorted() == [(1, 2)]
