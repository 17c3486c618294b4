"""Command lines run in this process, or in one of their own where streams and signals matter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from upshot.cli import main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def upshot(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command line in this process."""

    def run(*arguments: object) -> Ended:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Ended(code, out, err)

    return run


@pytest.fixture
def process() -> Callable[..., Ended]:
    """Runs a command line in a process of its own."""

    def run(*arguments: object, stdin: str | bytes = "", cwd: Path = ROOT, **environment: str) -> Ended:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ended = subprocess.run(
            command(*arguments),
            input=given,
            capture_output=True,
            cwd=cwd,
            env=environment_with(**environment),
            timeout=300,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return run


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "upshot", *map(str, arguments)]


def environment_with(**more: str) -> dict[str, str]:
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": source, **more}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file of the test's own directory."""

    def file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return file


CLOSURE = """\
.decl edge(x: number, y: number)
.input edge
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- edge(X, Y), closure(Y, Z).
.output closure
.printsize closure
"""


@pytest.fixture
def closure(write: Callable[[str, str | bytes], Path]) -> Path:
    """A program `closure.dl` with three edges in a directory `facts` beside it."""
    write("facts/edge.facts", "1\t2\n2\t3\n3\t4\n")
    return write("closure.dl", CLOSURE)
