"""What people see when a program is wrong: the exact words, all of them in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.programs import said, slugs
from upshot.check import check
from upshot.core.errors import ProgramError
from upshot.syntax.ast import (
    Aggregate,
    Atom,
    Attribute,
    Call,
    Comparison,
    Declaration,
    Formula,
    Parameter,
    Program,
    Rule,
    TypeName,
    Variable,
)
from upshot.syntax.ast import Test as BuiltIn


def _mistakes() -> list[tuple[str, str, str]]:
    """Blocks of `mistakes.txt`: a title, the program, and behind `---` what is said about it."""
    blocks = (Path(__file__).parent / "mistakes.txt").read_text(encoding="utf-8").split("\n==== ")[1:]
    found = []
    for block in blocks:
        title, _, rest = block.partition("\n")
        text, _, words = rest.partition("\n---\n")
        found.append((title, text, words.strip("\n")))
    return found


@pytest.mark.parametrize(("text", "words"), [pytest.param(text, words, id=title) for title, text, words in _mistakes()])
def test_a_mistake_is_explained_in_these_words(text: str, words: str) -> None:
    assert said(text) == words


X = Variable("X")


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        (BuiltIn("is_nul", (X,)), "unknown-function"),
        (BuiltIn("is_null", ()), "wrong-arity"),
        (Comparison("=", X, Call("strlne", (X,))), "unknown-function"),
        (Comparison("=", X, Call("max", ())), "wrong-arity"),
        (Comparison("=", X, Aggregate("mode", X, Atom("q", (X,)))), "unknown-function"),
        (Comparison("=", X, Aggregate("sum", None, Atom("q", (X,)))), "wrong-arity"),
        (Comparison("=", X, Aggregate("count", X, Atom("q", (X,)))), "wrong-arity"),
        (Comparison("=", X, Parameter("x")), "parameter-outside-query"),
        (Atom("q", (X,), "old"), "state-outside-rule"),
    ],
)
def test_trees_that_no_text_gives_are_refused_too(body: Formula, slug: str) -> None:
    columns = (Attribute("x", TypeName("number")),)
    rule = Rule((Atom("p", (X,)),), body)
    program = Program((Declaration("p", columns), Declaration("q", columns), rule))
    with pytest.raises(ProgramError) as caught:
        check(program)
    assert slug in [d.slug for d in caught.value.diagnostics]
    assert str(caught.value)


def test_a_relation_declared_wrongly_says_nothing_about_the_types_of_its_values() -> None:
    text = '.decl e(x: nmber)\n.decl p(x: symbol)\np(X) :- e(X).\np(X) :- e(X), X = "a".\ne(1).'
    assert slugs(text) == ["unknown-type"]


def test_a_variable_of_an_unknown_relation_is_bound_and_of_any_type() -> None:
    assert slugs(".decl p(x: symbol)\np(X) :- nowhere(X), Y = X, strlen(Y) > 2.") == ["unknown-relation"]


def test_mistakes_of_one_rule_do_not_hide_those_of_another() -> None:
    text = ".decl p(x: number)\np(X) :- q(X).\np(X) :- r(X).\np(Y) :- p(_).\np(X) :- p(X), !p(X)."
    assert slugs(text) == ["unknown-relation", "unknown-relation", "unsafe-variable", "unstratified"]


def test_a_mistake_in_a_rule_of_several_clauses_is_reported_once() -> None:
    text = ".decl e(x: number)\n.decl p(x: number)\np(X), p(Y) :- (e(X) ; e(X)), Y = X, Z < X."
    assert slugs(text) == ["unsafe-variable"]


def test_aggregates_nested_too_deep_are_refused() -> None:
    text = ".decl e(x: number)\n.decl p(x: number)\np(N) :- N = " + "count : { e(X), X = " * 20 + "1" + " }" * 20 + "."
    assert slugs(text) == ["too-deep"]


@pytest.mark.parametrize("pairs", [11, 200])
def test_a_rule_of_too_many_alternatives_is_refused(pairs: int) -> None:
    body = ", ".join(f"(e(X, {i}) ; e({i}, X))" for i in range(pairs))
    assert slugs(f".decl e(x: number, y: number)\n.decl p(x: number)\np(X) :- {body}.") == ["too-many-alternatives"]


def test_many_unknown_names_are_reported_quickly() -> None:
    text = "".join(f".decl relation_{i}(x: number)\nrelation_{i}(X) :- relatoin_{i}(X).\n" for i in range(1_000))
    assert slugs(text) == ["unknown-relation"] * 1_000
