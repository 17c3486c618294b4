"""Promises about the repository itself that no other tool checks."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import upshot
from tests.docs.markdown import ROOT, project_files

PYTHON = [path for path in project_files() if path.suffix == ".py"]
VAGUE = {"utils", "util", "helpers", "helper", "misc", "common"}


def test_the_public_names_are_sorted_and_exist() -> None:
    assert list(upshot.__all__) == sorted(upshot.__all__)
    assert [name for name in upshot.__all__ if not hasattr(upshot, name)] == []


def test_the_version_is_the_same_everywhere() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert upshot.__version__ == declared
    assert f"## {declared}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    home = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/\w" + "|" + re.escape(f"{ROOT.parent}/"))
    places = []
    for path in project_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        places += [f"{path.relative_to(ROOT)}: {m.group()}" for m in home.finditer(text)]
    assert places == []


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_short_and_names_say_something(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 800
    assert path.stem not in VAGUE
    long = [
        f"{node.name}: {length} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > 50
    ]
    assert long == []


def test_the_places_to_edit_that_the_architecture_names_exist() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text().split("| to … | edit |")[1]
    places = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(places) > 10
    assert [each for each in places if not (ROOT / "src/upshot" / each).exists() and not (ROOT / each).exists()] == []


def test_the_files_that_descriptions_of_packages_name_exist() -> None:
    """They are named from the root, from `src/upshot` or from the package itself."""
    for path in (ROOT / "src" / "upshot").rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        places = (ROOT, ROOT / "src" / "upshot", path.parent)
        named = re.findall(r"[\w/-]+\.(?:py|md)\b", text)
        assert [each for each in named if not any((at / each).exists() for at in places)] == [], path


def test_an_unknown_relation_is_worded_in_one_place() -> None:
    """`core/errors.py` has the words; Datalog, SQL, calls, requests and change files use them."""
    places = [path for path in (ROOT / "src").rglob("*.py") if 'f"unknown relation `' in path.read_text()]
    assert [path.name for path in places] == ["errors.py"]


def test_the_oracle_imports_only_core_syntax_and_check() -> None:
    allowed = ("upshot.core", "upshot.syntax", "upshot.check", "upshot.engine.naive")
    for path in (ROOT / "src" / "upshot" / "engine").glob("naive*.py"):
        imported = {n.module or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)}
        assert [m for m in imported if m.startswith("upshot") and not m.startswith(allowed)] == []


def test_the_makefile_has_at_most_ten_targets_and_lists_them_all() -> None:
    text = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    explained = re.findall(r"^([a-z]+):.*## \S", text, re.MULTILINE)
    assert sorted(phony.split()) == sorted(explained)
    assert len(explained) <= 10


def test_a_decision_note_fits_on_a_page_and_is_numbered() -> None:
    notes = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [n.name[:4] for n in notes] == [f"{i:04}" for i in range(1, len(notes) + 1)]
    assert [n.name for n in notes if n.read_text().count("\n") > 40] == []
