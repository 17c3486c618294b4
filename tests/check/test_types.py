"""Types of variables, through atoms, equations, functors, comparisons and aggregates."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

import upshot
from tests.check.programs import checked, clauses, slugs
from upshot.core.types import Kind
from upshot.syntax.ast import Comparison, Constant

DECLARED = """
.decl n(x: number)
.decl u(x: unsigned)
.decl f(x: float)
.decl s(x: symbol)
.decl d(x: decimal(10,2))
.decl day(x: date)
.decl flag(x: boolean)
"""


def types(text: str, view: str = "p") -> dict[str, str]:
    clause = next(c for c in checked(DECLARED + text).clauses if c.head.relation == view)
    return {name: str(type) for name, type in clause.types.items()}


@pytest.mark.parametrize(
    ("written", "meant"), [("int", "number"), ("String", "symbol"), ("double", "float"), ("numeric", "decimal(18,2)")]
)
def test_a_type_by_its_name_in_other_languages_has_the_name_here_as_its_cure(written: str, meant: str) -> None:
    with upshot.connect() as db, pytest.raises(upshot.ProgramError, match=re.escape(f"write `{meant}`")):
        db.define(f".decl p(x: {written})")


def test_types_flow_through_equations_in_any_order() -> None:
    text = '.decl p(x: number)\np(Z) :- Z = Y + 1, Y = strlen(X), X = cat(W, "!"), s(W).'
    assert types(text) == {"W": "symbol", "X": "symbol", "Y": "number", "Z": "number"}


@pytest.mark.parametrize(
    ("relation", "expected"), [("n", 1), ("u", 1), ("f", 1.0), ("d", Decimal("1.00"))], ids=["n", "u", "f", "d"]
)
def test_an_integer_literal_takes_the_type_of_what_it_is_compared_with(relation: str, expected: object) -> None:
    clause = checked(DECLARED + f".decl p()\np() :- {relation}(X), X > 1.").clauses[0]
    comparison = clause.body[1]
    assert isinstance(comparison, Comparison)
    assert isinstance(comparison.right, Constant)
    assert (comparison.right.value, type(comparison.right.value)) == (expected, type(expected))
    assert comparison.right.type is not None
    assert comparison.right.type.kind is clause.types["X"].kind


def test_a_literal_takes_its_type_from_far_away() -> None:
    text = ".decl p(x: float)\np(Z) :- X = 1, Y = X * 2, Z = Y - 3."
    assert clauses(text) == ["p(Z) :- X = 1.0, Y = X * 2.0, Z = Y - 3.0."]


def test_a_lone_integer_is_a_number() -> None:
    assert types(".decl p()\np() :- X = 1, X < 2.") == {"X": "number"}


@pytest.mark.parametrize(
    ("aggregate", "column"),
    [
        ("count : { s(_) }", "number"),
        ("count : { s(_) }", "unsigned"),
        ("sum X : { u(X) }", "unsigned"),
        ("sum X : { d(X) }", "decimal(18,2)"),
        ("min X : { s(X) }", "symbol"),
        ("max X : { day(X) }", "date"),
        ("mean X : { n(X) }", "float"),
        ("mean X : { d(X) }", "float"),
        ("sum X + 1 : { f(X) }", "float"),
    ],
)
def test_aggregates_give_these_types(aggregate: str, column: str) -> None:
    assert slugs(DECLARED + f".decl p(x: {column})\np(N) :- N = {aggregate}.") == []


@pytest.mark.parametrize(
    "body",
    [
        "n(X), u(X)",
        "n(X), f(Y), X = Y",
        "u(X), X < 1.5",
        "s(X), X = 1",
        'day(X), X < "2026-01-01"',
        "flag(X), X = 1",
        "n(X), X = 4u",
        "f(X), X % 2.0 = 1.0",
        "d(X), X / 2 = 1",
        "u(X), -X < 0",
        "s(X), Y = mean X : { s(X) }, Y > 1",
        "n(X), Y = substr(X, 0, 1), s(Y)",
        "n(X), X = mean Y : { n(Y) }",
        "s(X), to_number(X) = 1.5",
    ],
)
def test_kinds_never_mix(body: str) -> None:
    assert set(slugs(DECLARED + f".decl p()\np() :- {body}.")) == {"type-mismatch"}


def test_decimals_keep_the_larger_scale_and_add_scales_in_products() -> None:
    text = ".decl p(x: decimal(18,2), y: decimal(18,4), z: decimal(18,3))\n"
    assert slugs(DECLARED + text + "p(X - 1, X * X, max(X, Y) + 0.125) :- d(X), d(Y).") == []


def test_a_product_of_too_many_decimals_is_refused() -> None:
    text = ".decl d9(x: decimal(18,9))\n.decl p(x: decimal(18,18))\np(X * X * X) :- d9(X)."
    assert slugs(text) == ["type-mismatch"]


@pytest.mark.parametrize("constant", ["9.999", 'decimal("9.999")', "100000000.0", "0.1234567890123456"])
def test_a_constant_that_a_decimal_column_cannot_hold_is_refused(constant: str) -> None:
    assert slugs(DECLARED + f"d({constant}).") == ["constant-out-of-range"]


def test_decimals_are_compared_with_numbers_of_any_size() -> None:
    assert slugs(DECLARED + ".decl p()\np() :- d(X), X < 999999999999.") == []


def test_equivalent_types_are_one_type() -> None:
    text = ".type City = symbol\n.decl c(x: City)\n.decl p(x: symbol)\np(X) :- c(X).\nc(X) :- p(X)."
    assert slugs(text) == []
    assert str(checked(text).schemas["c"].columns[0].type) == "symbol"


TOWNS = """
.type Place <: symbol
.type City <: Place
.type Village <: Place
.type Settled = City | Village
.type Rural = Village | Farm
.type Farm <: Place
.decl place(x: Place)
.decl city(x: City)
.decl village(x: Village)
.decl settled(x: Settled)
.decl rural(x: Rural)
.decl text(x: symbol)
"""


@pytest.mark.parametrize(
    "rule",
    [
        "place(X) :- city(X).",
        "text(X) :- city(X).",
        "settled(X) :- city(X).",
        "place(X) :- settled(X).",
        "text(X) :- settled(X).",
        "village(X) :- settled(X), rural(X).",
        "city(X) :- place(X), city(X).",
        "city(X) :- place(Y), city(X), X = Y.",
        "city(Y) :- place(Y), city(X), X = Y.",
        'city("Rome") :- place(_).',
        'city(cat(X, "!")) :- place(X).',
        "place(X) :- X = min Y : { city(Y) }.",
        "city(X) :- city(X), !village(X).",
        "city(X) :- city(X), place(Y), X < Y.",
    ],
)
def test_values_flow_to_wider_types(rule: str) -> None:
    assert slugs(TOWNS + rule) == []


@pytest.mark.parametrize(
    "rule",
    [
        "city(X) :- place(X).",
        "city(X) :- settled(X).",
        "village(X) :- settled(X).",
        "settled(X) :- place(X).",
        "place(X) :- city(X), village(X).",
        "place(X) :- city(X), village(Y), X = Y.",
        "place(X) :- city(X), village(Y), X < Y.",
        "city(X) :- X = max Y : { place(Y) }.",
    ],
)
def test_values_do_not_flow_to_narrower_or_unrelated_types(rule: str) -> None:
    assert slugs(TOWNS + rule) == ["type-mismatch"]


def test_the_type_of_a_variable_is_the_narrowest_it_occurs_in() -> None:
    text = TOWNS + ".decl p(x: City)\np(X) :- text(X), city(X), place(X)."
    clause = next(c for c in checked(text).clauses if c.head.relation == "p")
    assert str(clause.types["X"]) == "City"
    assert clause.types["X"].kind is Kind.SYMBOL


def test_the_overlap_of_two_unions_is_the_type_of_a_variable_in_both() -> None:
    clause = checked(TOWNS + ".decl p(x: Place)\np(X) :- settled(X), rural(X).").clauses[0]
    assert str(clause.types["X"]) == "Village"


def test_types_may_be_declared_after_their_use() -> None:
    assert slugs(".decl p(x: A)\n.type A <: B\n.type B = C\n.type C <: number\np(1).") == []


def test_a_union_inside_a_union_is_opened() -> None:
    types = ".type A <: symbol\n.type B <: symbol\n.type U = A | B\n.type V = U | A\n"
    assert slugs(types + ".decl p(x: V)\n.decl q(x: symbol)\nq(X) :- p(X).") == []
