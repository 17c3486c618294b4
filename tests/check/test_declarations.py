"""Facts, directives, options and constraints of a checked program."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from tests.check.programs import checked, clauses, slugs, warnings
from upshot.check import Constraint, ViewOptions
from upshot.core.schema import Role


def test_facts_of_base_relations_are_values() -> None:
    text = """
.decl r(n: number, u: unsigned, f: float, s: symbol, b: boolean, d: date, t: timestamp, m: decimal(6,2), q: number?)
r(1 + 2 * 3, 7, 1, cat("a", "b"), true, date("2026-01-31"), timestamp("2026-01-31T10:00:00Z"), 1.5, null).
r(-7 / 2, 4u, -0.0, substr("hello", 1, 2), false, date("2026-01-31"), timestamp("2026-01-31T10:00:00Z"), 2, -7 % 2).
"""
    day = datetime.date(2026, 1, 31)
    moment = datetime.datetime(2026, 1, 31, 10, tzinfo=datetime.UTC)
    assert checked(text).facts == {
        "r": (
            (7, 7, 1.0, "ab", True, day, moment, Decimal("1.50"), None),
            (-3, 4, 0.0, "el", False, day, moment, Decimal("2.00"), -1),
        )
    }
    assert str(checked(text).facts["r"][1][2]) == "0.0"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 ^ 10", 1024),
        ("(-2) ^ 63", -(2**63)),
        ("0 ^ 0", 1),
        ("(-1) ^ 1000000000001", -1),
        ("6 band 3", 2),
        ("6 bor 3", 7),
        ("6 bxor 3", 5),
        ("bnot 5", -6),
        ("1 bshl 4", 16),
        ("1 bshl 64", 1),
        ("-8 bshr 1", -4),
        ("max(1, 5, 3)", 5),
        ("min(4, 2)", 2),
        ('strlen("häß")', 3),
        ('ord("a")', 97),
        ('ord("")', -1),
        ('to_number(" -42 ")', -42),
        ('strlen(substr("abc", -1, 2))', 0),
        ("strlen(to_string(1.5))", 3),
        ("-(3)", -3),
    ],
)
def test_ground_expressions_are_computed(expression: str, value: int) -> None:
    assert checked(f".decl r(x: number)\nr({expression}).").facts["r"] == ((value,),)


@pytest.mark.parametrize(
    ("expression", "slug"),
    [
        ("1 / 0", "division-by-zero"),
        ("1 % 0", "division-by-zero"),
        ("3 ^ 1000000000", "overflow"),
        ("1 bshl 63", "overflow"),
        ('to_number(" 1_0 ")', "not-a-number"),
        ("-(-9223372036854775807 - 1)", "overflow"),
        ('to_number("99999999999999999999")', "overflow"),
        ('to_number("1.5")', "not-a-number"),
        ("2 ^ -1", "negative-exponent"),
    ],
)
def test_ground_expressions_without_value_are_refused(expression: str, slug: str) -> None:
    assert slugs(f".decl r(x: number)\nr({expression}).") == [slug]


@pytest.mark.parametrize(("expression", "text"), [("1.0 / 0.0", "inf"), ("-1.0 / 0.0", "-inf"), ("0.0 / 0.0", "nan")])
def test_floats_divide_by_zero(expression: str, text: str) -> None:
    assert str(checked(f".decl r(x: float)\nr({expression}).").facts["r"][0][0]) == text


def test_decimal_facts_must_keep_eighteen_digits() -> None:
    text = '.decl r(x: decimal(18,2))\nr(decimal("9999999999999999.99") + 1).'
    assert slugs(text) == ["overflow"]


def test_a_null_in_ground_arithmetic_gives_null() -> None:
    assert checked(".decl r(x: number?)\nr(null).\nr(max(null, 1)).").facts["r"] == ((None,), (None,))


def test_several_facts_in_one_clause() -> None:
    assert checked(".decl r(x: number)\n.decl s()\nr(1), r(2), s().").facts == {"r": ((1,), (2,)), "s": ((),)}


def test_facts_of_a_view_are_clauses_without_body() -> None:
    text = ".decl e(x: number)\n.decl p(x: number)\np(1 + 1).\np(X) :- e(X)."
    assert checked(text).facts == {}
    assert clauses(text) == ["p(2).", "p(X) :- e(X)."]


def test_a_relation_with_rules_is_a_view_and_without_a_base_relation() -> None:
    program = checked(".decl e(x: number)\n.decl f(x: number)\n.decl p(x: number)\nf(1).\np(X) :- e(X).")
    roles = {name: schema.role for name, schema in program.schemas.items()}
    assert roles == {"e": Role.BASE, "f": Role.BASE, "p": Role.VIEW}


def test_a_view_that_is_also_read_has_a_hidden_base_part() -> None:
    text = """
.decl e(x: number)
.decl p(x: number?) key(x)
.decl p_input()
p(X) :- e(X).
.input p
.input e
.deny p_input_1() :- e(0).
"""
    program = checked(text)
    assert program.input_part == {"p": "p_input_2"}
    assert clauses(text) == ["p(X) :- e(X).", "p(X1) :- p_input_2(X1)."]
    assert program.schemas["p_input_2"].role is Role.BASE
    assert program.schemas["p_input_2"].columns == program.schemas["p"].columns
    assert program.strata == (("p",), ("p_input_1",))


def test_view_options() -> None:
    text = ".decl e(x: number)\n.decl p(x: number)\np(X) :- e(X).\n.view p strategy=rod materialized=false\n"
    assert checked(text + ".view p policy=strict").options == {"p": ViewOptions("rod", False, "strict")}


def test_constraints_have_a_policy_and_inferred_columns() -> None:
    text = """
.type City <: symbol
.decl road(x: City, y: City, km: decimal(6,1))
.deny loop(X, X, 0, K + 1) :- road(X, X, K).
.deny loop(X, Y, 1, K) :- road(X, Y, K), K < 0.
.deny empty() :- !road(_, _, _).
.deny empty on_violation=warn
"""
    program = checked(text)
    assert program.constraints == {"loop": Constraint("loop"), "empty": Constraint("empty", "warn")}
    assert str(program.schemas["loop"]) == "loop(X: City, X_1: City, column_3: number, column_4: decimal(18,1))"
    assert program.schemas["loop"].role is Role.CONSTRAINT
    assert program.strata == (("loop",), ("empty",))


def test_keys_are_positions() -> None:
    program = checked(".decl r(a: number, b: number, c: number) key(c, a) key(b)")
    assert program.schemas["r"].keys == ((2, 0), (1,))


def test_tuning_words_are_accepted_with_a_note() -> None:
    found = warnings('.decl r(x: number) brie\n.pragma "jobs" "4"\nr(1).')
    assert [slug for slug, _ in found] == ["ignored-qualifier", "ignored-directive"]


def test_directives_are_kept() -> None:
    program = checked(".decl r(x: number)\n.input r(IO=file)\n.output r\n.printsize r")
    assert [d.kind for d in program.directives] == ["input", "output", "printsize"]


def test_an_empty_program_is_fine() -> None:
    assert checked("").schemas == {}
