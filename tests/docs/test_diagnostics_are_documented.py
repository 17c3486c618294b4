"""Every slug of the source is documented and every documented slug exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.docs.markdown import ROOT

SOURCE = ROOT / "src" / "upshot"
PAGES = ROOT / "docs" / "reference" / "diagnostics"

KEBAB = re.compile(r"[a-z]+(-[a-z0-9]+)+")
DOCUMENTED = re.compile(r"^(?:\||#+|[-*])\s*`([a-z]+(?:-[a-z0-9]+)*)`", re.MULTILINE)

OTHER_WORDS = {
    "cache-control",
    "content-length",
    "accept-loss",
    "content-type",
    "fact-dir",
    "no-cache",
    "no-referrer",
    "no-store",
    "output-dir",
    "retry-after",
    "same-origin",
    "sec-fetch-site",
    "spark-sql-kafka",
    "upshot-copy-1",
    "us-east-1",
    "upshot-calls",
    "upshot-epoch",
    "upshot-hub",
    "upshot-reader",
    "upshot-search",
    "upshot-session",
    "upshot-writer",
    "view-update",
    "what-if",
    "why-changed",
    "why-not",
    "utf-8",
    "utf-8-sig",
    "x-accel-buffering",
    "x-request-id",
}
"""Words of the source that look like a slug and are none: options, commands, encodings, headers."""


def _used() -> set[str]:
    """Kebab-case texts of the source, and single words handed over as `code=` or as the slug of a diagnostic."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        if "cli/demo" not in path.as_posix():
            found |= {text for text in _texts(tree) if KEBAB.fullmatch(text)}
        found |= set(_codes(tree))
    return found - OTHER_WORDS


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _codes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [k.value for k in node.keywords if k.arg in ("code", "slug")]
            if isinstance(node.func, ast.Name) and node.func.id == "Diagnostic":
                given += node.args[:1]
            yield from (v.value for v in given if isinstance(v, ast.Constant) and isinstance(v.value, str))


def _documented() -> set[str]:
    return {slug for page in PAGES.glob("*.md") for slug in DOCUMENTED.findall(page.read_text())}


def test_every_slug_of_the_source_is_documented() -> None:
    assert sorted(_used() - _documented()) == []


def test_every_documented_slug_is_one_of_the_source() -> None:
    texts = {text for path in SOURCE.rglob("*.py") for text in _texts(ast.parse(path.read_text()))}
    assert sorted(_documented() - texts) == []
