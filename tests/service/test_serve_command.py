"""`upshot serve` as a process: it starts, logs, stops on a signal, and starts again with another program."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.service.bank import PROGRAM, bearer, write_tokens
from tests.service.served_process import PATIENCE
from tests.service.serving import CLOSURE, EventReader
from upshot.cli import main

REACHED = """
.decl edge(x: symbol, y: symbol)
.decl both(x: symbol, y: symbol)
both(X, Y) :- edge(X, Y), edge(Y, X).
"""


class Served:
    """A process that serves; `log` are the lines it has written, once it has ended."""

    def __init__(self, process: subprocess.Popen[str], address: str, lines: list[dict[str, Any]]) -> None:
        self.process, self.address, self.log = process, address, lines

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    def ask(self, path: str, body: Any = None, headers: dict[str, str] | None = None, context: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.address.rstrip("/") + path, data, sent)
        with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
            return json.load(answer)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(json.loads(line))
        return self.process.wait(PATIENCE)


@contextmanager
def serving(program: Path, *arguments: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "upshot", "serve", str(program), "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stderr is not None
    lines = []
    try:
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["message"] == "listening":
                break
        yield Served(process, lines[-1]["address"], lines)
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_service_stops_in_order_and_goes_on_where_it_was(tmp_path: Path) -> None:
    program, store = tmp_path / "p.dl", str(tmp_path / "store")
    program.write_text(CLOSURE)
    with serving(program, "--store", store) as served:
        reader = EventReader(served.port, "/views/closure/changes")
        reader.expect("snapshot")
        assert served.ask("/transactions", {"insert": {"edge": [["a", "b"], ["b", "a"]]}})["version"] == 2
        assert len(reader.expect("change")["insert"]) == 4
        served.process.send_signal(signal.SIGTERM)
        assert reader.expect("end") == {"reason": "shutting-down", "cursor": 2}
        assert served.stop() == 0
    with serving(program, "--store", store) as served:
        assert served.ask("/views/closure")["version"] == 2
        assert served.stop(signal.SIGINT) == 0

    program.write_text(REACHED)
    with serving(program, "--store", store) as served:
        assert served.ask("/views/both")["rows"] == [["a", "b"], ["b", "a"]]
        assert [each["name"] for each in served.ask("/program")["relations"]] == ["edge", "both"]
        served.stop()


@pytest.mark.slow
def test_a_program_that_is_wrong_keeps_the_service_from_starting_and_the_store_as_it_was(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with upshot.connect(store) as database:
        database.define(CLOSURE)
    program = tmp_path / "p.dl"
    program.write_text(CLOSURE + "closure(X, Y) :- nosuch(X, Y).")
    command = [sys.executable, "-m", "upshot", "serve", str(program), "--port", "0", "--store", str(store)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (found.returncode, found.stdout) == (1, "")
    assert "error[unknown-relation]" in found.stderr
    with upshot.connect(store) as database:
        assert database.version == 1
        assert sorted(database.schemas) == ["closure", "edge"]


@pytest.mark.slow
def test_the_log_names_requests_and_tokens_and_no_values(tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(PROGRAM)
    tokens = write_tokens(tmp_path / "tokens.toml")
    with serving(program, "--tokens", str(tokens)) as served:
        secret = {"account": [["alice-secret", "DE-secret"], ["bob-secret", "DE-secret"]]}
        head = {**bearer("everything"), "x-request-id": "mine-1"}
        served.ask("/transactions", {"insert": secret}, head)
        for path, body in (
            ("/views/account?where=account(%22alice-secret%22,Y)", None),
            ("/query", {"query": 'account("alice-secret", Y)'}),
            ("/transactions", {"insert": {"account": [["alice-secret", "DE-secret-2"]]}}),
            ("/views/alice-secret", None),
        ):
            with pytest.raises(urllib.error.HTTPError) if "2" in str(body) or "views/al" in path else _nothing():
                served.ask(path, body, bearer("everything"))
        assert served.stop() == 0
    text = json.dumps(served.log)
    assert "secret" not in text.replace("secret-of", "")
    (line,) = [each for each in served.log if each.get("request") == "mine-1"]
    assert (line["route"], line["status"], line["token"]) == ("/transactions", 200, "everything")
    assert 0 < line["seconds"] < 20
    assert served.log[-1]["message"] == "stopping" or any(each["message"] == "stopping" for each in served.log)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.mark.slow
def test_tls_is_spoken_with_a_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("needs openssl")
    program = tmp_path / "p.dl"
    program.write_text(CLOSURE)
    tokens = write_tokens(tmp_path / "tokens.toml")
    files = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tokens", str(tokens))
    with serving(program, *files) as served:
        assert served.address.startswith("https://")
        context = ssl.create_default_context(cafile=str(certificate))
        body = {"token": "secret-of-everything"}
        request = urllib.request.Request(
            served.address + "session", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
            cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-upshot-session=")
        assert "Secure" in cookie.split("; ")
        assert served.stop() == 0


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.dl"
    program.write_text(CLOSURE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        began = time.process_time()
        assert main(["serve", str(program), "--port", str(port)]) == 2
    assert "address-in-use" in capsys.readouterr().err
    assert time.process_time() - began < 10


@pytest.mark.parametrize("amount", ["1000", "all", "commits=1000,bytes=1GiB,age=7d"])
def test_how_much_of_the_past_is_kept_can_be_said(tmp_path: Path, amount: str) -> None:
    program = tmp_path / "program.dl"
    program.write_text(".decl edge(x: number, y: number)\n")
    with serving(program, "--store", str(tmp_path / "store"), "--keep", amount) as served:
        assert served.address


@pytest.mark.parametrize("amount", ["much", "-1", "age=7", "commits=many", "weight=3"])
def test_an_amount_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], amount: str) -> None:
    program = tmp_path / "program.dl"
    program.write_text(".decl edge(x: number, y: number)\n")
    assert main(["serve", str(program), "--store", str(tmp_path / "store"), "--port", "0", "--keep", amount]) == 2
    assert "wrong-argument" in capsys.readouterr().err
