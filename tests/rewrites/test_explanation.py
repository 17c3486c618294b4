"""The page that explains maintenance shows the rules that are made."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rewrites.pairs import HERE, checked
from upshot.rewrite import maintenance, normal_form, print_maintenance

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/maintenance.md").read_text()
DIAGNOSTICS = (ROOT / "docs/reference/diagnostics/rewrite.md").read_text()


def test_the_page_shows_the_program_and_its_rules() -> None:
    program = (HERE / "maintenance/closure.dl").read_text()
    assert program in PAGE
    _, rules = print_maintenance(maintenance(normal_form(checked(program)))).split("// ---- closure\n")
    assert rules in PAGE


def test_every_slug_of_the_package_is_in_the_reference_and_no_other() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/upshot/rewrite").rglob("*.py"))
    used = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', sources))
    assert used == set(re.findall(r"^\| `([a-z-]+)`", DIAGNOSTICS, flags=re.MULTILINE))
