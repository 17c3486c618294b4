"""Terms: constants, operators, functors, aggregates."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from upshot.core.types import BOOLEAN, DATE, FLOAT, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type
from upshot.syntax import parse_query, print_term
from upshot.syntax.ast import Aggregate, Atom, Call, Comparison, Constant, Parameter, Term, Variable, Wildcard


def term(text: str) -> Term:
    found = parse_query(f"V = {text}")
    assert isinstance(found, Comparison)
    return found.right


def shape(found: Term) -> Any:
    """Operators as tuples, variables and constants as themselves."""
    match found:
        case Call(function=function, args=args):
            return (function, *map(shape, args))
        case Variable(name=name):
            return name
        case Constant(value=value):
            return value
        case _:
            return found


@pytest.mark.parametrize(
    ("text", "value", "type_"),
    [
        ("42", 42, None),
        ("-3", -3, None),
        ("- 3", -3, None),
        ("007", 7, None),
        ("0x1F", 31, None),
        ("0b101", 5, None),
        ("42u", 42, UNSIGNED),
        ("0xFFu", 255, UNSIGNED),
        ("9223372036854775807", 2**63 - 1, None),
        ("-9223372036854775808", -(2**63), None),
        ("9223372036854775808", 2**63, UNSIGNED),
        ("18446744073709551615", 2**64 - 1, UNSIGNED),
        ("4.2", 4.2, FLOAT),
        ("1e3", 1000.0, FLOAT),
        ("1.5E-3", 0.0015, FLOAT),
        ("-0.0", 0.0, FLOAT),
        ("true", True, BOOLEAN),
        ("false", False, BOOLEAN),
        ("null", None, None),
        ('"text"', "text", SYMBOL),
        (r'"a\n\t\"\\\x41\u00e9\U0001f600"', 'a\n\t"\\Aé😀', SYMBOL),
        ('"// no comment /* */"', "// no comment /* */", SYMBOL),
        ('""', "", SYMBOL),
        ('date("2026-01-31")', date(2026, 1, 31), DATE),
        ('timestamp("2026-01-31T10:00:00Z")', datetime(2026, 1, 31, 10, tzinfo=UTC), TIMESTAMP),
        ('timestamp("2026-01-31 12:30+02:00")', datetime(2026, 1, 31, 10, 30, tzinfo=UTC), TIMESTAMP),
        ('timestamp("2026-01-31T10:00:00.25")', datetime(2026, 1, 31, 10, 0, 0, 250000, UTC), TIMESTAMP),
        ('decimal("1.50")', Decimal("1.50"), Type(Kind.DECIMAL, precision=3, scale=2)),
        ('decimal("-0.001")', Decimal("-0.001"), Type(Kind.DECIMAL, precision=3, scale=3)),
    ],
)
def test_a_constant_has_the_value_and_the_type_its_spelling_fixes(text: str, value: object, type_: Type | None) -> None:
    found = term(text)
    assert found == Constant(value, type_)
    assert isinstance(found, Constant)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A + B * C", ("+", "A", ("*", "B", "C"))),
        ("A - B - C", ("-", ("-", "A", "B"), "C")),
        ("A - (B - C)", ("-", "A", ("-", "B", "C"))),
        ("A ^ B ^ C", ("^", "A", ("^", "B", "C"))),
        ("-A ^ 2", ("neg", ("^", "A", 2))),
        ("-3 ^ 2", ("neg", ("^", 3, 2))),
        ("(-3) ^ 2", ("^", -3, 2)),
        ("2 ^ -3", ("^", 2, -3)),
        ("A - -3", ("-", "A", -3)),
        ("A -3", ("-", "A", 3)),
        ("-(3)", ("neg", 3)),
        ("- -A", ("neg", ("neg", "A"))),
        ("-A * B", ("*", ("neg", "A"), "B")),
        ("bnot A band B", ("band", ("bnot", "A"), "B")),
        ("bnot(A) ^ 2", ("bnot", ("^", "A", 2))),
        ("A bor B bxor C band D", ("bor", "A", ("bxor", "B", ("band", "C", "D")))),
        ("A bshl 2 + 1", ("bshl", "A", ("+", 2, 1))),
        ("A lor B land C", ("lor", "A", ("land", "B", "C"))),
        ("A % B / C", ("/", ("%", "A", "B"), "C")),
        ("cat(A, strlen(B), min(A, B))", ("cat", "A", ("strlen", "B"), ("min", "A", "B"))),
    ],
)
def test_operators_bind_as_in_souffle(text: str, expected: Any) -> None:
    assert shape(term(text)) == expected
    assert term(print_term(term(text))) == term(text)


R = Atom("r", (Variable("X"),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count : { r(X) }", Aggregate("count", None, R)),
        ("count : r(X)", Aggregate("count", None, R)),
        ("sum X : { r(X) }", Aggregate("sum", Variable("X"), R)),
        ("min X : r(X)", Aggregate("min", Variable("X"), R)),
        ("max(X) : r(X)", Aggregate("max", Variable("X"), R)),
        ("mean (X) * 2 : r(X)", Aggregate("mean", Call("*", (Variable("X"), Constant(2))), R)),
        ("sum X : { r(X) } + 1", Call("+", (Aggregate("sum", Variable("X"), R), Constant(1)))),
        ("max(X, Y)", Call("max", (Variable("X"), Variable("Y")))),
    ],
)
def test_aggregates_are_told_from_functors_of_the_same_name(text: str, expected: Term) -> None:
    assert term(text) == expected


def test_wildcards_parameters_and_names_with_question_marks_are_terms() -> None:
    assert parse_query("r(_, $x, ?y, _z)") == Atom("r", (Wildcard(), Parameter("x"), Variable("?y"), Variable("_z")))


def test_words_of_other_clauses_are_ordinary_variables() -> None:
    for word in ("old", "do", "key", "when", "date", "contains", "band", "view"):
        assert term(f"{word} + 1") == Call("+", (Variable(word), Constant(1)))


def test_a_term_knows_its_place() -> None:
    found = term("(A + 1) * foo(B)")
    assert found.span is not None
    assert found.span.text == "(A + 1) * foo(B)"
    assert isinstance(found, Call)
    assert [arg.span.text for arg in found.args if arg.span] == ["A + 1", "foo(B)"]
