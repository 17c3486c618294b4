"""What people see when an active rule is wrong: the exact words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.programs import checked, said, slugs
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.syntax.ast import ActiveRule, Atom, Program

_TEXT = (Path(__file__).parent / "rule_mistakes.txt").read_text(encoding="utf-8")
DECLARED, *_BLOCKS = _TEXT.split("\n==== ")


def _mistakes() -> list[tuple[str, str, str]]:
    """Blocks of `rule_mistakes.txt`: a title, rules, and behind `---` what is said about them."""
    found = []
    for block in _BLOCKS:
        title, _, rest = block.partition("\n")
        text, _, words = rest.partition("\n---\n")
        found.append((title, text, words.strip("\n")))
    return found


@pytest.mark.parametrize(("text", "words"), [pytest.param(text, words, id=title) for title, text, words in _mistakes()])
def test_a_mistake_is_explained_in_these_words(text: str, words: str) -> None:
    assert said(DECLARED + text) == words


def test_a_rule_made_without_text_needs_an_action() -> None:
    with pytest.raises(ProgramError) as caught:
        check(Program((ActiveRule("r", (), condition=Atom("p", ())),)))
    assert [found.slug for found in caught.value.diagnostics] == ["unknown-relation", "rule-without-action"]


def test_rules_may_call_in_every_coupling() -> None:
    for coupling in ("immediate", "deferred", "after"):
        rule = f".rule r(I) coupling={coupling} when low(I) do insert orders(I, 1), call f(I)."
        assert checked(DECLARED + rule).rules[0].coupling == coupling


def test_a_condition_of_too_many_alternatives_is_refused() -> None:
    either = ", ".join("(low(I) ; closed(I))" for _ in range(12))
    assert slugs(DECLARED + f".rule r(I) when {either} do call f(I).") == ["too-many-alternatives"]
    olds = ", ".join("old low(I)" for _ in range(12))
    assert slugs(DECLARED + f".rule r(I) when {olds} do call f(I).") == ["too-many-alternatives"]


def test_old_of_many_columns_that_can_be_null_is_refused() -> None:
    columns = ", ".join(f"c{i}: number?" for i in range(6))
    rule = ".rule r(A) when old wide(A, B, C, D, E, F), low(I) do call f(A, B, C, D, E, F, I)."
    assert slugs(DECLARED + f".decl wide({columns})\n" + rule) == ["too-many-alternatives"]
    fewer = ".rule r(A) when old wide(A, 1, 2, _, 3, 4), low(I) do call f(A, I)."
    assert slugs(DECLARED + f".decl wide({columns})\n" + fewer) == []
