"""When the kernel goes over to machine code."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable

import pytest

from upshot.engine.local.kernel.machine import LENIENCE, PATIENCE, WORTH_WAITING, Machine


class Loading:
    """Loads the plain form in the place of machine code. The first time something else happens meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self._entries = {name: value for name, value in vars(Machine()).items() if callable(value)}
        monkeypatch.setattr(importlib, "import_module", self._load)

    def _load(self, name: str) -> object:
        assert name == "upshot.engine.local.kernel.compiled"
        self.count += 1
        if self.count == 1:
            self.meanwhile()
        return types.SimpleNamespace(ENTRIES=self._entries)


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
