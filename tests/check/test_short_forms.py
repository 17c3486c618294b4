"""Constraints written with a declaration: the clauses they stand for, and what is said where they are wrong."""

from __future__ import annotations

import pytest

from tests.check.programs import checked, clauses, slugs, warnings
from upshot.check.printing import print_checked

QUANTITY = ".decl quantity(item: symbol, n: number) key(item)\n"


@pytest.mark.parametrize(
    ("declaration", "constraint", "expected"),
    [
        (
            "order(item: symbol, n: number) foreign(item) quantity(item)",
            "order_foreign_item",
            ["order_foreign_item(item, n) :- order(item, n), !quantity(item, _)."],
        ),
        (
            "order(item: symbol?, n: number) foreign(item, n) quantity(item, n)",
            "order_foreign_item_n",
            ["order_foreign_item_n(item, n) :- order(item, n), !is_null(item), !quantity(item, n)."],
        ),
        (
            "order(item: symbol) foreign stocked(item) quantity(item)",
            "order_stocked",
            ["order_stocked(item) :- order(item), !quantity(item, _)."],
        ),
        (
            "person(id: number, boss: number?) foreign(boss) person(id)",
            "person_foreign_boss",
            ["person_foreign_boss(id, boss) :- person(id, boss), !is_null(boss), !person(boss, _)."],
        ),
        (
            "r(a: number, b: number, c: number) determines(a : b, c)",
            "r_determines_b_c",
            [
                "r_determines_b_c(a, b, c) :- r(a, b, c), r(a, other_b, _), b != other_b.",
                "r_determines_b_c(a, b, c) :- r(a, b, c), r(a, _, other_c), c != other_c.",
            ],
        ),
        ("r(a: number?) notnull(a)", "r_notnull_a", ["r_notnull_a(a) :- r(a), is_null(a)."]),
        (
            "r(a: number, max: number?) check(a > 0, a <= max)",
            "r_check_1",
            ["r_check_1(a, max_) :- r(a, max_), a <= 0.", "r_check_1(a, max_) :- r(a, max_), a > max_."],
        ),
        (
            "r(a: number, b: number) check positive(a > 0) check(a < b; b = 0)",
            "r_check_1",
            ["r_check_1(a, b) :- r(a, b), a >= b, b != 0."],
        ),
        (
            "r(s: symbol?) check(contains('a', s))".replace("'", '"'),
            "r_check_1",
            ['r_check_1(s) :- r(s), !is_null(s), !contains("a", s).'],
        ),
        (
            "r(s: symbol?, n: number) check(!(is_null(s), n > 2))",
            "r_check_1",
            ["r_check_1(s, n) :- r(s, n), is_null(s), n > 2."],
        ),
        (
            "r(a: number) check(abs(a) > 0)".replace("abs(a)", "max(a, -a)"),
            "r_check_1",
            ["r_check_1(a) :- r(a), max(a, -a) <= 0."],
        ),
    ],
)
def test_a_short_form_stands_for_these_clauses(declaration: str, constraint: str, expected: list[str]) -> None:
    assert clauses(f"{QUANTITY}.decl {declaration}", constraint) == expected


def test_every_column_of_notnull_is_a_constraint_of_its_own() -> None:
    program = checked(".decl r(a: number?, b: symbol?) notnull(a, b)")
    assert list(program.constraints) == ["r_notnull_a", "r_notnull_b"]


def test_a_view_may_have_constraints_in_its_declaration() -> None:
    text = ".decl e(x: number)  .decl v(x: number) check(x > 0)\nv(X) :- e(X)."
    assert clauses(text, "v_check_1") == ["v_check_1(x) :- v(x), x <= 0."]


def test_policies_are_set_as_for_any_constraint() -> None:
    text = ".decl r(a: number) check(a > 0)\n.deny r_check_1 on_violation=warn existing=keep"
    constraint = checked(text).constraints["r_check_1"]
    assert (constraint.on_violation, constraint.existing) == ("warn", "keep")


def test_a_notnull_that_the_type_says_already_is_a_warning_and_no_constraint() -> None:
    text = ".decl r(a: number, b: number?) notnull(a, b)"
    assert warnings(text) == [("idle-notnull", "notnull(a, b)")]
    assert list(checked(text).constraints) == ["r_notnull_b"]


def test_a_wrong_short_form_does_not_make_its_policy_wrong() -> None:
    assert slugs(".decl r(a: number) check(b > 0)\n.deny r_check_1 on_violation=warn") == ["unknown-column"]


def test_a_checked_program_prints_so_that_it_checks_again() -> None:
    text = (
        QUANTITY
        + ".decl order(item: symbol?, count: number?, _: number) foreign(item) quantity(item) notnull(count)\n"
        + "    check(count > 0) determines(item : count)\n"
        + ".deny order_check_1 existing=keep\n.deny order_notnull_count on_violation=warn\n"
    )
    program = checked(text)
    again = checked(print_checked(program))
    assert again.constraints == program.constraints
    assert again.clauses == program.clauses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".decl r(a: number) check(a = 1, q(a))", ["check-reads-relation"]),
        (".decl r(a: number) check(1 = sum(a) : { r(a) })", ["check-reads-relation"]),
        (".decl r(a: number) check(_ > 0)", ["misplaced-wildcard"]),
        (".decl r(a: number) check(nothing(a) > 0)", ["unknown-function"]),
        (".decl r(a: Nowhere) check(a > 0) foreign(a) r(a)", ["unknown-type"]),
        (".decl r(a: number) notnull(b)", ["unknown-column"]),
        (".decl r(a: decimal(8,2)) foreign(a) q(a)\n.decl q(a: decimal(8,3))", ["type-mismatch"]),
        (".decl r(a: number)\n.deny c(X) :- r(X).\n.deny c existing=warn", ["bad-option-value"]),
    ],
)
def test_what_is_wrong_is_said_once(text: str, expected: list[str]) -> None:
    assert slugs(text) == expected
