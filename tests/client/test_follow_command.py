"""`upshot follow` against a scripted service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.scripted_service import (
    EDGE_COLUMNS,
    PROGRAM,
    Request,
    ScriptedService,
    answer,
    change,
    refused,
    snapshot,
    stream_head,
)

WAIT = 120.0


def command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "upshot", "follow", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "src", **environment},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=WAIT)
    return process.returncode, out, err


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def torn_once(request: Request) -> Iterable[bytes]:
    """Version 3, then the connection breaks in the middle of version 4."""
    if request.path == "/program":
        return answer(PROGRAM)
    if "text/event-stream" not in request.headers["accept"]:
        if "since" in request.parameters:
            return answer({"version": 5, "since": 3, "insert": [[3, 4]], "delete": []})
        return answer({"view": "edge", "version": 5, "columns": EDGE_COLUMNS, "rows": [[3, 4], [1, 2]]})
    return _events(request)


def _events(request: Request) -> Iterator[bytes]:
    yield stream_head()
    if request.cursor is None:
        yield snapshot(3, [[2, 3], [1, 2]]) + change(4, [[3, 4]])[:-20]
        return
    assert request.cursor in (3, 5)
    yield b"".join(each for version, each in LATER.items() if version > request.cursor)
    time.sleep(WAIT)


LATER = {4: change(4, [[3, 4]]), 5: change(5, [], [[2, 3]])}


def test_follow_prints_the_snapshot_and_then_a_line_for_each_commit() -> None:
    with ScriptedService(torn_once) as service:
        process = command(service.url, "edge", "--where", "edge(X, Y)", UPSHOT_TOKEN="from-the-environment")
        assert line(process) == {
            "version": 3,
            "changes": {"edge": {"insert": [[1, 2], [2, 3]], "delete": []}},
            "snapshot": True,
        }
        assert line(process) == {"version": 4, "changes": {"edge": {"insert": [[3, 4]], "delete": []}}}
        assert line(process) == {"version": 5, "changes": {"edge": {"insert": [], "delete": [[2, 3]]}}}
        process.send_signal(signal.SIGINT)
        code, out, err = ended(process)
        request = service.requests[0]
    assert (code, out) == (130, "")
    assert "note[unreachable]" in err or "note[stream-interrupted]" in err
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
    assert request.headers["authorization"] == "Bearer from-the-environment"
    assert request.parameters["where"] == "edge(X, Y)"


@pytest.mark.slow
def test_follow_goes_on_from_its_file(tmp_path: Path) -> None:
    with ScriptedService(torn_once) as service:
        for expected in ([3, 4, 5], []):
            process = command(service.url, "edge", "--state", str(tmp_path / "copy"))
            assert [line(process)["version"] for _ in expected] == expected
            deadline = time.monotonic() + WAIT
            while service.requests[-1].cursor != 5 and not expected and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            assert ended(process)[0] == 130


def test_once_prints_what_there_is_and_ends() -> None:
    with ScriptedService(torn_once) as service:
        code, out, err = ended(command(service.url, "edge", "--once"))
        since = ended(command(service.url, "edge", "--once", "--since", "3"))
    assert (code, err) == (0, "")
    assert out == '{"version": 5, "changes": {"edge": {"insert": [[1,2],[3,4]], "delete": []}}, "snapshot": true}\n'
    assert since == (0, '{"version": 5, "changes": {"edge": {"insert": [[3,4]], "delete": []}}}\n', "")


@pytest.mark.parametrize(
    ("arguments", "code", "slug"),
    [
        (("127.0.0.1", "edge"), 2, "wrong-url"),
        (("URL", "edge", "--ca", "nothing.pem"), 2, "wrong-argument"),
        (("URL", "missing"), 2, "not-found"),
        (("URL", "edge", "--since", "-1"), 2, ""),
    ],
)
def test_what_is_wrong_is_said_with_the_exit_code_of_its_kind(arguments: tuple[str, ...], code: int, slug: str) -> None:
    with ScriptedService(lambda _: refused(404, "not-found")) as service:
        found = ended(command(*(service.url if a == "URL" else a for a in arguments), "--format", "json"))
    assert (found[0], found[1]) == (code, "")
    if slug:
        assert json.loads(found[2])["slug"] == slug


def test_a_reader_that_goes_away_ends_follow() -> None:
    def script(_: Request) -> Iterator[bytes]:
        yield stream_head() + snapshot(3, [])
        for version in range(4, 10_000):
            yield change(version, [[version, 0]])
            time.sleep(0.01)

    with ScriptedService(script) as service:
        process = command(service.url, "edge")
        line(process)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(WAIT) == 141
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        process.stderr.close()
