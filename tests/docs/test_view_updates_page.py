"""The how-to for view updating and the walk-through of the permissions do what they say."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.test_tutorial import console
from tests.docs.markdown import ROOT, blocks
from tests.service.served_process import ServedProcess
from upshot.cli import main
from upshot.core.search_bounds import Bounds

PAGE = ROOT / "docs" / "how-to" / "view-updates.md"
WALK = ROOT / "examples" / "permissions" / "README.md"


def test_the_examples_of_the_page_run() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False)
    assert outcome.attempted
    assert not outcome.failed


def test_the_reference_has_the_default_bounds() -> None:
    bounds, reference = Bounds(), ROOT / "docs" / "reference"
    shown = repr(bounds)
    assert f"`bounds={shown}`" in (reference / "python.md").read_text()
    http = (reference / "http.md").read_text()
    assert f"`rounds` (default {bounds.rounds}," in http
    assert f"`new_constants` (default {bounds.new_constants}," in http
    commands = (reference / "command-line.md").read_text()
    for option, words in (
        ("--new-values N", f"default {bounds.new_constants} |"),
        ("--seconds S", f"default {bounds.seconds:g} |"),
        ("--rounds N", f"default {bounds.rounds} |"),
    ):
        assert [row for row in commands.splitlines() if row.startswith(f"| `{option}`") and row.endswith(words)]


@pytest.mark.slow
def test_every_command_of_the_walk_through_prints_what_it_shows(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "permissions"
    shutil.copytree(WALK.parent, folder)
    monkeypatch.chdir(folder)
    ran = 0
    for block in blocks(WALK):
        if block.language == "sh":
            assert block.text.startswith("upshot serve permissions.dl --files facts --store permissions.store --port ")
            served = ServedProcess(Path("permissions.dl"), folder / "permissions.store", "--files", "facts")
            served.start().wait_until_ready()
            assert served.stop() == 0
        for command, expected in console(block.text) if block.language == "console" else ():
            name, *arguments = shlex.split(command)
            assert name == "upshot"
            main(arguments)
            out, err = capfd.readouterr()
            assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "…", out + err) == expected, command
            ran += 1
    assert ran == 10
