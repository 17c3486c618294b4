"""Firings of earlier transactions, as the log of a durable database has them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import upshot

PROGRAM = """
    .decl edge(x: number, y: number)
    .decl reach(x: number, y: number)
    reach(X, Y) :- edge(X, Y).
    reach(X, Z) :- reach(X, Y), edge(Y, Z).
    .decl loop(x: number)
    .rule spot(X) when reach(X, X) do insert loop(X).
    .rule told(X) on insert loop(X) do call tell(X).
"""


def commits(db: upshot.Database) -> list[Any]:
    db.define(PROGRAM)
    db.action("tell", lambda rows: None)
    made = []
    for edges in ([(1, 2)], [(2, 1), (5, 5)], [(7, 8)], [(8, 7)]):
        with db.transaction() as tx:
            tx.insert("edge", edges)
        made.append((tx.version, [(each.rule, each.coupling, each.rows.sorted()) for each in tx.firings]))
    return made


def test_the_log_has_the_firings_of_each_commit_also_after_reopening(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        made = commits(db)
        keys = [each.key for commit in db.history() for each in commit.firings]
    with upshot.connect(tmp_path / "db") as db:
        found = {
            each.version: [(firing.rule, firing.coupling, firing.rows.sorted()) for firing in each.firings]
            for each in db.history()
        }
        assert [(version, found[version]) for version, _ in made] == made
        assert made[1][1][0] == ("spot", "deferred", [(1,), (2,), (5,)])
        assert [each.key for commit in db.history() for each in commit.firings] == keys
        assert [bool(key) for key in keys] == [False, True] * 2


def test_a_watch_of_a_rule_starts_from_an_earlier_version(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        made = commits(db)
    heard: list[Any] = []
    with upshot.connect(tmp_path / "db") as db:
        db.watch("spot", lambda event: heard.append((event.version, event.inserted.sorted())), since=made[0][0])
        db.action("tell", lambda rows: None)
        with db.transaction() as tx:
            tx.insert("edge", [(9, 9)])
        expected = [(version, rows) for version, firings in made for rule, _, rows in firings if rule == "spot"]
        assert heard == [*expected, (tx.version, [(9,)])]


def test_a_firing_for_many_rows_is_counted_and_its_rows_are_refused(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(".decl a(n: number) .decl b(n: number) .rule copy(N) when a(N) do insert b(N).")
        with db.transaction() as tx:
            tx.insert("a", [(number,) for number in range(5_000)])
        (firing,) = next(db.history(tx.version - 1)).firings
        assert (firing.rule, firing.count, firing.has_rows) == ("copy", 5_000, False)
        with pytest.raises(upshot.UsageError, match="the 5,000 rows for which `copy` fired") as caught:
            _ = firing.rows
        assert caught.value.code == "history-not-kept"
        heard: list[Any] = []
        with pytest.raises(upshot.UsageError, match="5,000 rows"):
            db.watch("copy", heard.append, since=tx.version - 1)
        assert heard == []
        db.watch("copy", heard.append, since=tx.version)


def test_what_is_taken_back_or_dropped_leaves_no_firing(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db", keep=2) as db:
        commits(db)
        db.define(".deny eleven(X) :- loop(X), X = 11.")
        version = db.version
        with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
            tx.insert("edge", [(11, 11)])
        with db.transaction() as tx:
            tx.insert("edge", [(4, 6)])
        assert tx.version == version + 1
        assert next(db.history(version)).firings == ()
        db.snapshot()
        db.compact()
        with sqlite3.connect(tmp_path / "db" / "log.sqlite") as log:
            assert {row[0] for row in log.execute("SELECT version FROM firings")} <= {version, version + 1}
        log.close()


def test_an_older_store_has_firings_from_when_it_is_opened(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        made = commits(db)
    with sqlite3.connect(tmp_path / "db" / "log.sqlite") as log:
        log.execute("DROP TABLE firings")
        log.execute("DELETE FROM meta WHERE key = 'firings_since'")
    log.close()
    with upshot.connect(tmp_path / "db") as db:
        last = made[-1][0]
        assert not next(db.history(last - 1)).has_firings
        for ask in (lambda: next(db.history(last - 1)).firings, lambda: db.watch("spot", print, since=last - 1)):
            with pytest.raises(upshot.UsageError, match=f"those since {last} are") as caught:
                ask()
            assert caught.value.code == "history-not-kept"
        db.action("tell", lambda rows: None)
        with db.transaction() as tx:
            tx.insert("edge", [(9, 9)])
    with upshot.connect(tmp_path / "db") as db:
        assert [each.rule for each in next(db.history(tx.version - 1)).firings] == ["spot", "told"]
