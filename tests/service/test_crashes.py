"""`kill -9` at random moments, under load: what was acknowledged is there, nothing else, and every copy is exact.

Writers keep a journal of what they sent: each transaction is acknowledged, refused, or in doubt. After a crash the log
of the store holds every acknowledged one exactly once, and beside those only such that were in doubt; sending one of
those again under its key settles it. Copies follow through all crashes, some in clients that are killed too.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.settings import case_count, is_soak, seed_of
from tests.service.served_process import ServedProcess
from upshot.client import Change, Client, Copy
from upshot.core.errors import ConstraintError, EngineError

PROGRAM = """
.decl sent(writer: number, n: number, text: symbol)
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl posting(account: number, by: symbol, amount: number)
.decl balance(account: number, b: number)
balance(A, B) :- posting(A, _, _), B = sum X : { posting(A, _, X) }.
.decl total(t: number)
total(T) :- T = sum X : { posting(_, _, X) }.
.decl many(writer: number, n: number)
many(W, N) :- sent(W, _, _), N = count : { sent(W, _, _) }.
.deny unbalanced(T) :- total(T), T != 0.
"""
WRITERS = 4
VIEWS = ("sent", "closure", "balance", "total", "many")
KILLS = 200 if is_soak() else case_count(200, least=2)
WAIT = 120.0


@dataclass
class Journal:
    """What a writer knows of its transactions, by key. A version is known of those that are acknowledged."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    in_doubt: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)


class Writer:
    """Sends transactions one after the other, until it is told to stop; what it does not know stays in doubt."""

    def __init__(self, number: int, url: str, seed: int) -> None:
        self.number, self.journal = number, Journal()
        self.wrong: list[str] = []
        self._url, self._dice, self._next = url, random.Random(seed), 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        assert self._thread is not None
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with Client(self._url, timeout=WAIT, retry_for=0.0) as client:
                while not self._stop.is_set() and not self.journal.in_doubt:
                    self._send(client, *self._transaction())
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.wrong.append(repr(error))

    def _transaction(self) -> tuple[str, dict[str, Any]]:
        dice, number = self._dice, self._next
        self._next += 1
        key, amount = f"w{self.number}-{number}", dice.randrange(1, 100)
        first, second = dice.sample(range(8), 2)
        edge = [(dice.randrange(12), dice.randrange(12))]
        insert: dict[str, Any] = {"sent": [(self.number, number, "é" * dice.randrange(40))]}
        # One in ten is refused by the constraint: it must leave nothing behind.
        owed = -amount if dice.random() < 0.9 else amount
        insert["posting"] = [(first, key, amount), (second, key, owed)]
        return key, {"insert": insert, dice.choice(["insert_edge", "delete_edge"]): edge}

    def _send(self, client: Client, key: str, parts: dict[str, Any]) -> None:
        insert = {**parts["insert"], **({"edge": parts["insert_edge"]} if "insert_edge" in parts else {})}
        delete = {"edge": parts["delete_edge"]} if "delete_edge" in parts else None
        try:
            version = client.transaction(insert=insert, delete=delete, key=key).version
        except ConstraintError:
            self.journal.refused.add(key)
        except EngineError as error:
            if error.code != "unreachable":  # it was not even sent
                self.journal.in_doubt[key] = parts
            self._stop.wait(0.01)
        else:
            self.journal.acknowledged[key] = version

    def settle(self, present: set[str]) -> None:
        """Sends what is in doubt again: what is in the log already answers with its version and happens no more."""
        doubts, self.journal.in_doubt = self.journal.in_doubt, {}
        with Client(self._url, retry_for=WAIT) as client:
            for key, parts in doubts.items():
                self._send(client, key, parts)
                if key in present and key not in self.journal.acknowledged:
                    self.wrong.append(f"{key} is in the log, and is not known to the service")


class Subscriber:
    """A copy that follows through everything. What it is told is held against the log in the end."""

    def __init__(self, url: str, view: str, state: Path | None) -> None:
        self.view, self._url, self._state = view, url, state
        self.rows: frozenset[Any] = frozenset()
        self.told: list[tuple[int, frozenset[Any]]] = []
        self.wrong: list[str] = []
        self.copy = self._follow()

    def _follow(self) -> Copy:
        return Client(self._url, retry_for=WAIT).follow(self.view, on_change=self._hear, state=self._state, silence=5.0)

    def _hear(self, change: Change) -> None:
        if not change.deleted <= self.rows or change.inserted & self.rows or change.renewed:
            self.wrong.append(f"{self.view} at version {change.version} does not follow from the version before")
        self.rows = (self.rows - change.deleted) | change.inserted
        self.told.append((change.version, self.rows))

    def restart(self) -> None:
        """A client that ends and comes back goes on from its file; one without a file goes on running."""
        if self._state is not None:
            self.copy.close()
            self.copy = self._follow()

    def check(self, states: dict[int, dict[str, frozenset[Any]]], version: int) -> None:
        assert self.copy.wait(version, WAIT), f"{self.copy!r} does not reach {version}"
        assert (self.wrong, self.copy.errors) == ([], [])
        assert self.copy.rows == states[version][self.view]
        for told, rows in self.told:
            assert rows == states[told][self.view], f"{self.view} at version {told}"


def look_into(store: Path, states: dict[int, dict[str, frozenset[Any]]]) -> tuple[int, dict[str, int]]:
    """The version and the keys of the store, whose views are verified; `states` gets every version that is new."""
    with upshot.connect(store) as database:
        database.verify()
        assert set(database.rows("total")) <= {(0,)}
        last = max(states, default=0)
        rows = dict(states.get(last, dict.fromkeys(VIEWS, frozenset())))
        keys: list[tuple[str, int]] = []
        for commit in database.history():
            note = (commit.meta or {}).get("upshot") if isinstance(commit.meta, dict) else None
            if note is not None:
                keys.append((note["key"], commit.version))
            if commit.version > last:
                for view in VIEWS:
                    change = commit.changes[view]
                    rows[view] = (rows[view] - frozenset(change.deleted)) | frozenset(change.inserted)
                states[commit.version] = dict(rows)
        found = {view: frozenset(database.rows(view)) for view in VIEWS}
        assert states[database.version] == found, "the log leads to the rows"
        assert [key for key, count in Counter(key for key, _ in keys).items() if count > 1] == [], "none twice"
        return database.version, dict(keys)


def check_journals(writers: list[Writer], keys: dict[str, int]) -> None:
    """Every acknowledged commit is there, at the version that was answered; no other is, but for those in doubt."""
    known: set[str] = set()
    for writer in writers:
        assert writer.wrong == []
        journal = writer.journal
        for key, version in journal.acknowledged.items():
            assert keys.get(key) == version, f"{key} was acknowledged as version {version}"
        assert not journal.refused & keys.keys(), "what was refused is not there"
        known |= journal.acknowledged.keys() | journal.in_doubt.keys()
    assert keys.keys() <= known, f"nobody sent {sorted(keys.keys() - known)[:5]}"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upshot.client.requests.LONGEST", 0.2)


@pytest.mark.slow
def test_after_kill_9_acknowledged_commits_are_there_and_no_other_and_copies_are_exact(tmp_path: Path) -> None:
    seed = seed_of("crashes", 0)
    dice = random.Random(seed)
    program, store = tmp_path / "program.dl", tmp_path / "store"
    program.write_text(PROGRAM)
    server = ServedProcess(program, store).start()
    server.wait_until_ready()
    writers = [Writer(number, server.url, seed + number) for number in range(WRITERS)]
    states: dict[int, dict[str, frozenset[Any]]] = {}
    under_load = 0
    files = [None if dice.random() < 0.5 else tmp_path / f"{view}.copy" for view in VIEWS]
    subscribers = [Subscriber(server.url, view, file) for view, file in zip(VIEWS, files, strict=True)]
    try:
        for _ in range(KILLS):
            under_load += _run_and_kill(server, writers, dice)
            _, keys = look_into(store, states)
            check_journals(writers, keys)
            if dice.random() < 0.2:
                dice.choice(subscribers).restart()
            server.start()
            if dice.random() < 0.8:
                server.wait_until_ready()
            for writer in writers:
                writer.settle(set(keys))
        server.stop()
        version, keys = look_into(store, states)
        check_journals(writers, keys)
        server.start()
        for subscriber in subscribers:
            subscriber.check(states, version)
    finally:
        for subscriber in subscribers:
            subscriber.copy.close()
        server.kill()
    assert sum(len(writer.journal.acknowledged) for writer in writers) > KILLS
    assert 2 * under_load >= KILLS
    assert json.loads(server.log.read_text().splitlines()[0])


def _run_and_kill(server: ServedProcess, writers: list[Writer], dice: random.Random) -> bool:
    """Load, and then the kill: mostly while writers wait, sometimes while the server is still starting. Whether the
    server has answered anybody, or has left somebody without an answer."""

    def known() -> int:
        return sum(len(writer.journal.acknowledged) + len(writer.journal.in_doubt) for writer in writers)

    before, pause = known(), dice.choice([0.01, 0.05, 0.3, 1.0]) * dice.random()
    for writer in writers:
        writer.start()
    if dice.random() < 0.8:
        until = time.monotonic() + WAIT
        while known() == before:
            assert time.monotonic() < until, server.log.read_text()[-4000:]
            time.sleep(0.001)
    time.sleep(pause)
    server.kill()
    for writer in writers:
        writer.stop()
    return known() > before
