"""Copies of a real service: whatever is cut, restarted or forgotten, each reported version is exactly the view."""

from __future__ import annotations

import importlib.util
import random
import time
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("uvicorn") is None:
    pytest.skip("needs the service: pip install '.[service]'", allow_module_level=True)

import itertools

import upshot
from tests.client.cutting_proxy import CuttingProxy
from tests.properties.settings import case_count, seed_of
from tests.service.serving import Running
from upshot.client import Change, Client, Copy

PROGRAM = """
.decl edge(x: number, y: number)
.decl note(x: number, t: symbol)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl reached(x: number, n: number)
reached(X, N) :- edge(X, _), N = count : { closure(X, _) }.
.view closure materialized=false
"""
WAIT = 120.0
FOLLOWED = (
    ("closure", None, None),
    ("closure", "closure(1, Y)", None),
    ("reached", None, 0.05),
    ("note", None, None),
)


class World:
    """A database that is served, cut off, and started again, and what its views held at every version."""

    def __init__(self, folder: Path, dice: random.Random, keep: int | None) -> None:
        self._folder, self._dice, self._keep = folder, dice, keep
        self.database = upshot.connect(folder, keep=keep)
        self.database.define(PROGRAM)
        self.states: dict[int, dict[str, frozenset[Any]]] = {}
        self.server = Running(self.database)
        self.proxy = CuttingProxy(self.server.port, dice)
        self.record()

    def record(self) -> None:
        views = ("closure", "reached", "note")
        self.states[self.database.version] = {view: frozenset(self.database.rows(view)) for view in views}

    def commit(self) -> None:
        dice = self._dice
        with self.database.transaction() as tx:
            for _ in range(dice.randrange(1, 4)):
                edge = dice.randrange(6), dice.randrange(6)
                (tx.insert if dice.random() < 0.55 else tx.delete)("edge", [edge])
            if dice.random() < 0.3:
                tx.insert("note", [(dice.randrange(100), dice.choice(["é" * 50, "日本 🚆", "plain", ""]))])
        self.record()

    def restart(self) -> None:
        self.server.stop()
        self.database = upshot.connect(self._folder, keep=self._keep)
        for _ in range(self._dice.randrange(12) if self._keep else 0):
            self.commit()  # nobody is told of these as they happen
        if self._keep:
            self.database.compact()
        self.server = Running(self.database)
        self.proxy.target = self.server.port

    def at(self, version: int, view: str, where: str | None) -> frozenset[Any]:
        """What the view held at a version, which a service may tell although nothing changed with it."""
        newest = max(known for known in self.states if known <= version)
        rows = self.states[newest][view]
        return frozenset(row for row in rows if row[0] == 1) if where else rows

    def close(self) -> None:
        self.proxy.close()
        self.server.stop()


class Witness:
    """A client that writes down every version it is told of; it may be stopped and go on from its file."""

    def __init__(self, world: World, view: str, where: str | None, every: float | None, state: Path | None) -> None:
        self._world, self._view, self._where, self._every, self._state = world, view, where, every, state
        self.rows: frozenset[Any] = frozenset()
        self.told: list[tuple[int, frozenset[Any]]] = []
        self.renewals = 0
        self.copy = self._follow()

    def _follow(self) -> Copy:
        client = Client(self._world.proxy.url, retry_for=WAIT)
        return client.follow(self._view, self._where, every=self._every, on_change=self.hear, state=self._state)

    def hear(self, change: Change) -> None:
        assert not change.snapshot or not self.rows
        assert change.deleted <= self.rows
        assert not change.inserted & self.rows
        assert change or change.snapshot or change.renewed, "no idle change"
        self.renewals += change.renewed
        self.rows = (self.rows - change.deleted) | change.inserted
        self.told.append((change.version, self.rows))

    def restart(self) -> None:
        if self._state is not None:
            self.copy.close()
            self.copy = self._follow()

    def check(self, version: int) -> None:
        assert self.copy.wait(version, WAIT), f"{self.copy!r} does not reach {version}"
        assert self.copy.errors == []
        assert self.copy.rows == self._world.at(version, self._view, self._where)
        versions = [version for version, _ in self.told]
        assert versions == sorted(set(versions)), "in order, none twice"
        for version, rows in self.told:
            assert rows == self._world.at(version, self._view, self._where), (self._view, self._where, version)
        if self._every is None and not self.renewals:
            self._check_that_none_is_missing(versions)

    def _check_that_none_is_missing(self, versions: list[int]) -> None:
        """Every change of the view was told with the version that made it: the log keeps all of them here."""
        known = sorted(self._world.states)
        changed = [
            after
            for before, after in itertools.pairwise(known)
            if self._world.at(before, self._view, self._where) != self._world.at(after, self._view, self._where)
        ]
        assert [v for v in versions if v > versions[0]] == [v for v in changed if v > versions[0]]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(case_count(300, least=2)))
@pytest.mark.parametrize("keep", [None, 3], ids=["whole-past", "short-past"])
def test_random_commits_cuts_and_restarts_leave_every_copy_exact(tmp_path: Path, number: int, keep: int | None) -> None:
    dice = random.Random(seed_of("copies", number))
    world = World(tmp_path / "store", dice, keep)
    states = [None if dice.random() < 0.5 else tmp_path / f"copy{n}" for n in range(len(FOLLOWED))]
    witnesses = [Witness(world, *what, state) for what, state in zip(FOLLOWED, states, strict=True)]
    try:
        for _ in range(dice.randrange(30, 80)):
            world.commit()
            match dice.randrange(20):
                case 0:
                    world.restart()
                case 1 | 2:
                    world.proxy.cut_all()
                case 3:
                    dice.choice(witnesses).restart()
                case 4 | 5:
                    time.sleep(dice.random() * 0.1)
        world.proxy.cutting = dice.random() < 0.5
        if keep:
            world.restart()
        for witness in witnesses:
            witness.check(world.database.version)
        assert keep or not any(witness.renewals for witness in witnesses), "nothing was forgotten"
    finally:
        for witness in witnesses:
            witness.copy.close()
        world.close()
