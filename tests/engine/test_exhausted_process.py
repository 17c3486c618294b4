"""A process with too little address space, or too few file descriptors or threads, for machine code or a commit."""

from __future__ import annotations

import errno
import importlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from tests.engine.kernels import dense, kernel
from upshot.core.rows import Rows
from upshot.database import commit
from upshot.database.durable import opening
from upshot.engine.local import warm
from upshot.engine.local.kernel import crew, machine, threads
from upshot.engine.local.kernel.code_cache import Compilation
from upshot.engine.local.storage.storage import Table
from upshot.store.store import Store

NONE_LEFT = OSError(errno.EMFILE, "Too many open files")
UNMAPPED = ImportError("libarrow.so: failed to map segment from shared object")
CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
"""
LIMITS = """
import resource, sys
import numpy, upshot
from upshot.engine.local.kernel.machine import MACHINE

def bound(more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(more * 2**20), resource.RLIM_INFINITY))

def unbound():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
bounded = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="never: the system counts no address space")


def ended(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_machine_code_is_loaded_only_into_enough_address_space_and_the_want_of_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found, started = machine.Machine(), list[object]()
    monkeypatch.setattr(Compilation, "start", started.append)
    monkeypatch.setattr(machine, "address_space_left", lambda: machine.TO_LOAD - 1)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            found.expect(found.patience)
            found.expect(found.patience + machine.WORTH_WAITING)
            found.compile()
    assert (found.is_compiled, started) == (False, [])
    assert [str(record.msg) for record in caplog.records] == [
        "no memory left to load machine code; the work goes on without it; allow more memory: `ulimit -v` bounds it"
    ]
    monkeypatch.undo()
    found.expect(found.patience)
    assert found.is_compiled


def test_machine_code_that_is_to_be_made_first_needs_more_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.Machine()
    monkeypatch.setattr(machine, "address_space_left", lambda: machine.TO_COMPILE - 1)
    monkeypatch.setattr(machine, "is_complete", lambda _: False)
    found.compile()
    assert not found.is_compiled


def test_what_was_imported_in_part_when_a_resource_ran_out_does_not_end_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, errors = machine.Machine(), [NONE_LEFT, AttributeError("partially initialized module")]

    def import_module(_: str) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(importlib, "import_module", import_module)
    found.compile()
    found.compile()
    assert (found.is_compiled, errors) == (False, [])


def test_warming_that_finds_no_memory_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "address_space_left", lambda: 0)
    monkeypatch.setattr(warm, "MACHINE", machine.Machine())
    assert not warm.main()


@pytest.mark.parametrize("started", [0, 1])
def test_where_no_thread_can_be_started_one_does_all_the_work(started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        def __init__(self) -> None:
            self.left: list[Callable[[], None]] = []

        def submit(self, take: Callable[[], None]) -> object:
            self.left.append(take)
            if len(self.left) > started:
                raise RuntimeError("can't start new thread")
            return threads_pool.submit(take)

    threads_pool, pool = threads.pool(), Pool()
    monkeypatch.setattr(threads, "pool", lambda: pool)
    assert threads.side_by_side(lambda item: item * item, [1, 2, 3, 4]) == [1, 4, 9, 16]
    for take in pool.left[started:]:
        take()  # as a thread that is started later would
    with pytest.raises(ZeroDivisionError):
        threads.side_by_side(lambda item: 1 // item, [1, 0])


def test_work_that_a_busy_thread_begins_after_a_refused_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    is_taken, can_end = threading.Event(), threading.Event()

    def other() -> None:
        is_taken.set()
        can_end.wait()

    def work(item: int) -> int:
        can_end.set()
        time.sleep(0.1 * item)
        return -item

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads.pool.cache_clear()
    busy = threads.pool().submit(other)
    assert is_taken.wait(10)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert threads.side_by_side(work, [1, 2]) == [-1, -2]
    busy.result()


def test_an_error_in_one_thread_is_raised_once_all_have_ended() -> None:
    ended, meeting = [], threading.Barrier(3)

    def work(item: int) -> None:
        meeting.wait(10)
        if item == 0:
            raise ValueError(item)
        time.sleep(0.1 * (threading.current_thread() is not threading.main_thread()))
        ended.append(item)

    threads.pool.cache_clear()
    with pytest.raises(ValueError, match="0"):
        threads.side_by_side(work, [0, 1, 2])
    before = list(ended)
    time.sleep(0.2)
    assert ended == before


def test_rules_and_walks_without_threads_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> object:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "pool", none)
    shared: list[object] = []
    run = crew.Crew.run

    def counted(self: crew.Crew, table: Table) -> int:
        shared.append(self)
        return run(self, table)

    monkeypatch.setattr(crew.Crew, "run", counted)
    edges = [(i, (i * 7 + 1) % 500) for i in range(500)]
    with kernel("compiled"):
        plain, walked = upshot.connect(), dense(upshot.connect())
        for db in (plain, walked):
            db.define(CLOSURE)
        runner = plain._state.engine._runner  # type: ignore[attr-defined]
        runner.workers, runner.worth_sharing, runner.worth_walking = 3, 1, 1 << 60
        for db in (plain, walked):
            with db.transaction() as tx:
                tx.insert("edge", edges)
        assert shared
        assert set(plain.rows("path")) == set(walked.rows("path"))
        plain.verify()


@pytest.mark.parametrize(
    ("error", "code"), [(MemoryError(), "out-of-memory"), (UNMAPPED, "out-of-memory"), (NONE_LEFT, "store-failed")]
)
def test_a_commit_that_finds_no_resources_is_an_error_by_name_and_nothing_happened(
    error: Exception, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    with upshot.connect(tmp_path / "store") as db:
        db.define(CLOSURE)
        monkeypatch.setattr(Store, "_encode", fail)
        with pytest.raises(upshot.EngineError) as raised, db.transaction() as tx:
            tx.insert("edge", [(1, 2)])
        with pytest.raises(upshot.EngineError) as undefined:
            db.define(".decl other(x: number)")
        monkeypatch.undo()
        assert {raised.value.code, undefined.value.code} == {code}
        assert "ulimit" in raised.value.help
        with db.transaction() as tx:
            tx.insert("edge", [(2, 3)])
        assert tx.changes["path"].inserted == Rows.of(tx.changes["path"].inserted.schema, [(2, 3)])
    with upshot.connect(tmp_path / "store") as db:
        assert (db.version, set(db.rows("path"))) == (2, {(2, 3)})


@pytest.mark.parametrize(
    ("error", "code"),
    [(MemoryError(), "out-of-memory"), (UNMAPPED, "out-of-memory"), (NONE_LEFT, "too-few-descriptors")],
)
def test_a_database_for_which_there_are_no_resources_is_an_error_by_name(
    error: Exception, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(opening, "_restored", fail)
    with pytest.raises(upshot.EngineError, match="opening the database") as raised:
        upshot.connect(tmp_path / "store")
    assert (raised.value.code, "ulimit" in raised.value.help) == (code, True)
    monkeypatch.undo()
    upshot.connect(tmp_path / "store").close()


@bounded
def test_a_run_in_little_address_space_ends_without_machine_code_and_says_so_once(tmp_path: Path) -> None:
    (tmp_path / "edge.facts").write_text("".join(f"{i}\t{i + 1}\n" for i in range(300)))
    (tmp_path / "p.dl").write_text(CLOSURE + ".input edge\n.output path\n")
    script = f"{LIMITS}\nfrom upshot.cli import main\nbound(120)\ncode = main(sys.argv[1:])\nsys.exit(code)"
    done = ended(script, "run", str(tmp_path / "p.dl"), "-F", str(tmp_path), "-D", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out" / "path.csv").read_text().splitlines()) == 300 * 301 // 2
    assert [line.partition(";")[0] for line in done.stderr.splitlines()] == ["no memory left to load machine code"]


STARVED = """
db = upshot.connect(sys.argv[1])
db.define(sys.argv[2])
held, version, failed = set(), db.version, 0
for number, more in enumerate([0, 0.5, 1, 2, 64], 1):
    edges = {(number * 1000 + i, number * 1000 + i + 1) for i in range(150)}
    bound(more)
    try:
        with db.transaction() as tx:
            tx.insert("edge", edges)
        held, version = held | edges, version + 1
    except upshot.EngineError as error:
        assert error.code in ("out-of-memory", "store-failed"), error
        failed += 1
    unbound()
    assert (db.version, set(db.rows("edge"))) == (version, held), more
db.verify()
db.close()
assert 0 < failed < number, failed
MACHINE.expect(MACHINE.patience)
assert MACHINE.is_compiled
with upshot.connect(sys.argv[1]) as db:
    assert (db.version, set(db.rows("edge"))) == (version, held)
    db.verify()
"""


@bounded
def test_commits_in_little_address_space_happen_whole_or_fail_by_name(tmp_path: Path) -> None:
    done = ended(LIMITS + STARVED, str(tmp_path / "store"), CLOSURE)
    assert done.returncode == 0, done.stderr


SCARCE = """
bound(500)
with upshot.connect(sys.argv[1]) as db:
    db.define(sys.argv[2])
    import pyarrow
    print(pyarrow.default_memory_pool().backend_name)
"""


@bounded
def test_arrow_takes_address_space_as_it_needs_it_where_that_is_scarce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    done = ended(LIMITS + SCARCE, str(tmp_path / "store"), CLOSURE)
    assert (done.returncode, done.stdout) == (0, "system\n"), done.stderr


OPENING = """
import os, resource, sys
import upshot, upshot.database.durable.opening
upshot.connect
free = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + free, 4096))
try:
    upshot.connect(sys.argv[1]).close()
except upshot.EngineError as error:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
    print(error.code, error.help)
"""


@pytest.mark.parametrize("free", [0, 1, 3])
def test_a_store_without_descriptors_to_open_it_is_an_error_by_name(free: int, tmp_path: Path) -> None:
    done = ended(OPENING, str(tmp_path / "store"), str(free))
    assert done.returncode == 0, done.stderr
    assert "ulimit -n" in done.stdout if free < 3 else not done.stdout or "ulimit -n" in done.stdout
    with upshot.connect(tmp_path / "store") as db:
        assert db.version == 0


def test_memory_that_runs_out_after_a_commit_does_not_deny_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def announce(*_: object) -> None:
        raise MemoryError

    with upshot.connect() as db:
        db.define(".decl edge(x: number, y: number)")
        monkeypatch.setattr(commit, "announce", announce)
        with pytest.raises(upshot.EngineError, match="which is done"), db.transaction() as tx:
            tx.insert("edge", [(1, 2)])
        assert list(db.rows("edge")) == [(1, 2)]
