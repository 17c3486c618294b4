"""Transactions that become durable together."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import upshot
from tests.store.faults import Disk
from tests.store.stores import PATHS, contents, state
from upshot.database.group import Group
from upshot.database.transaction import Transaction
from upshot.engine.local import LocalEngine

RULES = """
.decl edge(x: number, y: number)
.decl seen(x: number)
.rule note coupling=after when inserted edge(X, _) do insert seen(X).
"""


@pytest.fixture(params=["in memory", "in a folder"])
def db(request: pytest.FixtureRequest, root: Path) -> Iterator[upshot.Database]:
    db = upshot.connect(root if request.param == "in a folder" else None)
    db.define(PATHS)
    yield db
    db.close()


def insert(group: Group, *rows: tuple[object, ...], meta: dict[str, int] | None = None) -> Transaction:
    with group.transaction(meta=meta) as tx:
        tx.insert("edge", list(rows))
    return tx


def test_each_transaction_of_a_group_makes_its_own_version_and_its_own_changes(db: upshot.Database) -> None:
    with db.group() as group:
        first = insert(group, (1, 2))
        second = insert(group, (2, 3))
        with group.transaction() as third:
            third.delete("edge", [(1, 2)])
    assert [tx.version for tx in (first, second, third)] == [2, 3, 4]
    assert second.changes["path"].inserted.sorted() == [(1, 3), (2, 3)]
    assert third.changes["path"].deleted.sorted() == [(1, 2), (1, 3)]
    assert (db.version, db.rows("path").sorted()) == (4, [(2, 3)])
    db.verify()


def test_a_group_is_one_write_to_the_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        disk = Disk(db, monkeypatch)
        with db.group() as group:
            for i in range(5):
                insert(group, (i, i + 1), meta={"number": i})
        assert disk.writes.count("COMMIT") == disk.writes.count("BEGIN IMMEDIATE") == 1
        after = state(db)
    with upshot.connect(root) as db:
        assert state(db) == after
        assert [commit.meta.get("number") for commit in db.history(since=1)] == [0, 1, 2, 3, 4]


def test_a_transaction_of_a_group_that_fails_fails_alone(db: upshot.Database) -> None:
    with db.group() as group:
        insert(group, (1, 2))
        with pytest.raises(upshot.ConstraintError):
            insert(group, (2, 1))
        with pytest.raises(upshot.DataError):
            insert(group, ("a", "b"))
        with pytest.raises(ZeroDivisionError), group.transaction() as tx:
            tx.insert("edge", [(5, 6 // 0)])
        last = insert(group, (2, 3))
    assert (last.version, db.rows("edge").sorted()) == (3, [(1, 2), (2, 3)])
    db.verify()


def test_notes_that_cannot_be_written_fail_their_transaction_and_not_the_group(root: Path) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with upshot.connect(root) as db:
        db.define(PATHS)
        with db.group() as group:
            for notes in ({"x": "\ud800"}, {"\ud800": 1}, {"x": float("nan")}, {"x": deep}):
                with pytest.raises(upshot.UsageError, match="cannot be written as JSON"), group.transaction(meta=notes):
                    pass
            with group.transaction(meta={"x": "é"}) as tx:
                tx.insert("edge", [(1, 2)])
        assert set(db.rows("edge")) == {(1, 2)}


def test_a_group_whose_block_fails_never_happened(db: upshot.Database) -> None:
    insert_first(db)
    before, events = state(db), []
    db.watch("path", events.append, since=db.version)
    done: list[Transaction] = []

    def both(group: Group) -> None:
        done.append(insert(group, (2, 3), (3, 4)))
        with group.transaction() as tx:
            tx.delete("edge", [(1, 2)])

    with pytest.raises(RuntimeError):
        break_off(db, both)
    assert (state(db), events) == (before, [])
    with pytest.raises(upshot.UsageError, match="rolled back"):
        _ = done[0].version
    db.verify()
    with db.group() as group:
        insert(group, (2, 3))
    assert [event.version for event in events] == [db.version]


def break_off(db: upshot.Database, act: Callable[[Group], object]) -> None:
    with db.group() as group:
        act(group)
        raise RuntimeError


def insert_first(db: upshot.Database) -> None:
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2)])


def test_nobody_sees_anything_of_a_group_before_it_is_durable(db: upshot.Database) -> None:
    heard: list[int] = []
    db.watch("edge", lambda event: heard.append(event.version), since=db.version)
    read, begun = [], threading.Event()

    def reader() -> None:
        begun.set()
        read.append((len(db.rows("edge")), db.version))

    with db.group() as group:
        insert(group, (1, 2))
        thread = threading.Thread(target=reader)
        thread.start()
        begun.wait()
        assert (db.version, heard) == (1, [])
        insert(group, (2, 3))
        thread.join(0.05)
        assert (read, heard) == ([], [])
    thread.join()
    assert (read, heard, db.version) == ([(2, 3)], [2, 3], 3)


def test_what_rules_do_after_a_commit_they_do_after_the_group(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(RULES)
        with db.group() as group:
            insert(group, (1, 2))
            insert(group, (2, 3))
            assert db.rows("seen").sorted() == []
        assert db.rows("seen").sorted() == [(1,), (2,)]
        assert db.pending() == ()
        with pytest.raises(RuntimeError):
            break_off(db, lambda group: insert(group, (7, 8)))
        assert db.pending() == ()
        assert db.rows("seen").sorted() == [(1,), (2,)]


def test_a_group_has_one_transaction_open_at_a_time_and_only_on_its_thread(db: upshot.Database) -> None:
    with db.group() as group:
        with group.transaction(), pytest.raises(upshot.UsageError) as caught:
            group.transaction()
        assert caught.value.code == "transaction-open"
        for act in (lambda: db.define(""), lambda: db.group().__enter__(), lambda: db.watch("edge", print)):
            with pytest.raises(upshot.UsageError) as caught:
                act()
            assert caught.value.code == "transaction-open"
        with pytest.raises(upshot.UsageError), db.transaction():
            pass
        errors: list[str] = []

        def other() -> None:
            try:
                group.transaction()
            except upshot.UsageError as error:
                errors.append(error.code)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert errors == ["transaction-ended"]
    with pytest.raises(upshot.UsageError, match="has ended"):
        group.transaction()
    with pytest.raises(upshot.UsageError, match="already used"), group:
        pass


def test_a_group_in_which_nothing_happens_makes_no_version(db: upshot.Database) -> None:
    with db.group():
        pass
    with db.group() as group:
        assert insert(group).version == 1
    assert db.version == 1


def two_in_a_group(db: upshot.Database) -> None:
    with db.group() as group:
        insert(group, (1, 2))
        insert(group, (2, 3))


def test_what_the_write_of_a_group_fails_with_can_be_tried_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        disk = Disk(db, monkeypatch)
        with disk.failing_at(1, late=False), pytest.raises(upshot.EngineError, match="versions 2 to 3") as caught:
            two_in_a_group(db)
        assert (caught.value.code, caught.value.retryable) == ("store-failed", True)
        assert contents(db)["edge"] == []


def test_a_group_that_cannot_even_be_undone_closes_the_database(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with upshot.connect(root) as db:
        db.define(PATHS)
        disk = Disk(db, monkeypatch)

        def exhaust(group: Group) -> None:
            insert(group, (1, 2))
            monkeypatch.setattr(LocalEngine, "propagate", _short_of_memory)

        with disk.failing_at(1, late=False), pytest.raises(upshot.EngineError, match="out of memory"):
            break_off(db, exhaust)
        with pytest.raises(upshot.UsageError, match="closed"):
            db.rows("edge")
    monkeypatch.undo()
    with upshot.connect(root) as db:
        assert (db.version, len(db.rows("edge"))) == (1, 0)


def _short_of_memory(self: LocalEngine, *, several_turns: bool) -> None:
    raise upshot.EngineError("out of memory", code="out-of-memory")


def test_a_group_that_fills_the_disk_is_undone_and_written_when_there_is_room(root: Path) -> None:
    with upshot.connect(root) as db:
        db.define(".decl r(x: number, s: symbol)")
        connection = db._state.journal.store.log._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages + 2}")
        for _ in range(3):
            with pytest.raises(upshot.EngineError, match="full") as caught:
                _much(db)
            assert (caught.value.code, caught.value.retryable) == ("store-failed", True)
            assert (db.version, len(db.rows("r"))) == (1, 0)
        connection.execute("PRAGMA max_page_count=1000000")
        _much(db)
    with upshot.connect(root) as db:
        assert (db.version, len(db.rows("r"))) == (5, 400)


def _much(db: upshot.Database) -> None:
    with db.group() as group:
        for number in range(4):
            with group.transaction() as tx:
                tx.insert(
                    "r", [(i, random.Random(i).randbytes(100).hex()) for i in range(100 * number, 100 * number + 100)]
                )


TRANSFERS = """
.decl account(name: number, cents: number) key(name)
.decl total(cents: number)
total(S) :- S = sum C : { account(_, C) }.
"""


def test_no_reader_and_no_watcher_ever_sees_a_total_that_is_not_zero(root: Path) -> None:
    """Transfers in groups, some of which break off; readers and a watcher look on."""
    dice, stop, seen = random.Random(3), threading.Event(), []
    with upshot.connect(root, keep=20) as db:
        db.define(TRANSFERS)
        with db.transaction() as tx:
            tx.insert("account", [(i, 0) for i in range(6)])
        balances: dict[int, int] = dict.fromkeys(range(6), 0)
        versions: list[int] = []
        db.watch("total", lambda event: seen.append(event.inserted.sorted()))
        db.watch("account", lambda event: versions.append(event.version), since=db.version)

        def read() -> None:
            while not stop.is_set():
                with db.reading() as at:
                    rows = dict(at.rows("account"))
                    seen.append(at.rows("total").sorted() if sum(rows.values()) == 0 else rows)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(40):
            after = dict(balances)
            try:
                _transfer(db, dice, after, breaks_off=number % 4 == 3)
                balances = after
            except RuntimeError:
                pass
        stop.set()
        for reader in readers:
            reader.join()
        assert all(found == [(0,)] for found in seen)
        assert dict(db.rows("account")) == balances
        assert versions == list(range(3, db.version + 1))
        db.verify()


def _transfer(db: upshot.Database, dice: random.Random, balances: dict[int, int], *, breaks_off: bool) -> None:
    with db.group() as group:
        for _ in range(5):
            (giver, taker), cents = dice.sample(range(6), 2), dice.randint(1, 99)
            balances[giver] -= cents
            balances[taker] += cents
            with group.transaction() as tx:
                tx.upsert("account", [(each, balances[each]) for each in (giver, taker)])
        if breaks_off:
            raise RuntimeError
