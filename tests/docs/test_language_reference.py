"""Every program of the language reference runs, and gives what stands under it."""

from __future__ import annotations

import doctest
import re

import pytest

import upshot
from tests.docs.markdown import ROOT, Block, blocks
from tests.scripts.script_file import show_row
from upshot.core.types import Kind
from upshot.syntax.items import LATTICES
from upshot.values.aggregates import AGGREGATES

PAGE = ROOT / "docs" / "reference" / "language.md"


def _pairs() -> list[tuple[Block, Block]]:
    found = blocks(PAGE)
    return [(program, found[i + 1]) for i, program in enumerate(found[:-1]) if program.language == "datalog"]


def _lines(db: upshot.Database, names: list[str]) -> list[str]:
    lines = []
    for name in names:
        rows = db.rows(name).sorted()
        lines += [f"{name}{show_row(row)}" for row in rows] or [f"{name}: none"]
    return lines


@pytest.mark.parametrize("pair", _pairs(), ids=lambda pair: f"line {pair[0].line}")
def test_the_program_gives_what_the_page_says(pair: tuple[Block, Block]) -> None:
    program, expected = pair
    with upshot.connect() as db:
        if expected.language == "error":
            with pytest.raises(upshot.Error) as caught:
                db.define(program.text)
            assert str(caught.value).rstrip() == expected.text.rstrip()
            return
        assert expected.language == "rows"
        db.define(program.text)
        wanted = expected.text.splitlines()
        names = list(dict.fromkeys(line.partition(":")[0].partition("(")[0] for line in wanted))
        assert _lines(db, names) == wanted


def test_no_program_stands_without_its_result() -> None:
    programs = [b for b in blocks(PAGE) if b.language == "datalog"]
    assert len(_pairs()) == len(programs) > 10
    assert {result.language for _, result in _pairs()} <= {"rows", "error"}


def test_the_python_of_the_page_runs() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False)
    assert outcome.attempted
    assert not outcome.failed


def test_every_construct_has_an_example() -> None:
    text = "\n".join(each.text for each in blocks(PAGE) if each.language in ("datalog", "python"))
    declared = [*LATTICES, "eqrel", "choice-domain", "inline", "btree", "brie", "overridable"]
    declared += ["key", "foreign", "determines", "notnull", "check"]
    items = [".decl", ".type", ".comp", ".init", ".override", ".functor", ".view", ".deny", ".rule", ".activate"]
    items += [".pragma", ".plan", ".limitsize", "#define", "#ifdef", "pure", "stateful", "fold", "range", "nil", "as"]
    kinds = [kind.value for kind in Kind if kind is not Kind.RECORD]
    wanted = {*AGGREGATES, *declared, *items, *kinds}
    assert [word for word in sorted(wanted) if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)] == []
