"""Pages about pipelines do what they say: their files are written, their commands run, their output compared."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, environment_with
from tests.cli.test_tutorial import FENCE, console
from upshot.cli import main

PAGES = {"tutorial-pipeline.md": 10, "how-to/data-quality.md": 8}
"""Pages whose commands are run, each with how many it has at least."""
EXAMPLE = ROOT / "examples" / "pipeline"


def shims(folder: Path) -> str:
    """A PATH on which `python` is the one that runs this test."""
    folder.mkdir()
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_about_pipelines_prints_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Pipelines run beside the session of this run, each command else in a shell."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", shims(tmp_path / "bin"))
    ran = 0
    for match in FENCE.finditer((ROOT / "docs" / page).read_text(encoding="utf-8")):
        language, file, text = match.groups()
        if file is not None:
            (work / file).write_text(text, encoding="utf-8")
            continue
        assert language in ("console", "python"), "every block is a file or is run"
        for command, expected in console(text) if language == "console" else ():
            assert printed(command, capfd) == expected, f"$ {command}"
            ran += 1
    assert ran >= PAGES[page]


def printed(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What a shell would show of `upshot … 2> log | filter`, or of a command without Upshot."""
    if not command.startswith("upshot "):
        return in_shell(command)
    whole, _, filter_ = command.partition(" | ")
    words, _, log = whole.partition(" 2> ")
    capfd.readouterr()
    assert main(shlex.split(words)[1:]) == 0
    out, err = capfd.readouterr()
    if log:
        Path(log).write_text(err, encoding="utf-8")
    else:
        assert err == ""
    return in_shell(filter_, out) if filter_ else out


def in_shell(command: str, given: str = "") -> str:
    environment = environment_with()
    ended = subprocess.run(
        command, shell=True, env=environment, input=given, text=True, stdout=-1, stderr=subprocess.STDOUT, timeout=300
    )
    return ended.stdout


@pytest.mark.usefixtures("spark")
def test_the_example_pipeline_runs_as_it_stands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    for number in ("1", "2"):
        subprocess.run([sys.executable, str(tmp_path / "generate.py"), number], check=True, timeout=60)
    capfd.readouterr()
    code = main(["pipeline", "run", str(tmp_path / "dependencies.toml"), "--once"])
    out, err = capfd.readouterr()
    assert (code, out) == (0, ""), err
    assert re.search(r"batch 0, version 2: [\d,]+ rows in; mod_dep \+\d+ -0; .* local engine", err)
