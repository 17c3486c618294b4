"""One client that asks for as much as it can, while others commit and read."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

import upshot
from tests.properties.settings import case_count
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from upshot.service.settings import RequestBounds, Settings

PROGRAM = """
.decl n(x: number)
.decl text(t: symbol)
.decl step(x: number, most: number)
.decl runaway(x: number, most: number)
runaway(X, M) :- step(X, M).
runaway(Y, M) :- runaway(X, M), X < M, Y = X + 1.
.decl calm(x: number, y: symbol)
.decl seen(y: symbol)
seen(Y) :- calm(_, Y).
"""
NAMES = "abcdefgh"
SECONDS = 1.0


def posted(port: int, path: str, body: object) -> int:
    """The status of the answer; 0 if nothing came back."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        given = body if isinstance(body, str) else json.dumps(body)
        connection.request("POST", path, given, {"content-type": "application/json"})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def followed(port: int, query: str) -> int:
    """Follows a query, commits what makes it fail, and leaves."""
    client = socket.create_connection(("127.0.0.1", port))
    path = "/changes?" + urlencode({"query": query})
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    client.recv(1_000)
    status = posted(port, "/transactions", {"insert": {"calm": [[-5, "z"]]}})
    posted(port, "/transactions", {"delete": {"calm": [[-5, "z"]]}})
    client.close()
    return status


def attacks(port: int) -> dict[str, Callable[[], int]]:
    """What the one client does, each of it ends in a status; 0 if nothing came back."""

    def post(path: str, body: object) -> int:
        return posted(port, path, body)

    def slow_reader() -> int:
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.sendall(b"GET /views/text HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        time.sleep(0.3)
        client.close()
        return 200

    def slow_sender() -> int:
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(b"POST /transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        time.sleep(0.3)
        client.close()
        return 0

    nested = "[" * 50_000
    return {
        "cross product": lambda: post("/query", {"query": "n(A), n(B), n(C), n(D), A + B + C + D < 0"}),
        "pattern": lambda: post("/query", {"query": 'text(T), match("(a+)+b", T)'}),
        "repeated pattern": lambda: post("/query", {"query": 'text(T), match("((a{1,100}){1,100}){1,100}b", T)'}),
        "runaway recursion": lambda: post("/transactions", {"insert": {"step": [[0, 10**12]]}}),
        "what if it ran away": lambda: post("/what-if", {"insert": {"step": [[0, 10**12]]}}),
        "large body": lambda: post("/transactions", {"insert": {"text": [["x" * 2_000_000]]}}),
        "deep body": lambda: post("/transactions", nested),
        "deep query": lambda: post("/query", {"query": "n(" + "(" * 15_000 + "1"}),
        "power": lambda: post("/query", {"query": "n(X), Y = X ^ 62 ^ 62 ^ 62"}),
        "failing query": lambda: followed(port, "calm(X, _), Y = 10 / (X + 5)"),
        "overflowing query": lambda: followed(port, "calm(X, _), Y = X * 4611686018427387904"),
        "runaway query": lambda: followed(port, "calm(X, _), n(A), n(B), n(C), A + B + C + X < -10"),
        "slow reader": slow_reader,
        "slow sender": slow_sender,
    }


@pytest.mark.slow
def test_others_commit_and_read_exactly_while_one_client_does_what_it_can(tmp_path: Path) -> None:
    database = upshot.connect(tmp_path / "store")
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("n", [(i,) for i in range(1_500)])
        tx.insert("text", [("a" * 2_000 + str(i),) for i in range(300)])
    settings = Settings(bounds=RequestBounds(seconds=SECONDS, body=1_000_000))
    statuses: Counter[tuple[str, int]] = Counter()
    with Running(database, settings) as service:
        ended = threading.Event()

        def attack(name: str, send: Callable[[], int]) -> None:
            while not ended.is_set():
                statuses[name, send()] += 1

        threads = [threading.Thread(target=attack, args=each) for each in attacks(service.port).items()]
        for thread in threads:
            thread.start()
        slowest, tried = 0.0, 0
        commits = case_count(125, least=4)
        for number in range(commits):
            began = time.monotonic()
            while True:
                tried += 1
                body = {"insert": {"calm": [[number, NAMES[number % 8]]]}}
                status, answer, _ = service.request("POST", "/transactions", body)
                if status == 200:
                    break
                assert answer["error"]["retryable"], answer
            slowest = max(slowest, time.monotonic() - began)
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(service.request("GET", "/views/calm")[1]["rows"]) == commits
        assert [row for (row,) in service.request("GET", "/views/seen")[1]["rows"]] == sorted(set(NAMES[:commits]))
        assert service.request("GET", "/views/runaway?limit=1")[1]["rows"] == []
        database.verify()
    assert not [each for each in statuses if each[1] >= 500 and each[1] != 503], statuses
    # A commit waits for those before it in the queue; each of these ends at its bound.
    assert slowest < PATIENCE / 2, (slowest, tried, statuses)
