"""A long day through HTTP: commits with ever-new text, copies that follow, a webhook; and nothing of the server grows.

`make test` takes some seconds of it, `make soak` ten minutes, which is as many commits as a busy day has.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.properties.settings import is_soak
from tests.service.served_process import ServedProcess
from tests.service.test_webhooks import SECRET, Receiver
from upshot.client import Client

PROGRAM = """
.decl item(k: number, s: symbol)
.decl named(s: symbol, k: number)
named(S, K) :- item(K, S).
.decl longer(s: symbol)
longer(T) :- item(_, S), T = cat(S, S).
"""
SECONDS = 600.0 if is_soak() else 6.0
PARTS = 4
WRITERS = 3
LIVE = 100
"""Rows that each writer leaves in the table."""
KEPT = 1_000
WAIT = 120.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a part of the day has left: MiB in memory and on the disk, open files; and what a commit took in it: seconds
    of a quick one, of the median one, and of the processor. What else the machine did in that part is to be seen in the
    seconds of a quick request that does nothing, and those of the processor for a piece of work that is always the
    same."""

    commits: int
    memory: float
    disk: float
    files: int
    quick: float
    median: float
    work: float
    idle: float
    piece: float


class Pace:
    """How quick the machine is while the day goes on."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._requests: list[float] = []
        self._pieces: list[float] = []

    def look(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT)
        connection.connect()
        began = time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        self._requests.append(time.monotonic() - began)
        connection.close()
        began = time.thread_time()
        for _ in range(20):
            json.loads(json.dumps(list(range(1_000))))
        self._pieces.append(time.thread_time() - began)

    def since_then(self) -> tuple[float, float]:
        """A quick request and a piece of work, of those since this was asked last."""
        found = _quick(self._requests), statistics.median(self._pieces)
        self._requests.clear()
        self._pieces.clear()
        return found


def _quick(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[0]


class Writer(threading.Thread):
    """Sends transactions over one connection: a row comes with each, and an old one goes."""

    def __init__(self, number: int, port: int) -> None:
        super().__init__(daemon=True)
        self._number, self._port = number, port
        self.stopped = threading.Event()
        self.times: list[float] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WAIT)
        for count in itertools.count():
            if self.stopped.is_set():
                return
            began = time.monotonic()
            body: dict[str, object] = {"insert": {"item": [self._row(count)]}}
            if count >= LIVE:
                body["delete"] = {"item": [self._row(count - LIVE)]}
            headers = {"content-type": "application/json", "idempotency-key": f"{self._number}-{count}"}
            connection.request("POST", "/transactions", json.dumps(body), headers)
            answer = connection.getresponse()
            told = answer.read()
            if answer.status != 200:
                self.wrong.append(told.decode())
                return
            self.times.append(time.monotonic() - began)

    def _row(self, count: int) -> list[object]:
        return [
            self._number * 10**9 + count,
            f"what writer {self._number} has to say the {count}th time, and nobody else",
        ]


def worked(server: ServedProcess) -> float:
    """Seconds that the server has had of the processor."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(server: ServedProcess, store: Path, times: list[float], work: float, pace: Pace) -> Figures:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    sizes = []
    for file in store.rglob("*"):
        try:
            sizes.append(file.stat().st_size)
        except FileNotFoundError:
            continue
    idle, piece = pace.since_then()
    return Figures(
        commits=len(times),
        memory=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        disk=sum(sizes) / 2**20,
        files=len(list(Path(f"/proc/{server.pid}/fd").iterdir())),
        quick=_quick(times),
        median=statistics.median(times),
        work=work / len(times),
        idle=idle,
        piece=piece,
    )


@pytest.mark.slow
def test_a_long_day_of_a_service_leaves_memory_files_and_latency_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", SECRET)
    (tmp_path / "day.dl").write_text(PROGRAM)
    store, receiver = tmp_path / "store", Receiver()
    options = ("--keep", str(KEPT), "--webhook-allow", "127.0.0.1", "--webhook-insecure")
    try:
        with ServedProcess(tmp_path / "day.dl", store, *options) as server, Client(server.url) as client:
            client.subscriptions.add("named", receiver.url, "HOOKS", every=1.0)
            with client.follow("longer") as copy, client.follow("named", every=0.5) as slower:
                figures = _day(server, store)
                version = client.program().version
                for each, view in ((copy, "longer"), (slower, "named")):
                    assert each.wait(version, WAIT)
                    assert each.errors == []
                    assert each.rows == set(client.rows(view))
                    assert len(each) == WRITERS * LIVE
            _heard_everything(receiver, version)
    finally:
        receiver.close()
    _nothing_grows(figures)


def _day(server: ServedProcess, store: Path) -> list[Figures]:
    """What each part of the day leaves."""
    writers = [Writer(number, server.port) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    figures = []
    before, pace = worked(server), Pace(server.port)
    for _ in range(PARTS):
        times = _part(writers, pace)
        now = worked(server)
        figures.append(measured(server, store, times, now - before, pace))
        before = now
    for writer in writers:
        writer.stopped.set()
    for writer in writers:
        writer.join(WAIT)
        assert not writer.is_alive()
        assert writer.wrong == []
    return figures


def _part(writers: list[Writer], pace: Pace) -> list[float]:
    """What commits of one part of the day took, so many of each writer at least, however busy the machine is."""
    before, end = [len(writer.times) for writer in writers], time.monotonic() + SECONDS / PARTS
    while time.monotonic() < end or any(
        len(writer.times) < count + LIVE // 2 and writer.is_alive()
        for writer, count in zip(writers, before, strict=True)
    ):
        pace.look()
        time.sleep(0.02)
    return [took for writer, count in zip(writers, before, strict=True) for took in writer.times[count:]]


def _heard_everything(receiver: Receiver, version: int) -> None:
    """The deliveries follow each other without a gap, up to the last version, and lead to the rows that are left."""
    until = time.monotonic() + WAIT
    while receiver.confirmed[-1]["version"] < version:
        assert time.monotonic() < until, receiver.confirmed[-1]["version"]
        time.sleep(0.05)
    rows: set[tuple[object, ...]] = set()
    at = 0
    for each in receiver.confirmed:
        if each["version"] <= at:
            continue  # it came twice: the first answer was too late
        assert bool(each.get("snapshot")) == (at == 0)
        assert at == 0 or each["since"] >= at
        deleted, inserted = set(map(tuple, each["delete"])), set(map(tuple, each["insert"]))
        assert deleted <= rows
        assert not inserted & rows
        rows, at = (rows - deleted) | inserted, each["version"]
    assert len(rows) == WRITERS * LIVE


def _nothing_grows(figures: list[Figures]) -> None:
    # What is bounded fills up first: rings, keys that may be repeated, the part of the log that is dropped at a time.
    full, last = figures[1], figures[-1]
    assert not is_soak() or sum(each.commits for each in figures) > 10 * SECONDS, figures
    assert last.memory - full.memory < (24 if is_soak() else 48), figures
    assert last.disk < max(60, 1.5 * full.disk), figures
    assert last.files <= full.files + 8, figures
    assert last.quick / last.idle < 3 * full.quick / full.idle + 1, figures
    assert last.work / last.piece < 1.5 * full.work / full.piece, figures
