"""The tables of built-ins in the language reference are those of the records."""

from __future__ import annotations

from pathlib import Path

from upshot.values.reference import TABLES, written

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "language.md"


def test_the_tables_of_built_ins_are_written_from_their_records() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->\n| written |" in page for name in TABLES)
    assert written(page) == page, "run `python -m upshot.values.reference docs/reference/language.md`"
