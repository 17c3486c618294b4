"""The how-to for shortest paths does what it says."""

from __future__ import annotations

import doctest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "how-to" / "shortest-paths.md"


def test_the_examples_of_the_page_run() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert outcome.attempted
    assert not outcome.failed
