"""Random commits, disconnections, restarts, slow readers and qualities of service: every copy is exact at every version
it claims to have."""

from __future__ import annotations

import http.client
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.settings import base_seed, case_count
from tests.service.served_process import PATIENCE, free_port
from tests.service.serving import Copy, EventReader, Running, changes_path
from upshot.service.feed.streams import RingBounds
from upshot.service.settings import Settings

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
.decl unstored(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
unstored(X, Y) :- closure(X, Y), X < Y.
.view unstored materialized=false
"""
NODES = 7
SEED = base_seed()


class Truth:
    """The rows of each view at each version, from the database itself."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], frozenset[tuple[Any, ...]]] = {}
        self._guard = threading.Lock()
        self.version = 0

    def note(self, database: upshot.Database) -> None:
        with database.reading() as at, self._guard:
            for view in ("closure", "unstored"):
                self._states[view, at.version] = frozenset(at.rows(view))
            self.version = at.version

    def rows(self, view: str, version: int) -> frozenset[tuple[Any, ...]]:
        """A client may hear of a version before it is noted."""
        until = time.monotonic() + PATIENCE
        while (view, version) not in self._states and time.monotonic() < until:
            time.sleep(0.001)
        return self._states[view, version]


class Client(threading.Thread):
    """Follows one view with disconnections, slowly at times; checks its copy whenever its cursor is a version."""

    def __init__(self, number: int, port: int, truth: Truth, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(seed)
        self._port, self._truth, self._stopped = port, truth, stop
        self.view = ("closure", "unstored")[number % 2]
        self.fixed = self._random.randrange(NODES) if number % 3 == 1 else None
        self.every = 0.1 if number % 4 == 3 else None
        self.copy = Copy()
        self.checks = self.connections = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stopped.is_set() or self.copy.cursor != self._truth.version:
                try:
                    self._connected()
                except (OSError, ValueError, http.client.HTTPException):
                    time.sleep(0.02)
        except BaseException as failure:  # noqa: BLE001 - told by the test
            self.failure = failure

    def _connected(self) -> None:
        where = None if self.fixed is None else f"{self.view}({self.fixed},Y)"
        path = changes_path(self.view, since=self.copy.cursor, where=where, every=self.every)
        with EventReader(self._port, path, buffer=4096) as reader:
            if reader.status != 200:
                raise OSError(reader.status)
            self.connections += 1
            for _ in range(self._random.randrange(1, 40)):
                event = reader.next(progress=True, timeout=5)
                if event is None or event[0] == "end":
                    return
                self._take(event[0], event[2])
                if self._stopped.is_set() and self.copy.cursor == self._truth.version:
                    return
                if self._random.random() < 0.03:
                    time.sleep(self._random.random() * 0.3)

    def _take(self, name: str, data: Any) -> None:
        self.copy.take(name, data)
        expected = self._truth.rows(self.view, data["version"])
        if self.fixed is not None:
            expected = frozenset(row for row in expected if row[0] == self.fixed)
        assert self.copy.rows == expected, (self.view, data["version"], name)
        self.checks += 1


def checks(clients: list[Client]) -> int:
    """How often the clients compared their copies; on a busy machine that takes them more steps."""
    return sum(client.checks for client in clients)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(case_count(80, least=3)))
def test_every_copy_is_exact_whatever_happens(tmp_path: Path, case: int) -> None:
    chance = random.Random(SEED + case)
    truth, stop = Truth(), threading.Event()
    settings = Settings(heartbeat=0.1)
    ring = RingBounds(events=chance.choice((4, 64, 4096)), linger=0.2)

    def start(port: int) -> Running:
        database = upshot.connect(tmp_path / "store")
        if not database.version:
            database.define(PROGRAM)
        truth.note(database)
        return Running(database, settings, ring, port=port)

    server = start(free_port())
    clients = [Client(number, server.port, truth, SEED + case * 100 + number, stop) for number in range(8)]
    for client in clients:
        client.start()
    for step in range(2_000):
        if step >= 240 and checks(clients) > 300:
            break
        database = server.database
        # Nothing else is committed before the truth of this version is noted.
        with database._state.lock:
            with database.transaction() as tx:
                for _ in range(chance.randrange(1, 4)):
                    row = (chance.randrange(NODES), chance.randrange(NODES))
                    (tx.insert if chance.random() < 0.55 else tx.delete)("edge", [row])
            truth.note(database)
        if chance.random() < 0.2:
            time.sleep(chance.random() * 0.05)
        if step in (80, 160):
            server.stop()
            server = start(server.port)
    stop.set()
    for client in clients:
        client.join(PATIENCE)
    server.stop()
    for client in clients:
        assert client.failure is None, repr(client.failure)
        assert not client.is_alive(), (client.view, client.copy.cursor, truth.version)
    assert checks(clients) > 300
    assert sum(client.connections for client in clients) > 16
