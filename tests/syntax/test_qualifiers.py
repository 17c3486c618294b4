"""Constraints written with a declaration: what is read, what it prints, and what is left to the next clause."""

from __future__ import annotations

import pytest

from upshot.core.errors import ProgramError
from upshot.syntax import parse, print_item
from upshot.syntax.ast import (
    And,
    Atom,
    Comparison,
    Constant,
    Declaration,
    Determines,
    ForeignKey,
    NotNull,
    Rule,
    ShortForm,
    ValueCheck,
    Variable,
)

POSITIVE = Comparison(">", Variable("n"), Constant(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("foreign(item) quantity(item)", ForeignKey(("item",), "quantity", ("item",))),
        ("foreign(a, b)\n    other(c, d)", ForeignKey(("a", "b"), "other", ("c", "d"))),
        ("foreign stocked(item) quantity(item)", ForeignKey(("item",), "quantity", ("item",), "stocked")),
        ("determines(a, b : c)", Determines(("a", "b"), ("c",))),
        ("determines(a: b, c)", Determines(("a",), ("b", "c"))),
        ("determines one_price(a: b)", Determines(("a",), ("b",), "one_price")),
        ("notnull(a, b)", NotNull(("a", "b"))),
        ("check(n > 0)", ValueCheck(POSITIVE)),
        ("check positive(n > 0)", ValueCheck(POSITIVE, "positive")),
        (
            "check(n > 0, n <= max)",
            ValueCheck(And((POSITIVE, Comparison("<=", Variable("n"), Variable("max"))))),
        ),
        ("check(count > 0)", ValueCheck(Comparison(">", Variable("count"), Constant(0)))),
    ],
)
def test_a_short_form_is_read_and_printed(text: str, expected: ShortForm) -> None:
    (item,) = parse(f".decl r(a: number) key(a) {text} btree").items
    assert isinstance(item, Declaration)
    assert item.constraints == (expected,)
    assert (item.keys, item.qualifiers) == ((("a",),), ("btree",))
    assert parse(print_item(item)).items == (item,)


@pytest.mark.parametrize("name", ["check", "foreign", "notnull", "determines"])
@pytest.mark.parametrize("rest", ["(X, 1) :- r(X).", "(1, 2).", "(1, 2), r(2).", " :- r(_)."])
def test_a_relation_may_have_such_a_word_for_its_name(name: str, rest: str) -> None:
    declaration, rule = parse(f".decl r(a: number) {name}{rest}").items
    assert isinstance(declaration, Declaration)
    assert declaration.constraints == ()
    assert isinstance(rule, Rule)
    assert rule.heads[0].relation == name


def test_at_the_margin_the_next_clause_begins() -> None:
    _, rule = parse(".decl check(x: number)\ncheck(1).").items
    assert rule == Rule((Atom("check", (Constant(1),)),))


def test_long_declarations_have_a_constraint_a_line() -> None:
    text = ".decl quantity(item: symbol, stock: number, reserved: number) key(item)"
    forms = ["check(stock >= 0, reserved >= 0)", "check in_stock(reserved <= stock)", "foreign(item) catalog(item)"]
    (item,) = parse(f"{text} {' '.join(forms)}").items
    assert print_item(item) == "\n    ".join([text, *forms])
    assert parse(print_item(item)).items == (item,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foreign(a)", "expected the referenced relation, found the end of the text"),
        ("foreign(a) q", "expected `(` and the referenced columns, found the end of the text"),
        ("foreign() q(a)", "expected the name of a column, found `)`"),
        ("determines(a, b)", "expected `,`, or `:` and the dependent columns, found `)`"),
        ("notnull small(a)", "expected `(`, found `small`"),
        ("check(a > 0", "expected `,`, `;` or `)`, found the end of the text"),
        ("check(1 + a)", "`1 + a` is a value, but a body needs conditions"),
        ("chek(a > 0) btree", "expected `,` or `)`, found `>`"),
        ("chekc small (a > 0)", "`chekc` is not a qualifier of a relation"),
    ],
)
def test_what_is_wrong_with_a_short_form_is_said(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(f".decl r(a: number) {text}")
    assert caught.value.message == message
