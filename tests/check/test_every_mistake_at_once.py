"""A text that cannot be read whole is checked as far as it was understood."""

from __future__ import annotations

import pytest

from upshot.check import with_findings
from upshot.core.errors import ProgramError
from upshot.syntax import parse


def slugs(text: str) -> list[str]:
    with pytest.raises(ProgramError) as error:
        parse(text)
    assert error.value.understood is not None
    return [d.slug for d in with_findings(error.value, error.value.understood).diagnostics]


def test_syntax_errors_and_what_check_finds_are_reported_together_in_order_of_the_text() -> None:
    text = """
    .decl e(x: number)
    .decl r(x: symbol)
    r(X) :- e(X).
    r(X) :- e(X
    .decl q(x: number)
    q(Y) :- e(_).
    """
    assert slugs(text) == ["type-mismatch", "unexpected-token", "unsafe-variable"]


def test_what_an_unread_item_may_have_caused_is_not_reported() -> None:
    text = """
    .decl e(x: number
    .decl p(x: number)
    p(X) :- e(X).
    """
    assert "unknown-relation" not in slugs(text)


def test_a_text_that_is_wrong_only_in_part_reports_just_that() -> None:
    assert slugs(".decl e(x: number)  e(1). e(2") == slugs("e(2")
