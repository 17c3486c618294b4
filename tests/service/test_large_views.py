"""Views of more rows than fit into an answer: read in pieces, in pages, at one version, while commits go on."""

from __future__ import annotations

import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import Running
from upshot.service.settings import Bounds, Settings
from upshot.service.wire import whole_answers

ARROW, NDJSON = "application/vnd.apache.arrow.stream", "application/x-ndjson"
PROGRAM = """
.decl n(x: number, t: symbol)
.decl v(x: number, t: symbol)
v(X, T) :- n(X, T).
.decl flag()
flag() :- n(_, _).
"""
ROWS = 5_000


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Answers have at most 100 rows, what is sorted at most 1,000, and pieces 300."""
    monkeypatch.setattr("upshot.service.routes.views.PIECE", 300)
    database = upshot.connect()
    database.define(PROGRAM)
    with database.transaction() as tx:
        tx.insert("n", [(i, f"text {i % 70}") for i in range(ROWS)])
    with Running(database, Settings(bounds=Bounds(rows=100, snapshot=1_000, readers=2))) as service:
        yield service


def fetched(service: Running, path: str, accept: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"accept": accept})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def expected() -> set[tuple[Any, ...]]:
    return {(i, f"text {i % 70}") for i in range(ROWS)}


def lines(body: bytes) -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line)) for line in body.splitlines()]


@pytest.mark.parametrize("view", ["n", "v"])
def test_all_rows_of_a_large_view_come_as_lines_of_json_and_as_arrow(large: Running, view: str) -> None:
    status, head, body = fetched(large, f"/views/{view}", NDJSON)
    assert (status, head["upshot-version"], head["transfer-encoding"]) == (200, "2", "chunked")
    assert (len(lines(body)), set(lines(body))) == (ROWS, expected())
    status, head, body = fetched(large, f"/views/{view}", ARROW)
    table = pyarrow.ipc.open_stream(io.BytesIO(body)).read_all()
    assert (status, head["upshot-version"], table.num_rows) == (200, "2", ROWS)
    assert set(zip(*(column.to_pylist() for column in table.columns), strict=True)) == expected()


def test_a_large_selection_comes_in_pieces_too(large: Running) -> None:
    with large.database.transaction() as tx:
        tx.insert("n", [(i, "same") for i in range(2_000)])
    for accept in (NDJSON, ARROW):
        status, _, body = fetched(large, '/views/v?where=v(X,"same")', accept)
        found = lines(body) if accept == NDJSON else pyarrow.ipc.open_stream(io.BytesIO(body)).read_all().to_pylist()
        assert (status, len(found)) == (200, 2_000)


def test_a_view_without_columns_and_a_small_one_come_at_once(large: Running) -> None:
    _, head, body = fetched(large, "/views/flag", ARROW)
    assert (pyarrow.ipc.open_stream(io.BytesIO(body)).read_all().num_rows, "content-length" in head) == (1, True)


def test_a_page_of_five_rows_of_a_large_view_is_no_error_and_pages_are_all_of_it(large: Running) -> None:
    status, page, _ = large.request("GET", "/views/v?limit=5")
    assert (status, len(page["rows"]), "next" in page) == (200, 5, True)
    found = [tuple(row) for row in page["rows"]]
    while "next" in page:
        with large.database.transaction() as tx:
            tx.insert("n", [(-len(found), "later")])
        _, page, _ = large.request("GET", f"/views/v?after={page['next']}")
        assert page["version"] == 2
        found += [tuple(row) for row in page["rows"]]
    assert (len(found), set(found)) == (ROWS, expected())
    _, head, body = fetched(large, "/views/v?limit=5", NDJSON)
    assert (len(lines(body)), "upshot-next" in head) == (5, True)


def test_commits_go_on_while_a_large_view_is_sent_and_it_stays_of_its_version(large: Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", large.port, timeout=PATIENCE)
    connection.request("GET", "/views/n", headers={"accept": NDJSON})
    answer = connection.getresponse()
    first = answer.read(100)
    for number in range(20):
        body = {"delete": {"n": [[number, f"text {number % 70}"]]}, "insert": {"n": [[-number - 1, "new"]]}}
        assert large.request("POST", "/transactions", body)[0] == 200
    found = lines(first + answer.read())
    connection.close()
    assert (answer.getheader("upshot-version"), len(found), set(found)) == ("2", ROWS, expected())


def _stalled(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET /views/n HTTP/1.1\r\nHost: localhost\r\nAccept: {NDJSON}\r\n\r\n".encode())
    return client


def test_clients_that_take_nothing_are_cut_off_and_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_answers, "PATIENCE", 1.0)
    database = upshot.connect()
    database.define(".decl n(x: number, t: symbol)")
    with database.transaction() as tx:
        tx.insert("n", [(i, "x" * 500) for i in range(60_000)])
    with Running(database, Settings(bounds=Bounds(rows=100, readers=2))) as service:
        clients = [_stalled(service.port) for _ in range(2)]
        until = time.monotonic() + PATIENCE
        while service.service._whole < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        status, _, body = fetched(service, "/views/n", NDJSON)
        assert (status, json.loads(body)["error"]["code"]) == (503, "too-busy")
        assert service.request("POST", "/transactions", {"insert": {"n": [[-1, "y"]]}})[0] == 200
        assert service.request("GET", "/views/n?limit=3")[0] == 200
        while service.service._whole:
            assert time.monotonic() < until, "those who take nothing are cut off"
            time.sleep(0.05)
        assert len(lines(fetched(service, "/views/n", NDJSON)[2])) == 60_001
        for client in clients:
            client.close()


def test_a_client_that_goes_away_ends_its_answer(large: Running) -> None:
    threads = [threading.Thread(target=lambda: _stalled(large.port).close()) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until = time.monotonic() + PATIENCE
    while fetched(large, "/views/n", NDJSON)[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.02)
