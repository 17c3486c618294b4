"""Many subscribers of one view of a served database, and a client that commits at a steady rate, all over loopback.

The server is a process of its own; the subscribers and the committing client share this one. A row carries the moment
its transaction was sent; the clock is the same for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from typing import cast

import uvloop

from bench.tasks import Answer, Task

CONNECTIONS = 8
"""The connections of the client: each transaction is sent on time, even if the previous one is not answered."""
WARM_UP = 5.0
"""Seconds of commits before the measurement, in which the service loads its machine code."""
KEPT = 100
"""The number of rows of the view."""
_EVENT, _END = b"event: ", b"\n\n"


def run(task: Task) -> Answer:
    """`options`: subscribers, rate (commits a second), seconds. `size` are the events that arrived."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, "-m", "bench.served", folder], stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_measured(port, **task.options))
        finally:
            server.terminate()


class Ledger:
    """The received events. All subscribers receive the same bytes, so each event is parsed once."""

    def __init__(self) -> None:
        self.latencies = array("d")
        self.wrong = Counter[str]()
        self._known: dict[bytes, tuple[str, int, float]] = {}

    def read(self, event: bytes) -> tuple[str, int, float]:
        """The name and version of an event, and the time at which its transaction was sent."""
        found = self._known.get(event)
        if found is None:
            lines = dict(line.split(": ", 1) for line in event.decode().split("\n"))
            data = json.loads(lines["data"])
            sent = max((row[1] for row in data.get("insert", ())), default=0)
            found = self._known[event] = lines["event"], int(data.get("version", -1)), sent / 1e9
        return found


class Subscriber(asyncio.Protocol):
    """Parses events as they arrive, and checks that each version arrives once."""

    def __init__(self, ledger: Ledger, port: int) -> None:
        self._ledger, self._port = ledger, port
        self._buffer = b""
        self.version: int | None = None
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(
            f"GET /views/seen/changes HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        *events, self._buffer = (self._buffer + data).split(_END)
        for event in events:
            self._take(event[event.find(_EVENT) :], now)

    def _take(self, event: bytes, now: float) -> None:
        name, version, sent = self._ledger.read(event)
        if name == "change":
            if version != (self.version or 0) + 1:
                self._ledger.wrong["lost or repeated"] += 1
            self.received += 1
            self._ledger.latencies.append(now - sent)
        elif name == "progress":
            if version != self.version:
                self._ledger.wrong["progress past a change"] += 1
        elif name != "snapshot":
            self._ledger.wrong[f"event `{name}`"] += 1
        self.version = version

    def connection_lost(self, exc: Exception | None) -> None:
        self._ledger.wrong["disconnected"] += exc is not None


async def _measured(port: int, subscribers: int, rate: int, seconds: float) -> Answer:
    loop = asyncio.get_running_loop()
    await _listening(port)
    ledger = Ledger()
    everyone: list[Subscriber] = []
    for _ in range(subscribers):
        _, each = await loop.create_connection(lambda: Subscriber(ledger, port), "127.0.0.1", port)
        everyone.append(each)
    await _until(lambda: all(each.version is not None for each in everyone))
    client = _Client(port)
    await client.open()
    warm = await client.commit(rate, seconds=WARM_UP, first=0)
    await _until(lambda: all(each.received >= warm for each in everyone))
    ledger.latencies = array("d")
    before = [each.received for each in everyone]
    began = time.monotonic()
    commits = await client.commit(rate, seconds=seconds, first=10**6)
    took = time.monotonic() - began
    await _until(lambda: all(each.received - was >= commits for each, was in zip(everyone, before, strict=True)))
    received = sum(each.received for each in everyone) - sum(before)
    found = sorted(ledger.latencies)
    figures = {"p50": _at(found, 0.5), "p99": _at(found, 0.99), "max": found[-1] if found else 0.0}
    figures |= {"commits": commits, "rate": commits / took, "commit p99": _at(sorted(client.times), 0.99)}
    figures["losses"] = subscribers * commits - received + sum(ledger.wrong.values())
    notes = {"wrong": ", ".join(f"{count} {what}" for what, count in ledger.wrong.items() if count)}
    return Answer(seconds=took, size=received, figures=figures, notes=notes)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def _listening(port: int) -> None:
    async def answers() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    until = time.monotonic() + 60
    while not await answers():
        if time.monotonic() > until:
            raise TimeoutError("the server does not listen")
        await asyncio.sleep(0.05)


async def _until(reached: object, patience: float = 60.0) -> None:
    """Wait for a limited time; missing events count as lost."""
    assert callable(reached)
    until = time.monotonic() + patience
    while not reached() and time.monotonic() < until:
        await asyncio.sleep(0.02)


class _Client:
    """Commits over a few connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._sent: dict[int, int] = {}
        self.times: list[float] = []

    async def open(self) -> None:
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection("127.0.0.1", self._port))

    async def commit(self, rate: int, *, seconds: float, first: int) -> int:
        """Send each transaction on time; return the number of committed ones."""
        self.times = []
        count, began = int(rate * seconds), time.monotonic()
        waiting = []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            waiting.append(asyncio.create_task(self._post(first + number)))
        await asyncio.gather(*waiting)
        return count

    async def _post(self, number: int) -> None:
        sent = self._sent[number] = time.monotonic_ns()
        change = {"insert": {"reading": [[number, sent]]}}
        if (old := number - KEPT) in self._sent:
            change["delete"] = {"reading": [[old, self._sent.pop(old)]]}
        body = json.dumps(change).encode()
        reader, writer = await self._free.get()
        head = f"POST /transactions HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = await reader.readline()
        length = 0
        while (line := (await reader.readline()).lower()) != b"\r\n":
            length = int(line.split(b":")[1]) if line.startswith(b"content-length:") else length
        answer = await reader.readexactly(length)
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r}: {answer[:300]!r}")
        self.times.append((time.monotonic_ns() - sent) / 1e9)
        self._free.put_nowait((reader, writer))
