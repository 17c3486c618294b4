"""A version that is held: a database of its own, with the same rows, that later commits leave as it is."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pytest

import upshot

PROGRAM = """
.decl edge(x: number, y: number)
.decl name(x: number, s: symbol?, at: date)
.decl on()
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl count_of(x: number, n: number)
count_of(X, N) :- edge(X, _), N = count : { edge(X, _) }.
.decl named(x: number, s: symbol?)
named(X, S) :- closure(X, Y), name(Y, S, _), on().
.view named materialized=false
.decl found(x: number)
.deny loop(X) :- closure(X, X).
.rule remember(X) when named(X, _) do insert found(X).
"""
DAY = dt.date(2026, 1, 31)


def database(path: Path | None = None) -> upshot.Database:
    made = upshot.connect() if path is None else upshot.connect(path)
    made.define(PROGRAM)
    with made.transaction() as tx:
        tx.insert("on", [()])
        tx.insert("edge", [(1, 2), (2, 3), (3, 4)])
        tx.insert("name", [(3, "three", DAY), (4, None, DAY)])
    return made


def all_rows(db: upshot.Database) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(db.rows(name)) for name in db.schemas}


@pytest.mark.parametrize("durable", [False, True])
def test_it_has_the_same_rows_and_version_whatever_is_committed_before_it_is_opened(
    tmp_path: Path, durable: bool
) -> None:
    with database(tmp_path / "store" if durable else None) as db:
        before, version = all_rows(db), db.version
        held = db.hold_version(1_000)
        assert held is not None
        with db.transaction() as tx:
            tx.replace("edge", [(7, 8)])
            tx.delete("on", [()])
        copy = held()
        assert (all_rows(copy), copy.version) == (before, version)
        copy.verify()
        with copy.transaction() as tx:
            tx.insert("edge", [(4, 5)])
        assert tx.changes["closure"].inserted.sorted() == [(1, 5), (2, 5), (3, 5), (4, 5)]
        copy.verify()
        assert set(db.rows("edge")) == {(7, 8)}


def test_it_is_opened_and_asked_on_another_thread_while_others_commit() -> None:
    with database() as db:
        wanted = {"closure": [(1, 4)]}
        expected = [dict(each.delete) for each in db.realize(delete=wanted)]
        held, version, found = db.hold_version(1_000), db.version, []
        assert held is not None

        def look() -> None:
            copy = held()
            found.extend(copy.realize(delete=wanted))
            assert copy.version == version

        looking = threading.Thread(target=look)
        looking.start()
        for number in range(100, 200):
            with db.transaction() as tx:
                tx.insert("edge", [(number, number + 1)])
        looking.join()
        assert [dict(each.delete) for each in found] == expected
        assert len(expected) == 3
        db.verify()


def test_what_is_too_large_or_calls_functions_in_transactions_is_not_held() -> None:
    with database() as db:
        assert db.hold_version(10) is None
        db.define(".rule tell(X) coupling=after when inserted found(X) do call tell(X).")
        assert db.hold_version(1_000) is not None
        db.define(".rule tell(X) coupling=deferred when inserted found(X) do call tell(X).")
        assert db.hold_version(1_000) is None
