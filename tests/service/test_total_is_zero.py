"""Money moves between accounts; the total is always zero, whoever looks, however they look, whenever they look.

A transfer is optimistic: it deletes the two rows it has read and inserts the two that follow. If somebody else was
faster, the rows it deletes are gone, the inserted ones share a key with those that are there, and it is refused.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.settings import case_count, is_soak, seed_of
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from tests.service.test_webhooks import Receiver
from upshot.client import Change, Client
from upshot.service.settings import Settings

PROGRAM = """
.decl account(name: symbol, balance: number, by: symbol) key(name)
.decl total(t: number)
total(T) :- T = sum B : { account(_, B, _) }.
.decl in_debt(name: symbol, balance: number)
in_debt(A, B) :- account(A, B, _), B < 0.
.decl debts(t: number)
debts(T) :- T = sum B : { in_debt(_, B) }.
.decl credits(t: number)
credits(T) :- T = sum B : { account(_, B, _), B >= 0 }.
.deny unbalanced(T) :- total(T), T != 0.
.deny unbalanced on_violation=warn
"""
ACCOUNTS = [f"account{n}" for n in range(12)]
SETTINGS = Settings(heartbeat=0.2, webhook_hosts=("127.0.0.1",), webhook_insecure=True)


class Seen:
    """What somebody saw, if it was not zero."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.looks = 0

    def total(self, who: str, rows: Iterable[Any]) -> None:
        self.looks += 1
        if list(rows) not in ([(0,)], [[0]]):
            self.wrong.append(f"{who}: {list(rows)}")

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        """A thread whose end by an error counts as something wrong."""

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever it is
                self.wrong.append(repr(error))

        return threading.Thread(target=run)

    def balances(self, who: str, balances: Iterable[int]) -> None:
        found = list(balances)
        self.looks += 1
        if sum(found) != 0 or len(found) != len(ACCOUNTS):
            self.wrong.append(f"{who}: {found}")


def transfer(client: Client, dice: random.Random, writer: str, number: int) -> bool:
    """Whether it went through."""
    rows = {name: (name, balance, by) for name, balance, by in client.rows("account")}
    first, second = dice.sample(ACCOUNTS, 2)
    amount, by = dice.randrange(1, 50), f"{writer}-{number}"
    before = [rows[first], rows[second]]
    after = [(first, rows[first][1] - amount, by), (second, rows[second][1] + amount, by)]
    try:
        client.transaction(delete={"account": before}, insert={"account": after})
    except upshot.ConstraintError as error:
        if error.code != "key-violation":
            raise
        return False
    return True


def writers(url: str, seen: Seen, count: int, transfers: int, seed: int) -> list[threading.Thread]:
    def write(writer: int) -> None:
        dice, done = random.Random(seed + writer), 0
        with Client(url) as client:
            for number in range(100 * transfers):
                done += transfer(client, dice, f"w{writer}", number)
                if done == transfers:
                    return
        raise AssertionError("transfers do not go through")

    return [seen.thread(partial(write, writer)) for writer in range(count)]


def looking(url: str, seen: Seen, stop: threading.Event) -> list[threading.Thread]:
    """Those who ask again and again."""

    def repeated(look: Callable[[Client], None]) -> threading.Thread:
        def run() -> None:
            with Client(url) as client:
                while not stop.is_set():
                    look(client)

        return seen.thread(run)

    def rows(client: Client) -> None:
        seen.total("rows of total", client.rows("total"))
        seen.balances("rows of account", (balance for _, balance, _ in client.rows("account")))

    def query(client: Client) -> None:
        seen.balances("a query", (balance for _, balance in client.query("account(A, B, _)")))
        debts, credits = next(iter(client.query("debts(D), credits(C)")))
        seen.total("a query of two views", [(debts + credits,)])

    def what_if(client: Client) -> None:
        found = client.what_if(insert={"account": [("nobody", 0, "what-if")]})
        assert "total" not in found.changes
        assert not found.violations

    return [repeated(look) for look in (rows, query, what_if)]


def follower(seen: Seen, who: str, held: dict[str, int]) -> Callable[[Change], None]:
    """Keeps balances from the changes alone, and looks at them after each."""

    def hear(change: Change) -> None:
        for name, _, _ in change.deleted:
            del held[name]
        held.update({name: balance for name, balance, _ in change.inserted})
        seen.balances(who, held.values())

    return hear


def on_demand(url: str, seen: Seen, stop: threading.Event) -> threading.Thread:
    """Asks for net changes now and then."""

    def run() -> None:
        with Client(url) as client:
            rows = client.rows("account")
            held, version = {name: balance for name, balance, _ in rows}, rows.version
            while not stop.is_set():
                time.sleep(0.02)
                version, came, went = client.changes("account", since=version)
                for name, _, _ in went:
                    del held[name]
                held.update({name: balance for name, balance, _ in came})
                seen.balances("changes on demand", held.values())

    return seen.thread(run)


def command(url: str, view: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": "src"}
    arguments = [sys.executable, "-m", "upshot", "follow", url, view]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", "secret")
    database = upshot.connect(tmp_path / "store")
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("account", [(name, 0, "nobody") for name in ACCOUNTS])
    with Running(database, SETTINGS) as running:
        yield running


def from_webhooks(deliveries: list[dict[str, Any]], seen: Seen) -> None:
    """Deliveries are whole changes: after each the balances add up."""
    held: dict[str, int] = {}
    for delivery in deliveries:
        if delivery["view"] == "total":
            seen.total("a webhook", delivery["insert"])
            continue
        for name, _, _ in delivery["delete"]:
            held.pop(name)
        held.update({name: balance for name, balance, _ in delivery["insert"]})
        seen.balances("a webhook of accounts", held.values())


def from_command(process: subprocess.Popen[str], seen: Seen, version: int) -> None:
    held: dict[str, int] = {}
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        change = told["changes"]["account"]
        for name, _, _ in change["delete"]:
            del held[name]
        held.update({name: balance for name, balance, _ in change["insert"]})
        seen.balances("upshot follow", held.values())
        if told["version"] >= version:
            return


@pytest.mark.slow
def test_nobody_ever_sees_a_total_that_is_not_zero(server: Running) -> None:
    url, seen, stop = f"http://127.0.0.1:{server.port}", Seen(), threading.Event()
    transfers = case_count(8 if not is_soak() else 100, least=30)
    receiver, client = Receiver(), Client(url)
    for view in ("total", "account"):
        client.subscriptions.add(view, receiver.url, "HOOKS")
    process = command(url, "account")
    held: list[dict[str, int]] = [{}, {}]
    total = client.follow("total", on_change=lambda change: seen.total("a copy of total", change.inserted))
    accounts = client.follow("account", on_change=follower(seen, "a copy", held[0]))
    slowly = client.follow("account", every=0.1, on_change=follower(seen, "a copy of intervals", held[1]))
    with total, accounts, slowly:
        busy = writers(url, seen, 4, transfers, seed_of("total-is-zero", 0))
        others = [*looking(url, seen, stop), on_demand(url, seen, stop)]
        for thread in (*busy, *others):
            thread.start()
        for thread in busy:
            thread.join()
        last = client.rows("account")
        for copy in (total, accounts, slowly):
            assert copy.wait(last.version, PATIENCE)
            assert copy.errors == []
        stop.set()
        for thread in others:
            thread.join()
        assert accounts.rows == slowly.rows == set(last)
        from_command(process, seen, last.version)
        process.terminate()
        process.wait(PATIENCE)
    _until(lambda: receiver.confirmed and receiver.confirmed[-1]["version"] >= last.version)
    from_webhooks(receiver.confirmed, seen)
    receiver.close()
    assert seen.wrong == []
    assert seen.looks > 4 * transfers
    assert server.database.version >= 4 * transfers
    server.database.verify()


def _until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "in time"
        time.sleep(0.02)
