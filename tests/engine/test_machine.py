"""When the kernel goes over to machine code."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import upshot
from upshot.engine.local.kernel.code_cache import Compilation
from upshot.engine.local.kernel.machine import LENIENCE, PATIENCE, WORTH_WAITING, Machine


class Loading:
    """Loads the plain form in the place of machine code. The first time something else happens meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self._entries = {name: value for name, value in vars(Machine()).items() if callable(value)}
        monkeypatch.setattr(importlib, "import_module", self._load)
        monkeypatch.setattr(Compilation, "start", lambda _: None)

    def _load(self, name: str) -> object:
        assert name == "upshot.engine.local.kernel.compiled"
        self.count += 1
        if self.count == 1:
            self.meanwhile()
        return types.SimpleNamespace(ENTRIES=self._entries)


class Compiling:
    """Stands for the process that makes machine code."""

    def __init__(self) -> None:
        self.is_running, self.starts, self.waits = False, 0, 0

    def start(self) -> None:
        self.starts += 1
        self.is_running = self.is_running or self.starts == 1

    def wait(self) -> None:
        self.waits += 1
        self.is_running = False


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Loading:
    return Loading(monkeypatch)


def test_machine_code_is_loaded_when_little_work_has_become_much(loading: Loading) -> None:
    machine = Machine()
    machine.expect(PATIENCE - 1)
    assert (loading.count, machine.is_compiled) == (0, False)
    machine.expect(1)
    assert (loading.count, machine.is_compiled) == (1, True)


def test_while_it_is_being_loaded_little_work_goes_on_without_it_for_a_while(loading: Loading) -> None:
    machine, found = Machine(), []

    def work() -> None:
        for _ in range(LENIENCE + 1):
            machine.expect(PATIENCE)
            found.append(machine.is_compiled)

    loading.meanwhile = work
    machine.load()
    assert found == [False] * LENIENCE + [True]


def test_while_it_is_being_loaded_a_large_piece_of_work_waits_for_it(loading: Loading) -> None:
    machine = Machine()
    loading.meanwhile = lambda: machine.expect(PATIENCE + WORTH_WAITING)
    machine.load()
    assert machine.is_compiled


def test_what_is_loaded_is_used_from_the_next_occasion_on(loading: Loading) -> None:
    machine = Machine()
    machine.load()
    assert not machine.is_compiled
    machine.expect(PATIENCE)
    assert machine.is_compiled


def test_while_machine_code_is_made_beside_it_the_plain_form_goes_on(loading: Loading) -> None:
    machine, compiling = Machine(), Compiling()
    machine._compilation = compiling  # type: ignore[assignment]
    for _ in range(3 * LENIENCE):
        machine.expect(PATIENCE)
        assert (loading.count, machine.is_compiled, compiling.waits) == (0, False, 0)
    compiling.is_running = False
    machine.expect(PATIENCE)
    assert machine.is_compiled


def test_a_large_piece_of_work_waits_for_machine_code_that_is_being_made(loading: Loading) -> None:
    machine, compiling = Machine(), Compiling()
    machine._compilation = compiling  # type: ignore[assignment]
    machine.expect(PATIENCE + WORTH_WAITING)
    assert (machine.is_compiled, compiling.waits) == (True, 1)


@pytest.mark.slow
def test_a_fresh_installation_compiles_beside_the_work_and_says_so(tmp_path: Path) -> None:
    """The package without its cache: a commit that outgrows the plain form goes on, and one line says what happens."""
    shutil.copytree(Path(upshot.__file__).parent, tmp_path / "upshot", ignore=shutil.ignore_patterns("__pycache__"))
    script = """
import time, upshot
from upshot.engine.local.kernel.machine import MACHINE
from upshot.engine.local.kernel.code_cache import cache_folder, is_complete
db = upshot.connect()
db.define(".decl e(x: number, y: number) .decl p(x: number, y: number)")
db.define("p(X, Y) :- e(X, Y). p(X, Y) :- e(X, Z), p(Z, Y).")
with db.transaction() as tx:
    tx.insert("e", [(i, i + 1) for i in range(90)])
assert len(tx.changes["p"].inserted) == 90 * 91 // 2
assert not MACHINE.is_compiled and not is_complete(cache_folder())
MACHINE.compile()
assert MACHINE.is_compiled and is_complete(cache_folder())
with db.transaction() as tx:
    tx.delete("e", [(30, 31)])
assert len(tx.changes["p"].deleted) == 31 * 60
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines() == [
        "compiling the engine, once: about 30 seconds, in the background (`upshot warm` does it ahead of time)"
    ]
