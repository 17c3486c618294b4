"""Views that are not stored, in a database that is: their changes are kept like all others, their rows are not."""

from __future__ import annotations

from pathlib import Path

import pytest

import upshot
from upshot.database.watch import Event

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl far(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
far(X, Y) :- path(X, Y), !edge(X, Y).
"""


@pytest.mark.parametrize("strategy", ["rod", "epf", "propagation", "differencing"])
@pytest.mark.parametrize("snapshot", [True, False])
def test_a_watch_resumes_where_it_left_off(tmp_path: Path, strategy: str, snapshot: bool) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(PROGRAM + f".view path strategy={strategy}")
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        left_off = db.version
        with db.transaction() as tx:
            tx.insert("edge", [(3, 4)])
        if snapshot:
            db.snapshot()
        with db.transaction() as tx:
            tx.delete("edge", [(2, 3)])
    with upshot.connect(tmp_path / "db") as db:
        assert set(db.rows("path")) == {(1, 2), (3, 4)}
        assert len(db.rows("far")) == 0
        heard: list[Event] = []
        db.watch("path", heard.append, since=left_off)
        with db.transaction() as tx:
            tx.insert("edge", [(2, 9)])
        assert [(set(event.inserted), set(event.deleted)) for event in heard] == [
            ({(3, 4), (2, 4), (1, 4)}, set()),
            (set(), {(2, 3), (1, 3), (2, 4), (1, 4)}),
            ({(2, 9), (1, 9)}, set()),
        ]
        db.verify()


def test_a_view_may_be_stored_from_some_version_on(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(PROGRAM + ".view path strategy=epf")
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        assert not db.define(".view path strategy=maintenance").changes
        with db.transaction() as tx:
            tx.insert("edge", [(3, 4)])
    with upshot.connect(tmp_path / "db") as db:
        assert set(db.rows("path")) == {(1, 2), (2, 3), (1, 3), (3, 4), (2, 4), (1, 4)}
        assert db.explain("path").as_dict()["relations"]["path"]["size"] == 6
        db.verify()
        db.define(".view path strategy=rod")
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
    with upshot.connect(tmp_path / "db") as db:
        assert set(db.rows("path")) == {(2, 3), (3, 4), (2, 4)}
        assert db.explain("path").as_dict()["relations"]["path"]["size"] is None
        db.verify()
