"""Views of more rows than fit into an answer: read in pieces, in pages, at one version, while commits go on."""

from __future__ import annotations

import base64
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
from upshot.engine.local.storage.codec import Codec
from upshot.service.routes import views
from upshot.service.settings import RequestBounds, Settings
from upshot.service.wire.pages import Pages

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
    with Running(database, Settings(bounds=RequestBounds(rows=100, snapshot=1_000, readers=2))) as service:
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


def all_pages(service: Running, path: str) -> list[list[Any]]:
    found: list[list[Any]] = []
    after = ""
    while True:
        status, page, _ = service.request("GET", f"{path}{after}")
        assert status == 200, page
        found += page["rows"]
        if "next" not in page:
            return found
        after = f"&after={page['next']}"


def test_pages_come_in_the_order_of_any_column(large: Running) -> None:
    everything = sorted(expected())
    assert all_pages(large, "/views/v?limit=97") == [list(row) for row in everything]
    by_text = sorted(everything, key=lambda row: (row[1], row[0]))
    assert all_pages(large, "/views/v?limit=97&order=t") == [list(row) for row in by_text]
    downwards = sorted(everything, key=lambda row: row[1], reverse=True)
    assert all_pages(large, "/views/v?limit=97&order=-t") == [list(row) for row in downwards]
    part = [row for row in everything if row[1] == "text 7"]
    assert all_pages(large, "/views/v?where=v(X,%22text%207%22)&limit=20&order=-x") == [
        list(row) for row in reversed(part)
    ]
    _, page, _ = large.request("GET", "/views/n?limit=3&order=-x")
    assert [row[0] for row in page["rows"]] == [4999, 4998, 4997]


def test_a_page_decodes_no_more_than_its_rows(large: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = Codec.decode

    def counting(self: Codec, codes: Any, type: Any) -> list[Any]:
        decoded.append(len(codes))
        return decode(self, codes, type)

    monkeypatch.setattr(Codec, "decode", counting)
    assert large.request("GET", "/views/v?limit=5")[0] == 200
    assert large.request("GET", "/views/v?limit=5&order=-t")[0] == 200
    assert decoded == [6, 6, 6, 6]


def test_a_cursor_outlives_its_listing_while_nothing_is_committed(large: Running) -> None:
    _, page, _ = large.request("GET", "/views/v?limit=5")
    large.service.pages = Pages()
    path = f"/views/v?limit=5&after={page['next']}"
    status, later, _ = large.request("GET", path)
    assert (status, [row[0] for row in later["rows"]]) == (200, [5, 6, 7, 8, 9])
    with large.database.transaction() as tx:
        tx.insert("n", [(-1, "new"), (4, "zzz")])
    large.service.pages = Pages()
    status, refused, _ = large.request("GET", path)
    assert (status, refused["error"]["code"]) == (410, "page-expired")
    status, later, _ = large.request("GET", f"{path}&consistent=false")
    assert (status, later["version"], later["rows"][0]) == (200, 3, [4, "zzz"])


def test_cursors_of_other_orders_rows_and_views_are_refused(large: Running) -> None:
    _, page, _ = large.request("GET", "/views/v?limit=5&order=-t")
    assert large.request("GET", f"/views/v?limit=5&after={page['next']}")[0] == 200
    cases = {
        f"/views/v?after={page['next']}&order=t": (400, "bad-cursor"),
        f"/views/n?after={page['next']}": (410, "page-expired"),
        f"/views/v?after={page['next']}&where=v(1,T)": (410, "page-expired"),
        f"/views/v?after={page['next'][:-6]}": (400, "bad-cursor"),
        "/views/v?order=u": (400, "unknown-column"),
        "/views/v?order=x,-x": (400, "wrong-argument"),
        "/views/v?order=": (400, "unknown-column"),
    }
    for path, answer in cases.items():
        status, body, _ = large.request("GET", path)
        assert (status, body["error"]["code"]) == answer, path
    content = json.loads(base64.urlsafe_b64decode(page["next"] + "=="))
    for row in ([1], ["x", "y"], [None, "y"], [1.5, "y"], -1, True, 10**30):
        forged = base64.urlsafe_b64encode(json.dumps([*content[:-1], row]).encode()).decode().rstrip("=")
        status, body, _ = large.request("GET", f"/views/v?after={forged}")
        assert (status, body["error"]["code"]) == (400, "bad-cursor"), row


def test_rows_too_long_for_a_cursor_have_pages_too(large: Running) -> None:
    with large.database.transaction() as tx:
        tx.replace("n", [(i % 3, f"{i % 2}{'ü' * 3_000}{i}") for i in range(20)])
    found = all_pages(large, "/views/v?limit=3&order=t")
    assert found == sorted(found, key=lambda row: row[1])
    assert len(found) == 20


def test_the_answers_to_a_query_come_in_pages(large: Running) -> None:
    def pages(**body: Any) -> list[list[Any]]:
        found: list[list[Any]] = []
        after: dict[str, Any] = {}
        while True:
            status, page, _ = large.request("POST", "/query", {**body, **after})
            assert status == 200, page
            found += page["rows"]
            if "next" not in page:
                return found
            after = {"after": page["next"]}
            with large.database.transaction() as tx:
                tx.insert("n", [(-len(found), "text 7")])

    part = sorted(row[0] for row in expected() if row[1] == "text 7")
    query = {"query": "v(X, $t)", "parameters": {"t": "text 7"}}
    assert large.request("POST", "/query", {**query, "limit": 2})[1]["rows"] == [[part[0]], [part[1]]]
    assert pages(**query, limit=9, order="-X") == [[value] for value in reversed(part)]
    sql = "SELECT x % 10 AS digit, x FROM v WHERE t = 'text 8' ORDER BY digit, x"
    part = sorted((row[0] for row in expected() if row[1] == "text 8"), key=lambda x: (x % 10, x))
    assert pages(query=sql, limit=7) == [[value % 10, value] for value in part]
    assert pages(query=sql, limit=7, order="x") == [[value % 10, value] for value in sorted(part)]
    status, body, _ = large.request("POST", "/query", {"query": "v(X, T)"})
    assert (status, body["error"]["code"]) == (422, "too-many-rows")
    for key, value in {"limit": 0, "order": 1, "after": ["x"], "consistent": "no"}.items():
        status, body, _ = large.request("POST", "/query", {"query": "v(X, T)", key: value})
        assert (status, body["error"]["code"]) == (400, "bad-request"), key


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
    monkeypatch.setattr(views, "PATIENCE", 1.0)
    database = upshot.connect()
    database.define(".decl n(x: number, t: symbol)")
    with database.transaction() as tx:
        tx.insert("n", [(i, "x" * 500) for i in range(60_000)])
    with Running(database, Settings(bounds=RequestBounds(rows=100, readers=2))) as service:
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
