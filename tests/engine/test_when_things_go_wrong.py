"""A run that does not end normally leaves nothing behind: errors, interrupts, memory that cannot be had, forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import upshot
from tests.engine.kernels import kernel
from upshot.engine.local import LocalEngine
from upshot.engine.local.kernel.interrupts import uninterrupted
from upshot.engine.local.kernel.memory import Buffer
from upshot.engine.local.kernel.threads import pool
from upshot.engine.local.storage.storage import Storage, Table

CLOSURE = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
"""


def test_rows_set_aside_for_a_functor_by_a_failing_transaction_are_forgotten() -> None:
    db = upshot.connect()
    db.define("""
        .decl q(x: number, t: symbol)
        .decl p(x: number, s: symbol)
        p(X, S) :- q(X, T), Y = 10 / X, Z = to_string(Y), S = cat(T, Z).
    """)
    with pytest.raises(upshot.DataError), db.transaction() as tx:
        tx.insert("q", [(1, "a"), (2, "b"), (0, "c")])
    with db.transaction() as tx:
        tx.insert("q", [(3, "d")])
    assert db.rows("p") == {(3, "d3")}
    db.verify()


def test_the_text_constant_of_an_aggregate_survives_a_sweep() -> None:
    db = upshot.connect()
    db.define("""
        .decl e(g: number, x: number)
        .decl m(g: number, t: symbol)
        .decl noise(t: symbol)
        m(G, V) :- e(G, _), V = min "zeta" : { e(G, _) }.
    """)
    with db.transaction() as tx:
        tx.insert("e", [(1, 1)])
    for turn in range(6):
        with db.transaction() as tx:
            tx.replace("noise", [(f"x{turn}_{i}",) for i in range(5000)])
    with db.transaction() as tx:
        tx.insert("e", [(2, 1)])
    assert db.rows("m") == {(1, "zeta"), (2, "zeta")}


def test_single_insertions_do_not_move_the_whole_table_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []
    table = Storage().create(1)
    original = type(table)._grow_slots
    monkeypatch.setattr(type(table), "_grow_slots", lambda self, count: (grown.append(count), original(self, count)))
    for i in range(3000):
        table.stage(np.array([[i]]), insert=True)
    assert len(grown) < 12


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process that was started in the background may have been told to ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_waits_for_the_end_of_a_section() -> None:
    reached = []

    def section() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        section()
    assert reached == ["the end"]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_shared_load_is_undone_and_can_be_done_again() -> None:
    with kernel("compiled"):
        db = upshot.connect()
        db.define(CLOSURE)
        runner = db._state.engine._runner  # type: ignore[attr-defined]
        runner.workers, runner.worth_sharing = 4, 1
        side = 40
        edges = [(x * side + y, x * side + y + 1) for x in range(side) for y in range(side - 1)]
        edges += [(x * side + y, (x + 1) * side + y) for x in range(side - 1) for y in range(side)]
        interrupting = threading.Timer(0.03, lambda: os.kill(os.getpid(), signal.SIGINT))
        interrupting.start()
        try:
            with db.transaction() as tx:
                tx.insert("edge", edges)
            interrupting.join()
            time.sleep(0.1)
        except KeyboardInterrupt:
            assert len(db.rows("edge")) in (0, len(edges))
        with db.transaction() as tx:
            tx.replace("edge", edges)
        assert len(db.rows("closure")) == (side * (side + 1) // 2) ** 2 - side**2
        db.verify()


@pytest.mark.parametrize("failing", range(1, 12))
def test_memory_that_cannot_be_had_is_an_error_and_the_state_stays(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = upshot.connect()
    db.define(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", [(i, i + 1) for i in range(10)])
    before = set(db.rows("closure"))
    calls = 0
    original = Buffer._grow

    def scarce(self: Buffer, size: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(12, "Cannot allocate memory")
        original(self, size)

    with monkeypatch.context() as patch:
        patch.setattr(Buffer, "_grow", scarce)
        failed = None
        try:
            with db.transaction() as tx:
                tx.insert("edge", [(i, i + 1) for i in range(10, 200)])
        except upshot.Error as error:
            failed = error
    assert failed is None or failed.code == "out-of-memory"
    assert failed is None or set(db.rows("closure")) == before
    with db.transaction() as tx:
        tx.insert("edge", [(500, 501)])
    assert (500, 501) in tx.changes["closure"].inserted
    db.verify()


@pytest.mark.parametrize("number", range(1, 6))
def test_a_definition_that_finds_no_memory_is_an_error_and_leaves_no_tables(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = upshot.connect()
    db.define(".decl e(x: number, y: number) .decl p(x: number, y: number) p(X, Y) :- e(X, Y).")
    with db.transaction() as tx:
        tx.insert("e", [(1, 2)])
    engine, left, grow = db._state.engine, number, Buffer._grow
    assert isinstance(engine, LocalEngine)
    used = engine.reserved

    def limited(self: Buffer, size: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(12, "Cannot allocate memory")
        grow(self, size)

    more = "".join(f".decl v{i}(x: number) v{i}(X) :- p(X, _)." for i in range(5))
    with monkeypatch.context() as patch:
        patch.setattr(Buffer, "_grow", limited)
        with pytest.raises(upshot.EngineError) as raised:
            db.define(more)
    assert raised.value.code == "out-of-memory"
    assert engine.reserved == used
    assert set(db.rows("p")) == {(1, 2)}
    db.define(more)
    assert set(db.rows("v4")) == {(1,)}


def test_changes_of_an_open_transaction_that_find_no_memory_for_a_copy_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: object) -> None:
        raise MemoryError

    db = upshot.connect()
    db.define(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2)])
        changes = tx.changes_so_far()
        monkeypatch.setattr(Table, "listed", failing)
        with pytest.raises(upshot.EngineError, match="open transaction"):
            tx.insert("edge", [(2, 3)])
        monkeypatch.undo()
        tx.insert("edge", [(2, 3)])
    assert len(changes["closure"].inserted) == 1
    assert len(tx.changes["closure"].inserted) == len(db.rows("closure")) == 3


def test_a_forked_child_has_threads_of_its_own() -> None:
    assert pool().submit(lambda: 1).result() == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if pool().submit(lambda: 7).result(timeout=60) == 7 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_room_of_many_undone_rows_is_given_back() -> None:
    db = upshot.connect()
    db.define(".decl a(x: number)")
    with db.transaction() as tx:
        tx.insert("a", [(1,), (2,)])
    table = db._state.engine._now.tables["a"]  # type: ignore[attr-defined]
    db.define(".deny negative(X) :- a(X), X < 0.")
    with pytest.raises(upshot.ConstraintError), db.transaction() as tx:
        tx.insert("a", [(i,) for i in range(-1, 300_000)])
    assert table.capacity < 100_000
    assert table.size == 2
    with db.transaction() as tx:
        tx.insert("a", [(7,)])
    assert set(db.rows("a")) == {(1,), (2,), (7,)}
