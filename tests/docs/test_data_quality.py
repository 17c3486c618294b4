"""The how-to for data quality does what it says: its examples run; its pipeline does in `tests/pipeline`."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.cli.test_tutorial import FENCE
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "how-to" / "data-quality.md"


def _blocks() -> list[tuple[str, str | None, str]]:
    return [(match[1], match[2], match[3]) for match in FENCE.finditer(PAGE.read_text(encoding="utf-8"))]


def test_every_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(text for language, file, text in _blocks() if language == "python" and file is None)
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 20
    assert doctest.DocTestRunner().run(test).failed == 0


def test_every_block_is_a_file_or_is_run() -> None:
    assert all(file is not None or language in ("python", "console") for language, file, _ in _blocks())
    assert all(text.startswith(">>>") for language, file, text in _blocks() if language == "python" and file is None)
