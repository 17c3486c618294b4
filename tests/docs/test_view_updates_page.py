"""The how-to for view updating and the walk-through of the permissions do what they say."""

from __future__ import annotations

import doctest
import shlex

import pytest

from tests.cli.test_tutorial import console
from tests.docs.markdown import ROOT, blocks
from upshot.cli import main

PAGE = ROOT / "docs" / "how-to" / "view-updates.md"
WALK = ROOT / "examples" / "permissions" / "README.md"


def test_the_examples_of_the_page_run() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False)
    assert outcome.attempted
    assert not outcome.failed


def test_every_command_of_the_walk_through_prints_what_it_shows(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    commands = [each for block in blocks(WALK) if block.language == "console" for each in console(block.text)]
    assert len(commands) == 7
    for command, expected in commands:
        name, *arguments = shlex.split(command)
        assert name == "upshot"
        main(arguments)
        out, err = capfd.readouterr()
        assert out + err == expected, command
