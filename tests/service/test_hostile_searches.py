"""Searches made to take long: whoever commits beside them hardly notices, and the service ends in order."""

from __future__ import annotations

import http.client
import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.search_turns import check_turns, watched_turns
from tests.service.served_process import PATIENCE, ROOT
from tests.service.serving import Running
from upshot.service.routes.realizations import MOST_GIVEN, MOST_NEW, MOST_ROUNDS
from upshot.service.settings import RequestBounds, Settings

PROGRAM = """
.decl noise(x: number)
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Y) :- edge(X, Z), path(Z, Y).
.decl big(a: number, b: number)
.decl circle(x: number)
circle(X) :- big(X, A), big(A, B), big(B, C), big(C, D), big(D, X).
.decl product(x: number)
product(X) :- big(X, _), big(_, Y), big(Y, _), X * Y = 77.
.decl text(s: symbol)
.decl odd(k: number)
odd(K) :- text(S), text(P), match(P, S), K = 1.
"""
MOST = {"limit": MOST_GIVEN, "bounds": {"new_constants": MOST_NEW, "rounds": MOST_ROUNDS}}
HOSTILE: dict[str, dict[str, Any]] = {
    "many new values that are alike": {"insert": {"path": [[100, 200]]}, **MOST},
    "many new values and many requests": {"insert": {"path": [[n, n + 1000] for n in range(100, 130)]}, **MOST},
    "many ways to cut": {"delete": {"path": [[0, 63]]}, **MOST},
    "millions of matches": {"insert": {"circle": [[1000]]}, **MOST},
    "values that all fail": {"insert": {"product": [[1000]]}, **MOST},
    "a pattern that backtracks": {"insert": {"odd": [[1]]}, **MOST},
}
SECONDS = 2.5


def database() -> upshot.Database:
    chance, side = random.Random(3), 8
    made = upshot.connect()
    made.define(PROGRAM)
    with made.transaction() as tx:
        tx.insert("edge", [(x * side + y, x * side + y + 1) for x in range(side) for y in range(side - 1)])
        tx.insert("edge", [(x * side + y, (x + 1) * side + y) for x in range(side - 1) for y in range(side)])
        tx.insert("big", [(chance.randrange(200), chance.randrange(200)) for _ in range(1_500)])
        tx.insert("text", [("(x+x+)+y",), ("(x|x)*z",), ("x" * 40,)])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_commit_does_not_wait_for_searches(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = watched_turns(monkeypatch)
    with Running(database(), Settings(bounds=RequestBounds(seconds=SECONDS))) as running:
        answers: list[dict[str, Any]] = []

        def search() -> None:
            status, answer, _ = running.request("POST", "/realizations", HOSTILE[kind])
            assert status == 200, answer
            answers.append(answer)

        assert running.request("POST", "/transactions", {"insert": {"noise": [[0]]}})[0] == 200
        searches = [threading.Thread(target=search) for _ in range(2)]
        for each in searches:
            each.start()
        number = 0
        while any(each.is_alive() for each in searches):
            time.sleep(0.3)
            # Every other one changes nothing, so that searches go on where they were, or would.
            number += 1
            status, _, _ = running.request("POST", "/transactions", {"insert": {"noise": [[number // 2]]}})
            assert status == 200
        check_turns(turns)
        assert len(answers) == 2
        running.database.verify()


SERVER = """
import sys
from tests.service.test_hostile_searches import database
from upshot.service.server import listen, serve
from upshot.service.service import Service
from upshot.service.settings import RequestBounds, Settings

from upshot.service.writing.searches import SlicedSearch

run_slice, told = SlicedSearch.run_slice, set()
def tell(hunt, is_wanted):
    if id(hunt) not in told:
        told.add(id(hunt))
        print("searches", flush=True)
    return run_slice(hunt, is_wanted)
SlicedSearch.run_slice = tell

settings = Settings(port=0, grace=30.0, bounds=RequestBounds(seconds=600.0))
with listen(settings) as bound:
    serve(Service(database(), settings), bound, lambda address: print(address, flush=True))
"""


@pytest.mark.slow
def test_a_service_ends_in_order_while_searches_are_under_way(tmp_path: Path) -> None:
    """They are told that it stops; nothing is said to be stuck."""
    log = tmp_path / "log"
    with log.open("w") as errors, subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
    ) as process:  # fmt: skip
        try:
            found = _stopped(process)
        finally:
            process.kill()
    assert found == [(503, "shutting-down")] * 2
    assert "does not end" not in log.read_text()


def _stopped(process: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """What two searches are answered when the server is told to stop, which it does soon."""
    assert process.stdout is not None
    port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
    found: list[tuple[int, str]] = []
    threads = [
        threading.Thread(target=lambda body=HOSTILE[kind]: found.append(_sent(port, body)))
        for kind in ("many ways to cut", "millions of matches")
    ]
    for each in threads:
        each.start()
    assert [process.stdout.readline() for _ in threads] == ["searches\n"] * 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    for each in threads:
        each.join()
    return found


def _sent(port: int, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/realizations", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["error"]["code"]
    finally:
        connection.close()
