"""A store on a lake whose writes arrive without an answer, too late, or while somebody else opens it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.store.faults import Disk
from tests.store.stores import PATHS, state
from upshot.database.durable import opening
from upshot.spark.delta import DeltaTarget
from upshot.spark.lake_path import LakePath
from upshot.spark.location import LocalFiles, uri_of
from upshot.store import lake, record_table
from upshot.store.opening import open_lake_store
from upshot.store.retention import Retention

deltalake = pytest.importorskip("deltalake")


def nothing() -> None:
    pass


class Wire:
    """Each commit to the lake passes here. `fail_at` is the one without an answer: it `arrives` at once, before the
    next one, or never; `then` is done before its writer notices."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.commits = self.fail_at = 0
        self.arrives = "at once"
        self.then: Callable[[], object] = nothing
        self._late: Callable[[], object] = nothing
        self._real = deltalake.write_deltalake
        patch.setattr(deltalake, "write_deltalake", self.write)

    def write(self, table: Any, data: Any, **given: Any) -> None:
        late, self._late = self._late, nothing
        late()
        if isinstance(table, deltalake.DeltaTable):
            self.commits += 1
            if self.commits == self.fail_at:
                # In a table of its own, as the server has it: the writer's does not notice.
                uri = table.table_uri
                do = lambda: self._real(deltalake.DeltaTable(uri), data, **given)  # noqa: E731
                if self.arrives == "late":
                    self._late = do
                elif self.arrives == "at once":
                    do()
                self.then()
                raise OSError("no answer")
        self._real(table, data, **given)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Stores of a folder are opened as if it were on a lake."""

    def opened(path: Path, retention: Retention, session: Any) -> Any:
        return open_lake_store(LakePath(uri_of(path), LocalFiles()), session, retention)

    monkeypatch.setattr(opening, "_opened", opened)
    monkeypatch.setattr(record_table, "reaches", lambda session, path: DeltaTarget(path.uri))
    return Wire(monkeypatch)


def changed(db: upshot.Database, *edges: tuple[int, int]) -> None:
    with db.transaction() as tx:
        tx.insert("edge", edges)


def tried(db: upshot.Database, *edges: tuple[int, int]) -> list[tuple[int, int]]:
    """The edges that were committed."""
    try:
        changed(db, *edges)
    except upshot.EngineError:
        return []
    return list(edges)


@pytest.mark.parametrize("arrives", ["at once", "late", "never"])
@pytest.mark.parametrize("most", [200, 1], ids=["records", "whole logs"])
def test_a_commit_is_not_taken_for_another_of_the_same_number(
    arrives: str, most: int, tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake, "_MOST_RECORDS", most)
    for number in (1, 2, 3):
        root = tmp_path / str(number)
        with upshot.connect(root) as db:
            db.define(PATHS)
            changed(db, (1, 2))
            db.records("note").put_all({"a": {"n": 1}}, lazy=True)
            wire.fail_at, wire.arrives = wire.commits + number, arrives
            expected = [(1, 2)]
            for edge in range(2, 6):
                db.records("note").put_all({"a": {"n": edge}}, lazy=True)
                expected += tried(db, (edge, edge + 1))
            if arrives == "at once":
                assert len(expected) == 5, "it was done, and its writer knows"
            assert db.rows("edge").sorted() == expected
            left = state(db)
        with upshot.connect(root) as again:
            assert state(again) == left
            assert again.records("note").all() == {"a": {"n": 5}}
            again.verify()
            changed(again, (90, 91))


def test_a_commit_counts_although_the_store_was_taken_over_before_its_answer(tmp_path: Path, wire: Wire) -> None:
    first = upshot.connect(tmp_path)
    first.define(PATHS)
    others: list[upshot.Database] = []
    wire.fail_at, wire.then = wire.commits + 1, lambda: others.append(upshot.connect(tmp_path))
    changed(first, (1, 2))
    with pytest.raises(upshot.Error) as lost:
        changed(first, (2, 3))
    assert lost.value.code == "store-taken-over"
    assert others[0].rows("edge").sorted() == [(1, 2)]
    for db in (first, *others):
        db.close()


def test_a_record_that_the_copy_could_not_take_is_taken_before_the_next(
    tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary directory is full, the lake is not."""
    with upshot.connect(tmp_path) as db:
        db.define(PATHS)
        disk = Disk(db, monkeypatch)
        notes, failed = db.records("note"), 0
        for number in range(1, 9):
            with disk.failing_at(number, late=False):
                try:
                    notes.put_all({str(number): {"n": number}})
                except upshot.EngineError:
                    failed += 1
        assert failed > 2
        changed(db, (1, 2))
        left = state(db), notes.all()
    with upshot.connect(tmp_path) as again:
        assert (state(again), again.records("note").all()) == left
