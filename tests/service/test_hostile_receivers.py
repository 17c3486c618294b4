"""Receivers of webhooks that mean harm: none of them makes the service connect elsewhere, wait, or read on."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from upshot.service.webhooks import deliveries
from upshot.service.webhooks.deliveries import Delivery, FailedDelivery, deliver
from upshot.service.webhooks.targets import TargetRules

INSIDE = TargetRules(("hooks.example.org", "127.0.0.1"), insecure=True)
PUBLIC = TargetRules(("hooks.example.org",))
DELIVERY = Delivery("1-0-1", b"{}")
CONFIRMED = b"HTTP/1.1 204 No Content\r\n\r\n"
Answer = Callable[[socket.socket], None]


class Listener:
    """A server on loopback that answers every connection in its own way; `requests` are what it was sent."""

    def __init__(self, answer: Answer, host: str = "127.0.0.1", port: int = 0) -> None:
        self._answer = answer
        self.requests: list[bytes] = []
        self._socket = socket.create_server((host, port))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(30)
                self.requests.append(connection.recv(65_536))
                try:
                    self._answer(connection)
                except OSError:
                    continue

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def listening(answer: Answer | bytes, host: str = "127.0.0.1", port: int = 0) -> Iterator[Listener]:
    listener = Listener((lambda to: to.sendall(answer)) if isinstance(answer, bytes) else answer, host, port)
    try:
        yield listener
    finally:
        listener.close()


def sent(url: str, rules: TargetRules = INSIDE) -> None:
    asyncio.run(deliver(DELIVERY, rules.target(url), rules, b"secret"))


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """The names that are asked for; each gets the next answer, and the last one again and again."""
    asked: list[str] = []

    def resolved(host: str, port: Any, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        kind = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(kind[":" in each], socket.SOCK_STREAM, 6, "", (each, port or 0)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return asked


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("place", ["http://127.0.0.1:{port}/inside", "//127.0.0.1:{port}/", "/elsewhere"])
def test_a_redirect_is_a_failure_and_nobody_follows_it(status: int, place: str) -> None:
    with listening(CONFIRMED) as inside:
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {place.format(port=inside.port)}\r\nContent-Length: 0\r\n\r\n"
        with listening(head.encode()) as receiver:
            with pytest.raises(FailedDelivery, match=f"the answer was {status}"):
                sent(f"http://127.0.0.1:{receiver.port}/hook")
            assert len(receiver.requests) == 1
        assert inside.requests == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.7", "169.254.169.254", "0.0.0.0", "::1", "fe80::1%lo", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
)
def test_a_name_of_a_private_address_is_not_connected_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[Any] = []
    monkeypatch.setattr(asyncio, "open_connection", lambda *given, **_: connected.append(given))
    resolving(monkeypatch, [address], ["93.184.216.34", address], [address, "93.184.216.34"])
    for _ in range(3):
        with pytest.raises(Exception, match=r"public internet|address of no host"):
            sent("https://hooks.example.org/", PUBLIC)
    assert connected == []


def test_the_address_that_was_looked_at_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers otherwise the second time is not asked a second time."""
    with listening(CONFIRMED) as first, listening(CONFIRMED, "127.0.0.2", first.port) as second:
        asked = resolving(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
        sent(f"http://hooks.example.org:{first.port}/")
        assert (asked, len(first.requests), second.requests) == (["hooks.example.org"], 1, [])
        assert f"\r\nHost: hooks.example.org:{first.port}\r\n".encode() in first.requests[0]
        sent(f"http://hooks.example.org:{first.port}/")
        assert (len(asked), len(first.requests), len(second.requests)) == (2, 1, 1)


def test_the_next_attempt_looks_at_the_address_again(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[Any] = []

    async def refused(host: str, *_: Any, **__: Any) -> Any:
        connected.append(host)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refused)
    resolving(monkeypatch, ["93.184.216.34"], ["127.0.0.1"])
    for expected in ("ConnectionRefusedError", "public internet"):
        with pytest.raises(Exception, match=expected):
            sent("https://hooks.example.org/", PUBLIC)
    assert connected == ["93.184.216.34"]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"])
def test_a_proxy_of_the_environment_is_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would connect by name, to an address that nobody has looked at."""
    with listening(CONFIRMED) as proxy, listening(CONFIRMED) as receiver:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        sent(f"http://127.0.0.1:{receiver.port}/hook")
        assert (proxy.requests, len(receiver.requests)) == ([], 1)
        assert receiver.requests[0].startswith(b"POST /hook HTTP/1.1\r\n")


def test_an_answer_of_any_length_is_confirmed_by_its_status_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(to: socket.socket) -> None:
        to.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            to.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")

    with listening(endless) as receiver:
        tracemalloc.start()
        began = time.monotonic()
        sent(f"http://127.0.0.1:{receiver.port}/hook")
        took, (_, peak) = time.monotonic() - began, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert took < deliveries.PATIENCE
    assert peak < 4 << 20


@pytest.mark.parametrize("line", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n" + b"x: y\r\n" * 9])
def test_interim_answers_without_end_are_a_failure_before_time_is_up(line: bytes) -> None:
    def endless(to: socket.socket) -> None:
        while True:
            to.sendall(line)

    with listening(endless) as receiver:
        began = time.monotonic()
        with pytest.raises(FailedDelivery, match=r"not HTTP|does not begin"):
            sent(f"http://127.0.0.1:{receiver.port}/hook")
    assert time.monotonic() - began < deliveries.PATIENCE / 2


@pytest.mark.parametrize(
    "answer",
    [b"x" * (1 << 20), b"HTTP/1.1 200", b"HTTP/1.1 200 OK", b"HTTP/2 200 OK\r\n", b"\r\n", b"", b"\0" * 99 + b"\n"],
)
def test_what_is_not_an_answer_of_http_is_a_failure(answer: bytes) -> None:
    with listening(answer) as receiver, pytest.raises(FailedDelivery):
        sent(f"http://127.0.0.1:{receiver.port}/hook")


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n"])
def test_a_receiver_that_answers_by_the_byte_is_given_up_when_time_is_up(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(to: socket.socket) -> None:
        to.sendall(first)
        for _ in range(100):
            time.sleep(0.05)
            to.sendall(b"0")

    monkeypatch.setattr(deliveries, "PATIENCE", 0.5)
    with listening(slowly) as receiver:
        began = time.monotonic()
        with pytest.raises(FailedDelivery, match="no answer within"):
            sent(f"http://127.0.0.1:{receiver.port}/hook")
    assert time.monotonic() - began < 5


def test_a_receiver_that_does_not_read_is_given_up_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "PATIENCE", 0.5)
    large = Delivery("1-0-1", b"x" * (64 << 20))
    with listening(lambda to: time.sleep(3)) as receiver:
        target = INSIDE.target(f"http://127.0.0.1:{receiver.port}/")
        with pytest.raises(FailedDelivery, match="no answer within"):
            asyncio.run(deliver(large, target, INSIDE, b"secret"))


def test_a_name_server_that_hangs_is_given_up_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(deliveries, "PATIENCE", 0.5)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(60) and [])
    began = time.monotonic()
    with pytest.raises(FailedDelivery, match="no answer within"):
        sent("https://hooks.example.org/", PUBLIC)
    release.set()
    assert time.monotonic() - began < 5
