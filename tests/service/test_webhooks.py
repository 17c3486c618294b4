"""Webhooks: signed, in order, until they are confirmed; across failures and restarts."""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running
from upshot.service.access.scopes import Scopes
from upshot.service.service import Service
from upshot.service.settings import RequestBounds, Settings
from upshot.service.webhooks.couriers import RetryPlan
from upshot.service.webhooks.deliveries import signature

SECRET = "correct horse"
SETTINGS = Settings(heartbeat=0.2, webhook_hosts=("127.0.0.1",), webhook_insecure=True)


class Receiver:
    """A web server that keeps what it is sent; `answers` are the statuses it gives, one after the other, then 204. With
    a `context` it speaks TLS."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: list[int] = []
        self.attempts: list[tuple[dict[str, str], bytes]] = []
        self.confirmed: list[dict[str, Any]] = []
        self.before_answer: Callable[[], None] = lambda: None
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.attempts.append(({name.lower(): value for name, value in self.headers.items()}, body))
                receiver.before_answer()
                status = receiver.answers.pop(0) if receiver.answers else 204
                if status < 300:
                    receiver.confirmed.append(json.loads(body))
                self.send_response(status)
                if status in (301, 302, 307):
                    self.send_header("location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def wait(self, count: int, timeout: float = PATIENCE) -> list[dict[str, Any]]:
        """Everything that was confirmed, once it is so many."""
        until = time.monotonic() + timeout
        while len(self.confirmed) < count:
            assert time.monotonic() < until, f"{count} deliveries; there are {self.confirmed}"
            time.sleep(0.01)
        return self.confirmed

    def wait_for_attempts(self, count: int, timeout: float = PATIENCE) -> None:
        """Returns once it was sent so much, confirmed or not."""
        until = time.monotonic() + timeout
        while len(self.attempts) < count:
            assert time.monotonic() < until, f"{count} attempts; there are {len(self.attempts)}"
            time.sleep(0.01)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", SECRET)
    found = Receiver()
    yield found
    found.close()


def serve(folder: Path | None = None, attempts: int = 4) -> Running:
    database = upshot.connect() if folder is None else upshot.connect(folder)
    if "edge" not in database.schemas:
        database.define(CLOSURE)

    def prepare(service: Service) -> None:
        service.hub.webhooks.retries = RetryPlan(0.02, 0.1, attempts)

    return Running(database, SETTINGS, prepare=prepare)


def insert(server: Running, *edges: tuple[str, str]) -> int:
    with server.database.transaction() as tx:
        tx.insert("edge", list(edges))
    return tx.version


def subscribe(server: Running, receiver: Receiver, **more: Any) -> dict[str, Any]:
    body = {"view": "closure", "url": receiver.url, "secret": "HOOKS", **more}
    status, made, _ = server.request("POST", "/subscriptions", body)
    assert status == 201, made
    return made


def state_of(server: Running, id: str, wanted: str) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE
    while True:
        _, found, _ = server.request("GET", f"/subscriptions/{id}")
        if found["state"] == wanted:
            return found
        assert time.monotonic() < until, found
        time.sleep(0.02)


def known_to_have(server: Running, id: str, version: int) -> None:
    """Returns once the answer to the delivery has arrived too: a service that stops before sends it once more."""
    until = time.monotonic() + PATIENCE
    while server.request("GET", f"/subscriptions/{id}")[1]["cursor"] != version:
        assert time.monotonic() < until
        time.sleep(0.01)


def intervals_since(began: float, seconds: float) -> int:
    """How many net changes what was done since then may come in, with one for each interval of so many seconds: as many
    as have passed, those under way at both ends, and a late one."""
    return int((time.monotonic() - began) / seconds) + 3


def test_all_rows_come_first_and_then_each_change_signed(receiver: Receiver) -> None:
    with serve() as server:
        first = insert(server, ("a", "b"))
        made = subscribe(server, receiver)
        receiver.wait(1)
        second = insert(server, ("b", "c"))
        snapshot, change = receiver.wait(2)
        assert snapshot == {
            "subscription": made["id"], "view": "closure", "version": first, "since": None, "snapshot": True,
            "insert": [["a", "b"]], "delete": [],
        }  # fmt: skip
        assert (change["since"], change["version"]) == (first, second)
        assert sorted(change["insert"]) == [["a", "c"], ["b", "c"]]
        for headers, body in receiver.attempts:
            signed = hmac.new(SECRET.encode(), f"{headers['upshot-timestamp']}.".encode() + body, hashlib.sha256)
            assert headers["upshot-signature"] == f"sha256={signed.hexdigest()}"
            assert abs(int(headers["upshot-timestamp"]) - time.time()) < PATIENCE


def test_the_signature_is_over_timestamp_and_body() -> None:
    assert signature(b"k", "1", b"{}") == "sha256=" + hmac.new(b"k", b"1.{}", hashlib.sha256).hexdigest()


def test_a_failed_delivery_is_sent_again_with_the_same_id_before_the_next_one(receiver: Receiver) -> None:
    receiver.answers = [204, 500, 302, 503, 204]
    with serve() as server:
        subscribe(server, receiver)
        receiver.wait(1)
        one, two = insert(server, ("a", "b")), insert(server, ("b", "c"))
        confirmed = receiver.wait(3)
        assert [each["version"] for each in confirmed[1:]] == [one, two]
        ids = [headers["upshot-delivery"] for headers, _ in receiver.attempts]
        assert len(set(ids[1:5])) == 1
        assert len({body for _, body in receiver.attempts[1:5]}) == 1
        assert len(set(ids)) == 3


def test_after_so_many_attempts_it_is_suspended_and_goes_on_when_it_is_resumed(receiver: Receiver) -> None:
    receiver.answers = [204, 500, 500, 500]
    with serve(attempts=3) as server:
        id = subscribe(server, receiver)["id"]
        receiver.wait(1)
        one, two = insert(server, ("a", "b")), insert(server, ("b", "c"))
        found = state_of(server, id, "suspended")
        assert (found["reason"], found["dead_letters"]) == ("undeliverable", 1)
        _, letters, _ = server.request("GET", f"/subscriptions/{id}/dead-letters")
        (letter,) = letters["dead_letters"]
        assert (letter["version"], letter["attempts"], letter["error"]) == (one, 3, "the answer was 500")
        status, resumed, _ = server.request("POST", f"/subscriptions/{id}/resume")
        assert (status, resumed["state"]) == (200, "active")
        assert [each["version"] for each in receiver.wait(3)[1:]] == [one, two]
        assert letter["delivery"] == receiver.attempts[4][0]["upshot-delivery"]


def test_a_dead_letter_can_be_skipped(receiver: Receiver) -> None:
    receiver.answers = [204, 410]
    with serve() as server:
        id = subscribe(server, receiver)["id"]
        receiver.wait(1)
        insert(server, ("a", "b"))
        state_of(server, id, "suspended")
        two = insert(server, ("b", "c"))
        server.request("POST", f"/subscriptions/{id}/resume", {"skip": True})
        assert receiver.wait(2)[1]["version"] == two


def test_webhooks_go_on_after_a_restart_from_their_cursor(receiver: Receiver, tmp_path: Path) -> None:
    with serve(tmp_path / "store") as server:
        id = subscribe(server, receiver)["id"]
        receiver.wait(1)
        one = insert(server, ("a", "b"))
        receiver.wait(2)
        known_to_have(server, id, one)
    with upshot.connect(tmp_path / "store") as between, between.transaction() as tx:
        tx.insert("edge", [("b", "c")])
    with serve(tmp_path / "store") as server:
        three = insert(server, ("c", "d"))
        confirmed = receiver.wait(4)
        assert [each["version"] for each in confirmed[1:]] == [one, tx.version, three]
        assert [each["since"] for each in confirmed[1:]] == [confirmed[0]["version"], one, tx.version]
        _, listed, _ = server.request("GET", "/subscriptions")
        assert [each["id"] for each in listed["subscriptions"]] == [id]


def test_a_net_change_that_was_under_way_at_the_restart_is_the_same_delivery(
    receiver: Receiver, tmp_path: Path
) -> None:
    with serve(tmp_path / "store", attempts=1000) as server:
        subscribe(server, receiver, every=0.1)
        receiver.wait(1)
        receiver.answers = [500] * 1000
        insert(server, ("a", "b"))
        receiver.wait_for_attempts(3)
    failed = receiver.attempts[1]
    with upshot.connect(tmp_path / "store") as between, between.transaction() as tx:
        tx.insert("edge", [("b", "c")])
    receiver.answers = []
    receiver.attempts.clear()
    with serve(tmp_path / "store"):
        until = time.monotonic() + PATIENCE
        while receiver.confirmed[-1]["version"] != tx.version:
            assert time.monotonic() < until, receiver.confirmed
            time.sleep(0.01)
        assert receiver.attempts[0][0]["upshot-delivery"] == failed[0]["upshot-delivery"]
        assert receiver.attempts[0][1] == failed[1]
        assert sorted(receiver.confirmed[-1]["insert"]) == [["a", "c"], ["b", "c"]]


def test_an_interval_is_one_net_change(receiver: Receiver) -> None:
    with serve() as server:
        subscribe(server, receiver, every=0.5)
        start, began = receiver.wait(1)[0]["version"], time.monotonic()
        for _ in range(10):
            insert(server, ("a", "b"))
            with server.database.transaction() as tx:
                tx.delete("edge", [("a", "b")])
        last = insert(server, ("a", "b"))
        passed = intervals_since(began, 0.5)
        until = time.monotonic() + PATIENCE
        while receiver.confirmed[-1]["version"] < last:
            assert time.monotonic() < until, receiver.confirmed
            time.sleep(0.01)
        rows: set[tuple[str, ...]] = set()
        for change in receiver.confirmed[1:]:
            assert change["since"] == start
            rows = (rows - set(map(tuple, change["delete"]))) | set(map(tuple, change["insert"]))
            start = change["version"]
        assert (rows, start) == ({("a", "b")}, last)
        assert len(receiver.confirmed) - 1 <= passed


def test_on_demand_it_is_delivered_when_somebody_asks(receiver: Receiver) -> None:
    with serve() as server:
        id = subscribe(server, receiver, every="demand")["id"]
        receiver.wait(1)
        insert(server, ("a", "b"))
        insert(server, ("b", "c"))
        time.sleep(0.3)
        assert len(receiver.confirmed) == 1
        assert server.request("POST", f"/subscriptions/{id}/deliver")[0] == 202
        assert sorted(receiver.wait(2)[1]["insert"]) == [["a", "b"], ["a", "c"], ["b", "c"]]


def test_a_selection_hears_of_its_rows_only(receiver: Receiver) -> None:
    with serve() as server:
        since = insert(server, ("x", "y"))
        subscribe(server, receiver, where='closure("a",Y)', since=since)
        insert(server, ("p", "q"))
        version = insert(server, ("a", "b"), ("q", "r"))
        assert receiver.wait(1)[0]["insert"] == [["a", "b"]]
        assert receiver.confirmed[0]["version"] == version


def test_a_receiver_that_hangs_does_not_hold_up_commits_or_others(receiver: Receiver) -> None:
    release = threading.Event()
    receiver.before_answer = lambda: release.wait(PATIENCE) and None
    other = Receiver()
    try:
        with serve() as server:
            subscribe(server, receiver)
            subscribe(server, other)
            other.wait(1)
            # What is committed before all rows are read is among them, and is no delivery of its own.
            receiver.wait_for_attempts(1)
            for n in range(20):
                insert(server, (f"n{n}", "m"))
            assert len(other.wait(21)) == 21
            assert (len(receiver.attempts), receiver.confirmed) == (1, []), "it hangs all the while"
            release.set()
            assert len(receiver.wait(21)) == 21
    finally:
        release.set()
        other.close()


def test_a_removed_webhook_hears_nothing_more(receiver: Receiver) -> None:
    with serve() as server:
        id = subscribe(server, receiver)["id"]
        receiver.wait(1)
        assert server.request("DELETE", f"/subscriptions/{id}")[0] == 204
        insert(server, ("a", "b"))
        time.sleep(0.2)
        assert len(receiver.attempts) == 1
        status, body, _ = server.request("GET", f"/subscriptions/{id}")
        assert (status, body["error"]["code"]) == (404, "not-found")


def test_what_cannot_be_subscribed_to_is_refused_at_once(receiver: Receiver) -> None:
    with serve() as server:
        good = {"view": "closure", "url": receiver.url, "secret": "HOOKS"}
        for change, status, code in (
            ({"view": "nothing"}, 404, "not-found"),
            ({"secret": "OTHER"}, 400, "webhook-secret"),
            ({"secret": "../X"}, 400, "webhook-secret"),
            ({"url": "http://10.0.0.1/"}, 400, "webhook-target"),
            ({"url": "gopher://127.0.0.1/"}, 400, "webhook-target"),
            ({"where": "edge(X,Y)"}, 400, "bad-selection"),
        ):
            found, body, _ = server.request("POST", "/subscriptions", {**good, **change})
            assert (found, body["error"]["code"]) == (status, code), body
        for change in ({"every": 0}, {"every": "often"}, {"since": -1}, {"more": 1}, {"url": 7}):
            found, _, _ = server.request("POST", "/subscriptions", {**good, **change})
            assert found in (400, 422)
        assert server.request("GET", "/subscriptions")[1] == {"subscriptions": []}


def test_a_token_sees_its_own_webhooks_only_and_loses_them_with_its_scope(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as server:
        mine = Scopes("mine", frozenset({"closure"}), subscribe=True)
        other = Scopes("other", frozenset({"*"}), subscribe=True)
        now = {"mine": mine, "other": other}
        monkeypatch.setattr(server.service, "scopes_of", lambda name: now.get(name))
        monkeypatch.setattr(server.service, "scopes", lambda request: now["mine"])
        id = subscribe(server, receiver)["id"]
        receiver.wait(1)
        monkeypatch.setattr(server.service, "scopes", lambda request: now["other"])
        assert server.request("GET", "/subscriptions")[1] == {"subscriptions": []}
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/resume"), ("POST", "/deliver")):
            assert server.request(method, f"/subscriptions/{id}{path}")[0] == 404
        now["mine"] = Scopes("mine", frozenset({"edge"}), subscribe=True)
        insert(server, ("a", "b"))
        time.sleep(0.3)
        assert len(receiver.attempts) == 1
        monkeypatch.setattr(server.service, "scopes", lambda request: now["mine"])
        assert state_of(server, id, "suspended")["reason"] == "forbidden"


def test_the_number_of_webhooks_is_bounded_by_a_setting(receiver: Receiver) -> None:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database, replace(SETTINGS, bounds=RequestBounds(webhooks=1))) as server:
        subscribe(server, receiver)
        body = {"view": "closure", "url": receiver.url, "secret": "HOOKS"}
        status, refused, _ = server.request("POST", "/subscriptions", body)
        assert (status, refused["error"]["code"]) == (409, "too-many-subscriptions")
        assert "--max-webhooks" in refused["error"]["help"]
