"""What people see when they mistype: the exact words, for one mistake and for several."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshot.core.errors import ProgramError
from upshot.syntax import parse


def _mistakes() -> list[tuple[str, str, str]]:
    """Blocks of `mistakes.txt`: a title, the text, and behind `---` what is said about it."""
    blocks = (Path(__file__).parent / "mistakes.txt").read_text(encoding="utf-8").split("\n==== ")[1:]
    found = []
    for block in blocks:
        title, _, rest = block.partition("\n")
        text, _, said = rest.partition("\n---\n")
        found.append((title, text, said.strip("\n")))
    return found


@pytest.mark.parametrize(("text", "said"), [pytest.param(text, said, id=title) for title, text, said in _mistakes()])
def test_a_mistake_is_explained_in_these_words(text: str, said: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text, "program.dl")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        (".type L = [head: number tail: L]\na([1 nil]).\na([).", ["unexpected-token"] * 3),
        (".type T = A { x: number } | B {\na($A(1).", ["unexpected-token"]),
        (".functor f(x: number) number\na(@f 1).\na(@).", ["unexpected-token"] * 3),
        ("a($). b(autoinc()).", ["unsupported-autoincrement"] * 2),
        (".lattice L<> { Bottom -> 1 }\n.decl a(x: L<>)", ["unsupported-lattice"] * 2),
        ("a(X) <= a(Y).\na(X) | .", ["unexpected-token"] * 2),
        (".decl a(x: number, y: number) choice-domain x, ()", ["unexpected-token"]),
        ('a(1). .include "b.dl"', ["misplaced-include"]),
        ("a(-1u). b(1e999). c(0x1FFFFFFFFFFFFFFFF).", ["number-out-of-range"] * 3),
        (f"a(1.{'1' * 500}). b({'9' * 5000}).", ["number-out-of-range"] * 2),
        ('a(decimal("1234567890123456789")).', ["number-out-of-range"]),
        ("a(12abc, 0x, 0b2, 1.2.3.256, 1e5x).", ["malformed-number"] * 5),
        ('a(date("2026-02-30"), date(X), timestamp("noon"), decimal("1,5"), date()).', ["malformed-literal"] * 5),
        ('a(timestamp("0001-01-01T00:00+10:00")).', ["malformed-literal"]),
        (r'a("\q", "\xZZ", "\U00110000").', ["unknown-escape"] * 3),
        ('a("\ud800"). b("\\ud800").', ["broken-character"] * 2),
        ("a(\0). b(\ud800). c(§¶).", ["unexpected-character"] * 3),
        ("a(“x”).", ["unexpected-character"] * 2),
        ("a :- b && c.\na :- b || c.\na :- \\+ b.\na(X) :- X <> 1.\na -> b.", ["unknown-operator"] * 5),
        ("a :- b and c.\na :- b or c.\na :- not b.\na(X) :- X =< 1.\na(X) :- X := 1.", ["unknown-operator"] * 5),
        ("a :- X = count X : { b(X) }.\na :- X = sum : { b(X) }.", ["aggregate-target"] * 2),
        ("a(sum). a(count).", ["reserved-word"] * 2),
        (".decl contains(x: number)\nmatch(1).\ntrue :- a.\na(X) :- X = count : is_null(Y).", ["reserved-word"] * 4),
        ("a :- 1 < X < 3.", ["chained-comparison"]),
        ('a :- X + 1.\na :- _.\na :- "text".\na :- count : { b }.', ["not-a-condition"] * 4),
        ("a(X) :- deleted b(X).", ["state-outside-rule"]),
        (":- a(X).", ["missing-head"]),
        (".decl a(x: number) fast", ["unknown-qualifier"]),
        ("% a comment's text\na(1).\n/* open", ["unexpected-token", "unterminated-comment"]),
    ],
)
def test_what_upshot_does_not_have_is_refused_by_name_and_everywhere(text: str, slugs: list[str]) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    assert [diagnostic.slug for diagnostic in caught.value.diagnostics] == slugs
    assert all(d.help or d.label for d in caught.value.diagnostics)


def test_one_broken_clause_hides_no_other() -> None:
    lines = [f"a{n}(X) :- b(X{')' if n % 3 else ''}, c." for n in range(30)]
    with pytest.raises(ProgramError) as caught:
        parse("\n".join(lines))
    assert [d.span.line for d in caught.value.diagnostics if d.span] == list(range(1, 31, 3))


def test_a_broken_declaration_ends_at_the_next_line_of_its_margin() -> None:
    text = ".decl a(\n  x number,\n  y: number\n)\na(1).\nb(.\n.decl c(x: number)"
    with pytest.raises(ProgramError) as caught:
        parse(text)
    assert [d.span.line for d in caught.value.diagnostics if d.span] == [2, 6]


def test_after_a_hundred_errors_a_note_ends_the_list() -> None:
    with pytest.raises(ProgramError) as caught:
        parse("a(.\n" * 1000)
    assert len(caught.value.diagnostics) == 101
    assert str(caught.value).endswith("note[too-many-errors]: stopped after 100 errors; fix these first")


def test_diagnostics_come_in_the_order_of_the_text() -> None:
    with pytest.raises(ProgramError) as caught:
        parse('a(99999999999999999999, "\\q") :- b(§), X == 1.\nc(.')
    starts = [d.span.start for d in caught.value.diagnostics if d.span]
    assert len(starts) == 4
    assert starts == sorted(starts)
