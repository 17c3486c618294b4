"""The page that explains maintenance shows the rules that are made."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rewrites.pairs import HERE, checked
from upshot.rewrite import normal_form
from upshot.strategies.maintenance import maintenance
from upshot.strategies.maintenance_listing import list_maintenance

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/maintenance.md").read_text()
DIAGNOSTICS = (ROOT / "docs/reference/diagnostics/rewrite.md").read_text()


def test_the_page_shows_the_program_and_its_rules() -> None:
    program = (HERE / "maintenance/closure.dl").read_text()
    assert program in PAGE
    _, rules = list_maintenance(maintenance(normal_form(checked(program)))).text.split("// ---- closure\n")
    assert rules in PAGE


def test_every_slug_of_the_packages_is_in_the_reference_and_no_other() -> None:
    packages = [ROOT / "src/upshot" / name for name in ("rewrite", "strategies")]
    sources = "".join(path.read_text() for package in packages for path in package.rglob("*.py"))
    used = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', sources))
    assert used == set(re.findall(r"^\| `([a-z-]+)`", DIAGNOSTICS, flags=re.MULTILINE))
