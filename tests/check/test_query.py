"""Queries: bodies with parameters, answered in the order of their variables."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy
import pytest

from tests.check.programs import checked
from upshot.check import check_query, print_clause
from upshot.core.errors import ProgramError
from upshot.syntax import parse_query

SCHEMAS = checked("""
.type City <: symbol
.decl edge(x: number, y: number)
.decl city(name: City, size: number?)
.decl price(p: decimal(8,2))
.decl day(d: date)
.decl moment(t: timestamp)
.decl weight(w: float)
.decl flag(b: boolean)
""").schemas


def query(text: str, **parameters: Any) -> tuple[str, list[str]]:
    schema, clauses = check_query(parse_query(text), SCHEMAS, parameters)
    return str(schema), [print_clause(c) for c in clauses]


def mistakes(text: str, **parameters: Any) -> list[str]:
    with pytest.raises(ProgramError) as caught:
        query(text, **parameters)
    assert str(caught.value)
    return [d.slug for d in caught.value.diagnostics]


def test_the_columns_are_the_variables_in_order_of_first_appearance() -> None:
    assert query("edge(Y, X), edge(X, Z), N = count : { edge(W, Y) }") == (
        "query(Y: number, X: number, Z: number, N: number)",
        ["query(Y, X, Z, N) :- edge(Y, X), edge(X, Z), N = count : { edge(W, Y) }."],
    )


def test_parameters_become_typed_constants() -> None:
    assert query("edge($x, Y), !edge(Y, $x + 1)", x=3) == (
        "query(Y: number)",
        ["query(Y) :- edge(3, Y), !edge(Y, 3 + 1)."],
    )


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        ("city($v, _)", 'a"b', 'city("a\\"b", _)'),
        ("price($v)", 3, 'price(decimal("3.00"))'),
        ("price($v)", Decimal("1.5"), 'price(decimal("1.50"))'),
        ("weight($v)", 3, "weight(3.0)"),
        ("edge($v, 1)", numpy.int64(4), "edge(4, 1)"),
        ("weight($v)", numpy.float64(4.5), "weight(4.5)"),
        ("flag($v)", True, "flag(true)"),
        ("flag($v)", numpy.bool_(False), "flag(false)"),
        ("day($v)", datetime.date(2026, 1, 31), 'day(date("2026-01-31"))'),
        ("city(_, $v)", None, "city(_, null)"),
    ],
)
def test_python_values_are_bound(text: str, value: object, printed: str) -> None:
    assert query(text, v=value) == ("query()", [f"query() :- {printed}."])


def test_a_disjunction_becomes_clauses() -> None:
    assert query("edge(X, 1) ; city(_, X)") == (
        "query(X: number?)",
        ["query(X) :- edge(X, 1).", "query(X) :- city(_, X)."],
    )


def test_subtypes_are_kept_and_compared_by_kind_only() -> None:
    assert query('city(X, _), X < "M", city(Y, _), X != Y')[0] == "query(X: City, Y: City)"


def test_the_answers_never_have_the_name_of_a_relation() -> None:
    schemas = checked(".decl query(x: number)").schemas
    schema, (clause,) = check_query(parse_query("query(X)"), schemas, {})
    assert schema.name == "query_1"
    assert print_clause(clause) == "query_1(X) :- query(X)."


def test_what_is_wrong_with_a_query_is_reported_at_once() -> None:
    assert mistakes("edg(X), edge($y, Z), Z < W", x=1) == [
        "unknown-relation",
        "unknown-parameter",
        "missing-parameter",
        "unsafe-variable",
    ]


@pytest.mark.parametrize(
    ("text", "parameters", "slug"),
    [
        ("edge($v, _)", {"v": "a"}, "type-mismatch"),
        ("edge($v, _)", {"v": 2**70}, "constant-out-of-range"),
        ("edge($v, _)", {"v": object()}, "bad-parameter"),
        ("moment($v)", {"v": datetime.datetime(2026, 1, 1)}, "bad-parameter"),
        ("price($v)", {"v": Decimal("NaN")}, "bad-parameter"),
        ("price($v)", {"v": Decimal("1.234")}, "constant-out-of-range"),
        ("(edge(X, _) ; city(X, _))", {}, "type-mismatch"),
        ("(edge(X, _) ; edge(_, Y))", {}, "unsafe-variable"),
        ("edge(X, _), X = _", {}, "misplaced-wildcard"),
    ],
)
def test_wrong_queries(text: str, parameters: dict[str, Any], slug: str) -> None:
    assert set(mistakes(text, **parameters)) == {slug}


def test_an_unsafe_query_shows_where() -> None:
    with pytest.raises(ProgramError) as caught:
        query("X < 3")
    assert str(caught.value).splitlines() == [
        "error[unsafe-variable]: variable `X` in the query is not bound",
        " --> <query>:1:1",
        "  |",
        "1 | X < 3",
        "  | ^ no positive literal binds `X`",
        "  = help: use `X` in a positive literal of the body, or give it a value with `X = …`",
    ]
