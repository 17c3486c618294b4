"""The tutorial of the pipeline does what it says: its files are written, its commands run, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, environment_with
from tests.cli.test_tutorial import FENCE, console
from tests.run_suites import missing_for_spark

TUTORIAL = ROOT / "docs" / "tutorial-pipeline.md"
EXAMPLE = ROOT / "examples" / "pipeline"


def shims(folder: Path) -> str:
    """A PATH on which `upshot` and `python` are the ones that run this test."""
    folder.mkdir()
    for name, words in (("upshot", f'"{sys.executable}" -m upshot'), ("python", f'"{sys.executable}"')):
        (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_for_spark()), reason=missing_for_spark())
def test_every_command_of_the_pipeline_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = environment_with(PATH=shims(tmp_path / "bin"))
    ran = 0
    for match in FENCE.finditer(TUTORIAL.read_text(encoding="utf-8")):
        language, file, text = match.groups()
        if file is not None:
            (work / file).write_text(text, encoding="utf-8")
            continue
        assert language == "console", "every block is a file or is run"
        for command, expected in console(text):
            ended = subprocess.run(
                command, shell=True, cwd=work, env=environment, stdout=-1, stderr=subprocess.STDOUT, timeout=300
            )
            assert ended.stdout.decode() == expected, f"$ {command}"
            ran += 1
    assert ran >= 10


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_for_spark()), reason=missing_for_spark())
def test_the_example_pipeline_runs_as_it_stands(tmp_path: Path) -> None:
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    for number in ("1", "2"):
        subprocess.run([sys.executable, str(tmp_path / "generate.py"), number], check=True, timeout=60)
    ended = subprocess.run(
        [sys.executable, "-m", "upshot", "pipeline", "run", str(tmp_path / "dependencies.toml"), "--once"],
        capture_output=True,
        text=True,
        env=environment_with(),
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    assert re.search(r"batch 0, version 2: [\d,]+ rows in; mod_dep \+\d+ -0; .* local engine", ended.stderr)
