"""A database that outgrows its budget moves, with its open change, and answers as if it had not.

Here "Spark" is a second local engine, so that every kind of move is tried in milliseconds; the same on Spark itself is
in tests/spark/test_surface.py.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upshot
from tests.properties.engines import using
from tests.properties.exactness import check_late_views, check_splits, check_transactions
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.properties.strategies import STRATEGIES
from upshot.check import check_query
from upshot.core.errors import EngineError
from upshot.core.optimizations import optimizations
from upshot.core.resources import available_memory
from upshot.database.budget import memory_budget
from upshot.database.database import Database
from upshot.database.durable.opening import open_durable
from upshot.database.engines import Engine
from upshot.database.placement import PlacedEngine, SparkPlace
from upshot.engine.limits import BudgetExceeded, Limits
from upshot.engine.local import LocalEngine
from upshot.engine.saved import Saved
from upshot.syntax import parse_query

CLOSURE = """
.decl edge(x: number, y: number) key(x, y)
.decl label(x: number, text: symbol) key(x)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl reach(x: number, n: number)
reach(X, N) :- edge(X, _), N = count : { closure(X, _) }.
.decl named(text: symbol, n: number)
named(T, N) :- label(X, T), reach(X, N).
.decl truth()
truth() :- edge(0, _).
"""
CHAIN = [(i, i + 1) for i in range(60)]
MORE = [(1000 + i, 1001 + i) for i in range(250)]


class Elsewhere(LocalEngine):
    """What stands for Spark: it must be closed, and can be told to fail."""

    failing: str = ""
    open: set[Elsewhere] = set()  # noqa: RUF012 - shared by all of them on purpose

    def __init__(self) -> None:
        super().__init__()
        self._fail("start")
        Elsewhere.open.add(self)

    def restore(self, *given: Any) -> None:
        self._fail("restore")
        super().restore(*given)
        Elsewhere.open.add(self)

    def insert(self, name: str, rows: Any) -> None:
        super().insert(name, rows)
        self._fail("insert")

    def close(self) -> None:
        Elsewhere.open.discard(self)
        super().close()

    @staticmethod
    def _fail(step: str) -> None:
        if Elsewhere.failing == step:
            raise OSError(f"no {step}")


class Folder:
    """Folders in the test's own one."""

    def __init__(self, root: Path) -> None:
        self.root, self.numbers = root, itertools.count()

    def folder(self) -> Path:
        return self.root / str(next(self.numbers))

    def readable(self, path: Path) -> list[str]:
        return [str(path)]

    def remove(self) -> None:
        for file in self.root.rglob("*.parquet"):
            file.unlink()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Any]:
    """Makes databases with a budget."""
    Elsewhere.failing = ""
    Elsewhere.open.clear()

    def make(memory: int | str) -> Database:
        limits = Limits(memory=memory_budget(memory))
        return Database(SparkPlace(None, limits, lambda *_: Elsewhere(), lambda *_: Folder(tmp_path), lambda _: None))

    yield make
    assert not Elsewhere.open, "an engine was left open"
    assert not list(tmp_path.rglob("part-*.parquet")), "saved rows were left behind"


def engine(db: Database) -> PlacedEngine:
    found = db._state.engine
    assert isinstance(found, PlacedEngine)
    return found


def contents(db: Database) -> dict[str, set[Any]]:
    return {name: set(db.rows(name)) for name in db.schemas}


def load(db: Database) -> None:
    db.define(CLOSURE)
    with db.transaction() as tx:
        tx.insert("edge", CHAIN)
        tx.insert("label", [(0, "zero"), (5, "five")])


# ---- moving -----------------------------------------------------------------------------------


def test_a_change_that_outgrows_the_budget_in_the_middle_of_propagation_ends_elsewhere(place: Any) -> None:
    with upshot.connect() as plain, place("1MiB") as db:
        changes = []
        for each in (plain, db):
            load(each)
            with each.transaction() as tx:
                tx.delete("edge", [(3, 4)])
                tx.upsert("label", [(0, "nought")])
                tx.insert("edge", MORE)
            changes.append({n: (set(c.inserted), set(c.deleted)) for n, c in tx.changes.items()})
        assert changes[0] == changes[1]
        assert not engine(db).is_local
        assert contents(plain) == contents(db)
        assert db.verify().rows == plain.verify().rows
        assert db.version == plain.version


def test_the_move_is_logged_and_explained(place: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "upshot.placement")
    with place("1MiB") as db:
        load(db)
        assert str(db.explain()).splitlines()[-1].startswith("engine local: ")
        assert "of 1.0 MiB" in str(db.explain())
        with db.transaction() as tx:
            tx.insert("edge", MORE)
        assert "engine spark: outgrew 1.0 MiB" in str(db.explain("closure"))
        assert db.explain().as_dict()["engine"]["name"] == "spark"
        assert [record.message.split(":")[0] for record in caplog.records] == ["moving to Spark", "moved to Spark"]


def test_more_rows_than_fit_go_elsewhere_without_being_tried_here(place: Any, tmp_path: Path) -> None:
    many = pa.table({"x": range(100_000), "y": range(100_000)})
    with place("1MiB") as db:
        db.define(CLOSURE.replace("closure(X, Z) :- closure(X, Y), edge(Y, Z).", ""))
        db.register("edge", many)
        assert "100,000 rows for `edge`" in engine(db).placement.reason
        assert len(db.rows("closure")) == 100_000
        tx_rows = db.query("edge(X, Y), X < 3").sorted()
        assert tx_rows == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("failing", ["", "restore"])
def test_an_open_query_too_large_for_the_budget_moves_the_change_as_far_as_it_had_come(
    place: Any, failing: str
) -> None:
    with place("1MiB") as db:
        load(db)
        it = engine(db)
        it.insert("edge", [(1000, 1001)])
        earlier = it.propagate()
        it.reopen()
        it.delete("edge", [(3, 4)])
        changed = it.propagate()
        Elsewhere.failing = failing
        head, clauses = check_query(parse_query("closure(A, B), closure(C, D), A < 30, C > 40"), db.schemas, {})
        if failing:
            with pytest.raises(EngineError, match="could not be moved"):
                it.query_open(head, clauses, {})
        else:
            assert len(it.query_open(head, clauses, {})) > 10_000
        assert it.is_local == bool(failing)
        # Whatever was handed out stays readable, and the change is open and propagated wherever it is now.
        assert set(earlier["closure"][0]) == {(1000, 1001)}
        assert (1000, 1001) in set(changed["closure"][0])
        head, clauses = check_query(parse_query("closure(X, Y), X > 2, !edge(X, Y)"), db.schemas, {})
        assert min(it.query_open(head, clauses, {})) == (4, 6)
        it.reopen()
        it.insert("edge", [(3, 4)])
        assert set(it.propagate()["closure"][0]) == {(1000, 1001)}
        it.accept()
        assert db.query("edge(X, Y), X > 60") == {(1000, 1001)}
        db.verify()


def test_a_query_too_large_for_the_budget_moves_the_state_and_is_answered(place: Any) -> None:
    with place("1MiB") as db:
        load(db)
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
            assert len(db.query("edge(X, _), edge(Y, _), edge(Z, _)")) == 60**3
            assert not engine(db).is_local
            tx.delete("edge", [(59, 60)])
        assert len(db.rows("edge")) == 58
        assert db.rows("closure") == {(i, j) for i in range(1, 59) for j in range(i + 1, 60)}


def test_rows_in_the_users_hands_outlive_the_engine_they_came_from(place: Any) -> None:
    with place("1MiB") as db:
        load(db)
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
        held = tx.changes["closure"].deleted
        everything = db.rows("label")
        with db.transaction() as tx:
            tx.insert("edge", MORE)
        assert held == {(0, i) for i in range(1, 61)}
        assert everything == {(0, "zero"), (5, "five")}


def test_definitions_and_questions_go_on_after_a_move(place: Any) -> None:
    with upshot.connect() as plain, place("1MiB") as db:
        for each in (plain, db):
            load(each)
            each.register("edge", pa.table({"x": [x for x, _ in MORE], "y": [y for _, y in MORE]}))
            each.define(".decl far(x: number)  far(X) :- reach(X, N), N > 100.")
            each.drop("truth")
        assert contents(plain) == contents(db)
        asked = [each.what_if(delete={"edge": [(1100, 1101)]}) for each in (plain, db)]
        assert set(asked[0]["far"].deleted) == set(asked[1]["far"].deleted) != set()
        assert contents(plain) == contents(db)


def test_a_definition_can_be_what_outgrows_the_budget(place: Any) -> None:
    with place("1MiB") as db:
        db.define(".decl edge(x: number, y: number)")
        with db.transaction() as tx:
            tx.insert("edge", MORE)
        assert engine(db).is_local
        db.define(".decl c(x: number, y: number)  c(X, Y) :- edge(X, Y).  c(X, Z) :- c(X, Y), edge(Y, Z).")
        assert not engine(db).is_local
        assert len(db.rows("c")) == 250 * 251 // 2


def test_text_and_groups_count_as_memory_too(place: Any) -> None:
    with place("1MiB") as db:
        db.define(".decl t(x: symbol)")
        with db.transaction() as tx:
            tx.insert("t", [(f"text number {i}",) for i in range(10_000)])
        assert not engine(db).is_local
        assert len(db.rows("t")) == 10_000
    with place("2MiB") as db:
        db.define(
            ".decl t(x: number, y: number)  .decl s(x: number, y: number)  s(X, Y) :- t(X, _), Y = sum Z : t(X, Z)."
        )
        with db.transaction() as tx:
            tx.insert("t", [(i, i) for i in range(8_000)])
        assert not engine(db).is_local
        assert len(db.rows("s")) == 8_000


def test_what_was_restored_elsewhere_starts_there(place: Any, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    with upshot.connect() as plain:
        load(plain)
        plain.register("edge", pa.table({"x": [x for x, _ in MORE], "y": [y for _, y in MORE]}))
        kept = plain._state.engine
        saved = {n: Saved(folder / n, kept.save(n, folder / n)) for n in plain._state.compiled.plan.normal.schemas}
        for memory, local in (("64KiB", False), ("64MiB", True), ("1MiB", False)):
            with place(memory) as db:
                db._state.engine.restore(plain._state.compiled.plan, saved)
                db._state.compiled = plain._state.compiled
                assert engine(db).is_local is local
                assert contents(db) == contents(plain)
    for file in folder.rglob("*.parquet"):
        file.unlink()


def test_a_durable_database_moves_and_opens_again_as_it_was(tmp_path: Path) -> None:
    def opened(memory: str) -> Database:
        limits = Limits(memory=memory_budget(memory))
        place = SparkPlace(
            None, limits, lambda *_: Elsewhere(), lambda *_: Folder(tmp_path / "folders"), lambda _: None
        )
        return open_durable(tmp_path / "store", place)

    Elsewhere.failing = ""
    with opened("1MiB") as db:
        load(db)
        with db.transaction(meta={"by": "test"}) as tx:
            tx.delete("edge", [(3, 4)])
            tx.insert("edge", MORE)
        assert not engine(db).is_local
        expected, version = contents(db), db.version
        assert db.last_meta() == {"by": "test"}
        db.snapshot()
    for memory, local in (("64MiB", True), ("256KiB", False)):
        with opened(memory) as db:
            assert engine(db).is_local is local
            assert (contents(db), db.version) == (expected, version)
            db.verify()


# ---- a move that fails --------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["start", "restore", "insert"])
def test_a_move_that_fails_loses_nothing(place: Any, step: str) -> None:
    with place("1MiB") as db:
        load(db)
        before = contents(db)
        Elsewhere.failing = step
        with pytest.raises(upshot.EngineError) as error, db.transaction() as tx:
            tx.insert("edge", MORE)
        assert error.value.code == "move-failed"
        assert error.value.retryable
        assert f"no {step}" in error.value.message
        assert engine(db).is_local
        assert contents(db) == before
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
        assert tx.changes["closure"].deleted == {(0, i) for i in range(1, 61)}
        Elsewhere.failing = ""
        with db.transaction() as tx:
            tx.insert("edge", [*MORE, (0, 1)])
        assert not engine(db).is_local
        assert len(db.rows("closure")) == 60 * 61 // 2 + 250 * 251 // 2
        db.verify()


def test_a_statement_whose_move_fails_applies_nothing_and_the_others_stay(place: Any) -> None:
    with place("1MiB") as db:
        load(db)
        Elsewhere.failing = "restore"
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
            with pytest.raises(upshot.EngineError):
                tx.insert("label", [(i, "x" * 100 + str(i)) for i in range(100, 5000)])
            tx.delete("label", [(5, "five")])
        assert len(tx.changes["closure"].deleted) == 60
        assert db.rows("label") == {(0, "zero")}
        assert engine(db).is_local


def test_an_interrupt_during_a_move_undoes_the_transaction(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with place("1MiB") as db:
        load(db)
        before = contents(db)
        monkeypatch.setattr(Elsewhere, "restore", interrupted)
        with pytest.raises(KeyboardInterrupt), db.transaction() as tx:
            tx.insert("edge", MORE)
        assert contents(db) == before
        assert engine(db).is_local


# ---- the same answers, wherever the move falls -----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_transactions, check_splits, check_late_views], ids=lambda f: f.__name__)
def test_random_programs_give_the_same_answers_wherever_they_move(check: Any, place: Any) -> None:
    made: list[PlacedEngine] = []

    def make(memory: int) -> Database:
        db = place(memory)
        made.append(engine(db))
        return db

    for number in range(case_count(100, least=12)):
        features = Features() if check is check_transactions else Features(errors=0)
        case = random_case(seed_of(f"placement {check.__name__}", number), features)
        memory = random.Random(number).randrange(3_000, 40_000)
        with using(partial(make, memory)):
            check(case, STRATEGIES[number % len(STRATEGIES)])
    moved = sum(not each.is_local for each in made)
    assert 0 < moved < len(made), f"{moved} of {len(made)} databases moved"


# ---- a budget without Spark ------------------------------------------------------------------------


def test_without_a_session_the_budget_is_a_bound(root: Path) -> None:
    with upshot.connect(memory="1MiB") as db:
        load(db)
        before = contents(db)
        with pytest.raises(upshot.LimitError) as error, db.transaction() as tx:
            tx.insert("edge", MORE)
        assert isinstance(error.value, BudgetExceeded)
        assert error.value.code == "memory-budget"
        assert contents(db) == before
        assert "engine local: " in str(db.explain())


@pytest.mark.parametrize("memory", [0, -1, "", "much", "4 parsecs", True, 2.5])
def test_a_budget_that_is_none_is_refused(memory: Any) -> None:
    with pytest.raises(upshot.UsageError) as error:
        upshot.connect(memory=memory)
    assert error.value.code == "wrong-argument"


@contextmanager
def machine(root: Path, *files: tuple[str, str]) -> Iterator[Path]:
    for name, text in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    yield root


def test_the_default_budget_knows_of_control_groups(tmp_path: Path) -> None:
    assert available_memory(tmp_path) > 1 << 28
    second = (("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/memory.max", "1000000\n"))
    with machine(tmp_path / "2", *second, ("sys/fs/cgroup/a/b/memory.max", "max\n")) as root:
        assert available_memory(root) == 1_000_000
    first = (("proc/self/cgroup", "7:cpu:/x\n5:memory:/x\n"), ("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n"))
    with machine(tmp_path / "1", *first) as root:
        assert available_memory(root) == 5000


def test_files_that_do_not_fit_are_not_read_here(place: Any, tmp_path: Path) -> None:
    file = tmp_path / "edge.parquet"
    pq.write_table(pa.table({"x": range(1000), "y": range(1000)}), file)
    with place("1MiB") as db:
        db.define(".decl edge(x: number, y: number)")
        with db.transaction() as tx:
            tx.insert("edge", str(file))
        assert engine(db).is_local
        assert len(tx.changes["edge"].inserted) == 1000
        with pytest.raises(upshot.UsageError) as error, db.transaction() as tx:
            tx.insert("edge", str(tmp_path / "none.parquet"))
        assert error.value.code in ("no-such-file", "not-rows")
    file.unlink()


def test_a_session_of_our_own_is_started_late_and_ends_with_the_last_engine() -> None:
    said: list[str] = []

    class Session:
        def __init__(self) -> None:
            said.append("started")

        def stop(self) -> None:
            said.append("stopped")

    Elsewhere.failing = ""
    place = SparkPlace(None, Limits(), make=lambda *_: Elsewhere(), reason="asked for", start=Session)
    assert said == []
    with Database(place) as db:
        load(db)
        db.verify()
        assert said == ["started"]
    assert said == ["started", "stopped"]
    Elsewhere.failing = "start"
    with pytest.raises(OSError, match="no start"):
        Database(place)
    assert said == ["started", "stopped"] * 2


@pytest.mark.parametrize("optimize", [False, True, ("sip", "memo")])
def test_the_switches_and_limits_of_connect_reach_the_engine_on_spark(optimize: bool | tuple[str, ...]) -> None:
    """They were dropped on the way: `connect(optimize=False)` optimized on Spark all the same."""
    seen: list[Limits] = []

    def make(_session: object, limits: Limits, _location: str | None) -> Engine:
        seen.append(limits)
        return LocalEngine(limits=limits)

    wanted = Limits(max_rounds=17, memory=memory_budget("1MiB"), optimizations=optimizations(optimize))
    SparkPlace(None, wanted, make).spark().close()
    assert seen == [Limits(max_rounds=17, optimizations=optimizations(optimize))]
