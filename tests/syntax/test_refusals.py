"""The parts of Soufflé that are refused: one table in the reference, the code, and a text for each agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.syntax import parse

ROOT = Path(__file__).parents[2]
REFUSED = {
    "unsupported-functor": ["a(__ITERATION__())."],
    "unsupported-autoincrement": ["a(autoinc()).", "a($)."],
    "unsupported-lattice": [".lattice L<> { Bottom -> 1 }", ".decl a(x: number, s: intersection number)"],
    "unsupported-every-relation": [".output *", ".input *", ".printsize *"],
    "unsupported-delta": [".decl a(x: number)\n.decl d = debug_delta(a)"],
    "unsupported-aggregate": ["a(S) :- S = @@add X : 0, { b(X) }."],
    "unsupported-preprocessor": ["#nonsense\na(1)."],
}
REFUSED_BY_THE_CHECK = {
    "unsupported-subsumption": [
        ".decl r(x: number, y: number)  r(A, B) :- r(B, A).  r(A, B) <= r(C, D) :- C + D < A + B."
    ],
    "choice-domain": [
        ".decl r(x: number, y: number) choice-domain x, y  r(A, B) :- r(B, A).",
        ".decl r(x: number, y: number, z: number) choice-domain x  r(A, B, C) :- r(A, C, B).",
        ".decl r(x: number, y: number?) choice-domain x, y",
    ],
}


def documented() -> set[str]:
    page = (ROOT / "docs/reference/diagnostics/syntax.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `(unsupported-[a-z-]+)`", page, re.MULTILINE))


def coded() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src/upshot/syntax").glob("*.py")]
    return {slug for text in texts for slug in re.findall(r'"(unsupported-[a-z-]+)"', text)}


def test_the_table_has_what_the_code_refuses() -> None:
    assert documented() == coded() == REFUSED.keys()


def test_the_language_reference_lists_every_part_that_is_refused() -> None:
    page = (ROOT / "docs/reference/language.md").read_text(encoding="utf-8")
    table = page.partition("## What is refused")[2]
    listed = set(re.findall(r"\| `([a-z-]+)` \|$", table, re.MULTILINE))
    assert listed == {*coded(), *REFUSED_BY_THE_CHECK}


@pytest.mark.parametrize(
    ("slug", "text"),
    [(slug, text) for table in (REFUSED, REFUSED_BY_THE_CHECK) for slug, texts in table.items() for text in texts],
)
def test_a_part_that_stays_out_is_refused_by_name_with_an_alternative(slug: str, text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(text))
    first = caught.value.diagnostics[0]
    assert first.slug == slug
    assert first.help


@pytest.mark.parametrize(
    "text", [".decl a(x: number) btree", ".decl a(x: number) brie inline", '.pragma "legacy"', ".limitsize a(n=3)"]
)
def test_a_tuning_word_is_accepted(text: str) -> None:
    assert parse(text).items
