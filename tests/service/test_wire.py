"""What comes in before anybody knows whom from: bounded in size and in time, refused in the one shape."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running
from upshot.service.wire import wire

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database) as running:
        yield running


def talk(port: int, *pieces: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        found = b""
        for piece in pieces:
            client.sendall(piece)
        while part := client.recv(65_536):
            found += part
        return found


def refused(answer: bytes) -> tuple[int, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    error = json.loads(body)["error"]
    assert {"code", "message", "help", "retryable"} <= set(error), error
    return int(head.split()[1]), error["code"]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"hello\r\n\r\n",
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}",
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nna me: x\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_in_the_one_shape(service: Running, raw: bytes) -> None:
    assert refused(talk(service.port, raw)) == (400, "bad-request")


def test_two_names_for_the_server_are_refused(service: Running) -> None:
    answer = talk(service.port, HEAD + b"Host: elsewhere.example\r\nConnection: close\r\n\r\n")
    assert (answer.split()[1], b'"bad-request"' in answer) == (b"400", True)


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n"],
        [HEAD, *(b"X%d: a\r\n" % n for n in range(20_000)), b"\r\n"],
        [HEAD, b"X: ", *([b"a" * 1_000] * 1_000)],
        [b"GET /", *([b"a" * 1_000] * 1_000)],
    ],
    ids=["one long line", "many lines", "a line without end", "an address without end"],
)
def test_a_head_beyond_its_bound_is_refused_before_it_is_complete(
    service: Running, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]
) -> None:
    """Whoever goes on sending gets the answer all the same."""
    monkeypatch.setattr(wire, "LINGER", PATIENCE)
    assert refused(talk(service.port, *pieces)) == (431, "too-large")
    assert service.request("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("raw", [b"", b"GET", HEAD, HEAD + b"\r\n" + HEAD], ids=["nothing", "a word", "half", "second"])
def test_a_head_that_does_not_arrive_is_not_waited_for(
    service: Running, monkeypatch: pytest.MonkeyPatch, raw: bytes
) -> None:
    monkeypatch.setattr(wire, "PATIENCE", 0.3)
    answer = talk(service.port, raw)
    assert refused(answer[answer.rindex(b"HTTP/1.1 ") :]) == (408, "timeout")


def test_an_answer_that_takes_longer_than_a_head_may_is_not_cut(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "PATIENCE", 0.3)
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as client:
        client.sendall(b"GET /views/closure/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = b""
        while found.count(b"event: progress") < 4:  # one each 0.2 seconds
            part = client.recv(65_536)
            assert part, found
            found += part
