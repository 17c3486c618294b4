"""A function of a rule that does not return: nobody can make it. Others go on without it, and the service ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import upshot
from tests.service.served_process import PATIENCE, ROOT
from tests.service.serving import Running
from upshot.service.settings import RequestBounds, Settings

SERVER = """
import sys, time
import upshot
from upshot.service.server import listen, serve
from upshot.service.service import Service
from upshot.service.settings import Settings

store, coupling = sys.argv[1:]
database = upshot.connect(store)
database.define(".decl edge(x: symbol, y: symbol)")
database.define(f".rule tell(X) coupling={coupling} when inserted edge(X, _) do call slow(X).")
def slow(rows):
    if rows == [("hang",)]:
        print("hangs", flush=True)
        time.sleep(1000)
database.action("slow", slow)
settings = Settings(port=0, grace=1.0)
with listen(settings) as bound:
    serve(Service(database, settings), bound, lambda address: print(address, flush=True))
"""


def send(port: int, name: str) -> int | None:
    """The version that the transaction made, if it is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    body = json.dumps({"insert": {"edge": [[name, "b"]]}})
    try:
        connection.request("POST", "/transactions", body, {"content-type": "application/json"})
        version: int = json.loads(connection.getresponse().read())["version"]
        return version
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(("coupling", "rows", "calls", "code"), [("after", 2, 1, 0), ("deferred", 1, 0, 3)])
def test_a_service_ends_and_loses_nothing(tmp_path: Path, coupling: str, rows: int, calls: int, code: int) -> None:
    """What was committed stays, with the call that is still to be made; what was not committed never happened."""
    store = tmp_path / "store"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", SERVER, str(store), coupling]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
            assert send(port, "a") == 3
            waiting = threading.Thread(target=send, args=(port, "hang"))
            waiting.start()
            assert process.stdout.readline() == "hangs\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == code
            waiting.join(PATIENCE)
        finally:
            process.kill()
    with upshot.connect(store) as database:
        assert len(database.rows("edge")) == rows
        assert len(database.pending()) == calls
        database.verify()


PROGRAM = """
.decl edge(x: symbol, y: symbol)
.rule tell(X) when inserted edge(X, _) do call slow(X), call quick(X).
"""


class Functions:
    """`slow` hangs when it is told to, until it is released; both write down what they are called with."""

    def __init__(self, database: upshot.Database) -> None:
        self.called: list[tuple[str, str]] = []
        self.threads: set[int] = set()
        self.hangs, self.release = threading.Event(), threading.Event()
        database.action("slow", self._slow)
        database.action("quick", lambda rows: self._note("quick", rows))

    def _slow(self, rows: list[tuple[str]]) -> None:
        if rows == [("hang",)]:
            self.hangs.set()
            self.release.wait(PATIENCE)
        self._note("slow", rows)

    def _note(self, function: str, rows: list[tuple[str]]) -> None:
        self.threads.add(threading.get_ident())
        self.called += [(function, name) for (name,) in rows]


def committed(running: Running, name: str) -> None:
    status, answer, _ = running.request("POST", "/transactions", {"insert": {"edge": [[name, "b"]]}})
    assert status == 200, answer


def metric(running: Running, name: str) -> float:
    text = running.service.metrics.text().decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"upshot_{name} "))


@pytest.mark.parametrize("durable", [False, True])
def test_commits_and_other_functions_go_on_without_one_that_hangs(
    tmp_path: Path, durable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    database = upshot.connect(tmp_path / "store") if durable else upshot.connect()
    database.define(PROGRAM)
    functions = Functions(database)
    with Running(database, Settings(bounds=RequestBounds(seconds=2.0))) as running:
        committed(running, "a")
        assert functions.called == [("slow", "a"), ("quick", "a")], "before the answer"
        assert len(functions.threads) == 1
        for name in ("hang", "b", "c"):
            committed(running, name)
        assert functions.hangs.is_set()
        assert functions.called[2:] == [("quick", "hang"), ("quick", "b"), ("quick", "c")]
        assert (metric(running, "late_calls_total"), metric(running, "outbox_length")) == (1, 3)
        assert [firing.instances for firing in database.pending()] == [[("hang",)], [("b",)], [("c",)]]
        (line,) = [each for each in caplog.messages if "has not returned" in each]
        assert line.startswith("`slow`, called by a rule, has not returned after 2 seconds")
        database.discard(database.pending()[1].key)
        functions.release.set()
        until = time.monotonic() + PATIENCE
        while database.pending():
            assert time.monotonic() < until
            time.sleep(0.01)
        assert functions.called[5:] == [("slow", "hang"), ("slow", "c")], "in order, but for what was given up"
        committed(running, "d")
        assert functions.called[7:] == [("slow", "d"), ("quick", "d")]


def test_a_function_that_commits_is_not_waited_for_by_itself() -> None:
    database = upshot.connect()
    database.define(PROGRAM + ".decl seen(x: symbol) .rule more(X) when inserted seen(X) do call slow(X).")
    called = []

    def slow(rows: list[tuple[str]]) -> None:
        called.extend(rows)
        if rows == [("a",)]:
            with database.transaction() as tx:
                tx.insert("seen", [("z",)])

    database.action("slow", slow)
    database.action("quick", called.extend)
    with Running(database, Settings(bounds=RequestBounds(seconds=PATIENCE))) as running:
        committed(running, "a")
        assert called == [("a",), ("z",), ("a",)]
        assert metric(running, "late_calls_total") == 0


def test_a_function_that_ends_its_thread_ends_nothing_else() -> None:
    database = upshot.connect()
    database.define(PROGRAM)
    database.action("slow", lambda rows: sys.exit(1))
    database.action("quick", lambda rows: None)
    with Running(database, Settings(bounds=RequestBounds(seconds=PATIENCE))) as running:
        for name in ("a", "b"):
            committed(running, name)
        assert len(database.pending()) == 2
