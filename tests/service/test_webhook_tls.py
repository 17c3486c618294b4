"""Webhooks over TLS: to a receiver whose certificate is of its name and of an authority that is trusted, and to no
other."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, Running
from tests.service.test_webhooks import SECRET, Receiver, state_of
from upshot.service.service import Service
from upshot.service.settings import Settings
from upshot.service.webhooks.couriers import RetryPlan

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class Authority:
    """An authority of our own, and the certificates that it signs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.certificate = folder, folder / "ca.pem"
        self._openssl("req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ours", "-days", "2")

    def server(self, name: str) -> ssl.SSLContext:
        """A server's side of TLS, with a certificate for the name."""
        self._openssl("req", *_KEY, "-keyout", "key.pem", "-out", "request.pem", "-subj", f"/CN={name}")
        (self._folder / "names").write_text(f"subjectAltName=DNS:{name}\n")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        self._openssl("x509", "-req", "-in", "request.pem", *signing, "-out", "cert.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "cert.pem", self._folder / "key.pem")
        return context

    def _openssl(self, *options: str) -> None:
        subprocess.run(["openssl", *options], cwd=self._folder, check=True, capture_output=True)


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def subscribed(context: ssl.SSLContext | None, scheme: str = "https") -> Iterator[tuple[Running, Receiver, str]]:
    """A service, a receiver called `localhost`, and the webhook between them."""
    receiver = Receiver(context)
    database = upshot.connect()
    database.define(CLOSURE)

    def prepare(service: Service) -> None:
        service.hub.webhooks.retries = RetryPlan(0.02, 0.1, 2)

    # Loopback is admitted, as a name; that does not make certificates a matter of taste.
    settings = Settings(heartbeat=0.2, webhook_hosts=("localhost",), webhook_insecure=True)
    try:
        with Running(database, settings, prepare=prepare) as server:
            body = {"view": "closure", "url": f"{scheme}://localhost:{receiver.port}/hook", "secret": "HOOKS"}
            status, made, _ = server.request("POST", "/subscriptions", body)
            assert status == 201, made
            yield server, receiver, made["id"]
    finally:
        receiver.close()


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSHOT_WEBHOOK_SECRET_HOOKS", SECRET)


def letters(server: Running, id: str) -> list[dict[str, Any]]:
    state_of(server, id, "suspended")
    found: list[dict[str, Any]] = server.request("GET", f"/subscriptions/{id}/dead-letters")[1]["dead_letters"]
    return found


def test_a_receiver_of_a_trusted_authority_gets_every_change(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with subscribed(authority.server("localhost")) as (server, receiver, _):
        receiver.wait(1)
        with server.database.transaction() as tx:
            tx.insert("edge", [("a", "b")])
        snapshot, change = receiver.wait(2)
        assert (snapshot["snapshot"], change["insert"], change["version"]) == (True, [["a", "b"]], tx.version)
        assert abs(int(receiver.attempts[1][0]["upshot-timestamp"]) - time.time()) < PATIENCE


def test_a_certificate_of_another_name_is_refused(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with subscribed(authority.server("elsewhere.example")) as (server, receiver, id):
        (letter,) = letters(server, id)
        assert "certificate" in letter["error"].lower(), letter
        assert receiver.attempts == []


def test_a_certificate_that_nobody_vouches_for_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with subscribed(authority.server("localhost")) as (server, receiver, id):
        (letter,) = letters(server, id)
        assert "certificate" in letter["error"].lower(), letter
        assert receiver.attempts == []


def test_a_receiver_without_tls_is_not_sent_anything_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    with subscribed(None) as (server, receiver, id):
        assert len(letters(server, id)) == 1
        assert receiver.attempts == []
