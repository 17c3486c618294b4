from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"
CODE = re.compile(r'(?:code=|_wrong\(|Diagnostic\(\s*|slug = )"([a-z0-9]+(?:-[a-z0-9]+)*)"')


def test_the_examples_of_the_python_reference_run() -> None:
    path = REFERENCE / "python.md"
    # A fence right after the expected output would count as output.
    text = path.read_text().replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, "python.md", str(path), 0)
    assert len(test.examples) > 30
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert results.failed == 0


def test_every_slug_of_the_database_is_documented() -> None:
    pages = [page.read_text() for page in (REFERENCE / "diagnostics").glob("*.md")]
    documented = {slug for page in pages for slug in re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.M)}
    used: set[str] = set()
    for file in (ROOT / "src/upshot/database").rglob("*.py"):
        used |= set(CODE.findall(file.read_text()))
    assert len(used) > 25
    assert used - documented == set()


@pytest.mark.parametrize("module", ["files.souffle_writer", "database", "connect"])
def test_the_examples_in_the_code_run(module: str) -> None:
    imported = __import__(f"upshot.database.{module}", fromlist=["_"])
    results = doctest.testmod(imported)
    assert results.attempted > 0
    assert results.failed == 0
