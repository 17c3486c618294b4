"""A service, or one who follows it, whose files cannot be written for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running
from tests.service.test_webhooks import SECRET, SETTINGS, Receiver, serve, state_of, subscribe
from tests.store import immutable as immutability
from tests.store.immutable import immutable
from upshot.client import Client
from upshot.service.access.tokens import add_token

pytestmark = pytest.mark.skipif(bool(immutability.missing()), reason=immutability.missing())


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", SECRET)
    found = Receiver()
    yield found
    found.close()


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def send(server: Running, *edges: list[str]) -> tuple[int, Any]:
    status, answer, _ = server.request("POST", "/transactions", {"insert": {"edge": list(edges)}})
    return status, answer


def hooks(server: Running) -> list[str]:
    return [each["id"] for each in server.request("GET", "/subscriptions")[1]["subscriptions"]]


@contextmanager
def read_only_log(folder: Path) -> Iterator[None]:
    """No commit, record or cursor can be written."""
    with immutable(folder / "log.sqlite-wal"):
        yield


def test_transactions_are_refused_by_name_while_the_store_cannot_be_written_and_taken_afterwards(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    with serve(folder) as server:
        assert send(server, ["a", "b"])[0] == 200
        with read_only_log(folder):
            status, answer = send(server, ["b", "c"])
            assert (status >= 500, answer["error"]["code"]) == (True, "store-failed")
            assert str(folder) not in str(answer)
            assert len(server.request("GET", "/views/closure")[1]["rows"]) == 1
        assert send(server, ["b", "c"])[0] == 200
        assert len(server.request("GET", "/views/closure")[1]["rows"]) == 3
    with upshot.connect(folder) as database:
        assert len(database.rows("closure")) == 3


def test_a_webhook_that_cannot_be_written_down_is_not_there_and_one_that_cannot_be_removed_stays(
    receiver: Receiver, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    body = {"view": "closure", "url": receiver.url, "secret": "HOOKS"}
    with serve(folder) as server:
        made = subscribe(server, receiver)
        receiver.wait(1)
        with read_only_log(folder):
            status, answer, _ = server.request("POST", "/subscriptions", body)
            assert (status >= 500, answer["error"]["code"]) == (True, "store-failed")
            assert hooks(server) == [made["id"]]
            assert server.request("DELETE", f"/subscriptions/{made['id']}")[0] >= 500
            assert hooks(server) == [made["id"]]
            assert server.request("POST", f"/subscriptions/{made['id']}/resume", {})[0] >= 500
        assert send(server, ["a", "b"])[0] == 200
        assert receiver.wait(2)[1]["insert"] == [["a", "b"]]
        assert server.request("DELETE", f"/subscriptions/{made['id']}")[0] == 204
    with serve(folder) as server:
        assert hooks(server) == []


def test_deliveries_of_net_changes_wait_for_a_store_that_cannot_be_written_and_go_on(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "store"
    with caplog.at_level(logging.WARNING, "upshot.service"), serve(folder) as server:
        made = subscribe(server, receiver, every="demand")
        receiver.wait(1)
        assert send(server, ["a", "b"])[0] == 200
        with read_only_log(folder):
            server.request("POST", f"/subscriptions/{made['id']}/deliver")
            wait_for(lambda: "waits: " in caplog.text)
            assert state_of(server, made["id"], "active")
        server.request("POST", f"/subscriptions/{made['id']}/deliver")
        assert receiver.wait(2)[1]["insert"] == [["a", "b"]]


def test_a_webhook_that_is_suspended_while_the_store_cannot_be_written_is_so_after_a_restart(
    receiver: Receiver, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    with serve(folder) as server:
        made = subscribe(server, receiver)
        receiver.wait(1)
        receiver.answers, gate = [410], threading.Event()
        receiver.before_answer = lambda: gate.wait(PATIENCE) and None
        assert send(server, ["a", "b"])[0] == 200
        receiver.wait_for_attempts(2)
        with read_only_log(folder):
            gate.set()
            state_of(server, made["id"], "suspended")
    with serve(folder) as server:
        assert state_of(server, made["id"], "suspended")["reason"] == "undeliverable"


@pytest.mark.parametrize("place", ["copy", "."])
def test_a_file_of_a_followed_copy_that_cannot_be_written_is_named_at_once(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    with serve() as server, Client(f"http://127.0.0.1:{server.port}") as client:
        if place == "copy":
            client.follow("closure", state=folder / "copy").close()
        with immutable(folder / place), pytest.raises(upshot.EngineError) as caught:
            client.follow("closure", state=folder / "copy").close()
        assert (caught.value.code, str(folder / "copy") in caught.value.message) == ("state-failed", True)
        assert "make the file and its directory writable" in caught.value.help
        with client.follow("closure", state=folder / "copy") as copy:
            assert copy.wait()


def test_a_copy_whose_file_becomes_read_only_ends_by_name_and_goes_on_from_what_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "copies" / "copy"
    file.parent.mkdir()
    database = upshot.connect(tmp_path / "store")
    database.define(CLOSURE)
    with Running(database, SETTINGS) as server, Client(f"http://127.0.0.1:{server.port}") as client:
        with client.follow("closure", state=file) as copy:
            send(server, ["a", "b"])
            assert copy.wait(2, PATIENCE)
            wait_for(lambda: file.with_name("copy-wal").exists())
            with immutable(file.parent):
                send(server, ["b", "c"])
                with pytest.raises(upshot.EngineError) as caught:
                    copy.wait(100, PATIENCE)
                assert caught.value.code == "state-failed"
        heard: list[Any] = []
        with client.follow("closure", state=file, on_change=heard.append) as copy:
            assert copy.wait(3, PATIENCE)
            assert copy.rows == set(client.rows("closure"))
        assert len(copy) == 3


def test_a_token_that_cannot_be_written_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "tokens.toml"
    file.parent.mkdir()
    add_token(file, "first", read=["closure"], write=[], subscribe=False, admin=False)
    before = file.read_bytes()
    for place in (file, file.parent):
        with immutable(place), pytest.raises(upshot.UsageError) as caught:
            add_token(file, "second", read=["closure"], write=[], subscribe=False, admin=False)
        assert (caught.value.code, str(file) in caught.value.message) == ("bad-tokens", True)
        assert (file.read_bytes(), list(file.parent.iterdir())) == (before, [file])
