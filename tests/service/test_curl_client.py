"""The commands of the page on monitoring are run; its shell script is a client that misses nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.service.served_process import PATIENCE, ServedProcess, free_port
from upshot.client import Client
from upshot.service.webhooks.deliveries import signature

PAGE = ROOT / "docs" / "how-to" / "monitoring.md"
PORT = "8400"
SHOWN = ("json", "")
"""What stands behind a command in a block of this kind is what it prints."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Has the page's program, and an `upshot` to call."""
    (tmp_path / "network.dl").write_text(next(block.text for block in blocks(PAGE) if block.language == "datalog"))
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "upshot"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "src"}" exec "{sys.executable}" -m upshot "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[ServedProcess]:
    with ServedProcess(folder / "network.dl", folder / "network.store") as running:
        yield running


def shell(script: str, folder: Path, port: int) -> str:
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    environment.pop("UPSHOT_TOKEN", None)
    ended = subprocess.run(
        ["bash", "-ec", script.replace(PORT, str(port))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, (script, ended.stdout, ended.stderr)
    return ended.stdout


def comparable(text: str) -> str:
    return re.sub(r'"epoch":"[^"]*"', '"epoch":"…"', text).strip()


def test_every_command_of_the_page_prints_what_the_page_says(folder: Path, server: ServedProcess) -> None:
    found, compared = blocks(PAGE), 0
    for block, behind in zip(found, [*found[1:], None], strict=True):
        if block.language != "sh" or block.text.startswith("upshot serve"):
            continue
        printed = comparable(shell(block.text, folder, server.port))
        if behind is not None and behind.language in SHOWN and _follows(block, behind):
            expected = comparable(behind.text)
            printed = printed.partition("\n\nevent: progress")[0]
            assert parts(printed) == parts(expected), block.line
            compared += 1
    assert compared >= 10
    names: dict[str, Any] = {}
    for block in found:
        if block.language == "python":
            exec(compile(block.text.replace(PORT, str(server.port)), f"{PAGE.name}:{block.line}", "exec"), names)
    timestamp, body = str(int(time.time())), b'{"version": 7}'
    headers = {"Upshot-Timestamp": timestamp, "Upshot-Signature": signature(b"secret", timestamp, body)}
    assert names["is_from_the_service"](b"secret", headers, body)
    assert not names["is_from_the_service"](b"other", headers, body)


def parts(text: str) -> list[Any]:
    """The lines; the order of an object's keys and of the rows of a relation is nobody's business."""
    return [
        _in_order(json.loads(line.removeprefix("data: ")))
        if line.removeprefix("data: ").startswith("{") and line.endswith("}")
        else line
        for line in text.splitlines()
    ]


def _in_order(content: Any) -> Any:
    if isinstance(content, dict):
        rows = ("rows", "insert", "delete")
        return {
            key: sorted(value) if key in rows and isinstance(value, list) else _in_order(value)
            for key, value in content.items()
        }
    return content


def _follows(block: Any, behind: Any) -> bool:
    return bool(behind.line == block.line + block.text.count("\n") + 2)


def test_the_page_serves_with_a_command_that_there_is(folder: Path) -> None:
    (serving,) = [b.text for b in blocks(PAGE) if b.language == "sh" and b.text.startswith("upshot serve")]
    port = free_port()
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command = serving.replace(PORT, str(port)).split()
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    try:
        client = Client(f"http://127.0.0.1:{port}", retry_for=PATIENCE)
        assert client.program().relations.keys() == {"edge", "closure"}
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_the_shell_script_misses_nothing_when_it_and_the_service_are_killed(
    folder: Path, server: ServedProcess
) -> None:
    script = next(b.text for b in blocks(PAGE) if "follow.sh <<" in b.text)
    shell(script.partition("SCRIPT\ntimeout ")[0] + "SCRIPT\n", folder, server.port)
    follower = _follow(folder, server.url)
    client = Client(server.url, retry_for=PATIENCE)
    rows: list[frozenset[Any]] = []
    for number in range(12):
        client.transaction(insert={"edge": [(f"n{number}", f"n{number + 1}"), ("é ⟶", "\\n\t'\"")]})
        rows.append(frozenset(client.rows("closure")))
        if number in (3, 7):
            server.kill()
            server.start()
            server.wait_until_ready()
        if number in (5, 9):
            _kill(follower)
            follower = _follow(folder, server.url)
    version = client.rows("closure").version
    deadline = time.monotonic() + PATIENCE
    while (folder / "closure.cursor").read_text().strip() != str(version):
        assert time.monotonic() < deadline, (folder / "closure.log").read_text()
        time.sleep(0.1)
    _kill(follower)
    copy: set[Any] = set()
    told = [line.split(" ", 1) for line in (folder / "closure.log").read_text().splitlines()]
    seen: list[int] = []
    for name, data in told:
        content = json.loads(data)
        if content["version"] in seen:
            continue  # killed between printing and keeping the cursor
        seen.append(content["version"])
        if name == "snapshot":
            assert not copy
            copy = {tuple(row) for row in content["rows"]}
        else:
            copy -= {tuple(row) for row in content["delete"]}
            copy |= {tuple(row) for row in content["insert"]}
    assert copy == rows[-1]
    assert seen == sorted(seen)


def _follow(folder: Path, url: str) -> subprocess.Popen[bytes]:
    with (folder / "closure.log").open("ab") as log:
        return subprocess.Popen(["sh", "follow.sh", url, "closure"], cwd=folder, stdout=log, start_new_session=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
