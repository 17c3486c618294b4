"""A server that runs out of file descriptors says so, and goes on."""

from __future__ import annotations

import errno
import http.client
import json
import logging
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import upshot
from tests.service.served_process import PATIENCE, ServedProcess
from tests.service.serving import CLOSURE, Running
from upshot.engine.local.kernel import machine
from upshot.service import server

NONE_LEFT = OSError(errno.EMFILE, "Too many open files")


def test_warming_without_descriptors_says_what_ran_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load() -> None:
        raise NONE_LEFT

    monkeypatch.setattr(server.MACHINE, "load", load)
    with upshot.connect() as db, caplog.at_level(logging.WARNING):
        server._warm(db)
    assert "no file descriptors left to load machine code" in caplog.text


def test_a_commit_goes_on_without_machine_code_if_it_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def import_module(name: str) -> None:
        raise NONE_LEFT

    found = machine.Machine()
    monkeypatch.setattr(machine.importlib, "import_module", import_module)
    with caplog.at_level(logging.WARNING):
        found.expect(machine.PATIENCE)
    assert (found.is_compiled, found.patience > machine.PATIENCE) == (False, True)
    assert "no file descriptors left" in caplog.text
    monkeypatch.undo()
    found.compile()
    assert found.is_compiled


@pytest.mark.parametrize(("error", "words"), [(NONE_LEFT, "file descriptors"), (MemoryError(), "memory")])
def test_a_request_that_needs_what_ran_out_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    database = upshot.connect()
    database.define(CLOSURE)
    with Running(database) as service:

        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr("upshot.service.routes.views.read_selection", fail)
        status, answer, _ = service.request("GET", "/views/edge")
        assert (status, answer["error"]["code"], answer["error"]["retryable"]) == (503, "too-busy", True)
        assert words in answer["error"]["message"]
        monkeypatch.undo()
        assert service.request("GET", "/views/edge")[0] == 200


def test_connections_beyond_the_descriptors_there_are_for_them_are_refused_and_others_served(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(CLOSURE)
    served = ServedProcess(tmp_path / "p.dl", tmp_path / "store")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    served.start()
    try:
        resource.prlimit(served.pid, resource.RLIMIT_NOFILE, (64, 64))
        served.wait_until_ready()
        held = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(60)]
        first = http.client.HTTPConnection("127.0.0.1", served.port)
        first.sock = held[0]
        body = {"insert": {"edge": [[f"x{i}", f"y{i}"] for i in range(6_000)]}}
        first.request("POST", "/transactions", json.dumps(body), {"content-type": "application/json"})
        assert first.getresponse().status == 200
        assert _error_of(held[-1]) == "too-busy"
        for each in held:
            each.close()
        until = time.monotonic() + PATIENCE
        while not served._is_ready():
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        served.kill()
    assert "Traceback" not in served.log.read_text()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


def _error_of(client: socket.socket) -> str:
    client.settimeout(PATIENCE)
    body = b""
    while piece := client.recv(4_096):
        body += piece
    code = json.loads(body.partition(b"\r\n\r\n")[2])["error"]["code"]
    assert isinstance(code, str)
    return code


def test_a_server_that_could_not_even_start_says_how_many_descriptors_it_needs(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(CLOSURE)
    command = f"ulimit -n 20; exec {sys.executable} -m upshot serve {tmp_path / 'p.dl'} --port 0"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode == 2, ended.stderr
    assert f"needs {server.LEAST} file descriptors; the limit of this process is 20" in ended.stderr
    assert "Traceback" not in ended.stderr
