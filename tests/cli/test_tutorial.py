"""The tutorial does what it says: its files are written, its commands run, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, environment_with

TUTORIAL = ROOT / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    file: str | None
    text: str
    line: int


def blocks() -> list[Block]:
    text = TUTORIAL.read_text(encoding="utf-8")
    return [Block(m[1], m[2], m[3], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def console(text: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the output under it."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.slow
def test_every_command_of_the_tutorial_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    shim = tmp_path / "bin" / "upshot"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m upshot "$@"\n')
    shim.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    environment = environment_with(PATH=f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    ran = 0
    for block in blocks():
        if block.file is not None:
            (work / block.file).parent.mkdir(parents=True, exist_ok=True)
            (work / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, expected in console(block.text):
                ended = subprocess.run(
                    command, shell=True, cwd=work, env=environment, stdout=-1, stderr=subprocess.STDOUT, timeout=300
                )
                assert ended.stdout.decode() == expected, f"docs/tutorial.md:{block.line}: $ {command}"
                ran += 1
        elif block.language == "python":
            subprocess.run([sys.executable, "-c", block.text], cwd=work, env=environment, check=True, timeout=300)
            ran += 1
    assert ran >= 10


def test_every_block_of_the_tutorial_is_a_file_or_is_run() -> None:
    assert all(block.file is not None or block.language in ("console", "python") for block in blocks())
