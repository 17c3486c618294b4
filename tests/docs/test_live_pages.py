"""The how-tos for live queries, transactions and the past do what they say."""

from __future__ import annotations

import doctest

import pytest

from tests.docs.markdown import ROOT

PAGES = ["live-queries.md", "transactions.md", "past.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_the_page_run(page: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    path = str(ROOT / "docs" / "how-to" / page)
    outcome = doctest.testfile(path, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert outcome.attempted
    assert not outcome.failed
