"""The pages on active rules do what they say: every example runs, in order."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks

PAGES = [ROOT / "docs" / "how-to" / "active-rules.md", ROOT / "docs" / "explanation" / "rules.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_prints_what_the_page_shows(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert {block.language for block in found} == {"python"}, "every block is run"
    text = "\n".join(block.text for block in found)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert len(test.examples) > 10
    assert doctest.DocTestRunner().run(test).failed == 0
