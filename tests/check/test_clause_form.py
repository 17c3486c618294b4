"""Rules become clauses: one head, one conjunction, aggregates on variables of their own."""

from __future__ import annotations

from tests.check.programs import checked, clauses, warnings

DECLARED = """
.decl e(x: number, y: number)
.decl maybe(x: number?, y: number?)
.decl a(x: number)
.decl b(x: number)
.decl p(x: number)
"""


def test_several_heads_become_several_clauses() -> None:
    assert clauses(DECLARED + "p(X), p(Y) :- e(X, Y).") == ["p(X) :- e(X, Y).", "p(Y) :- e(X, Y)."]


def test_a_disjunction_becomes_clauses_in_the_order_of_the_text() -> None:
    assert clauses(DECLARED + "p(X) :- e(X, 1), (a(X) ; b(X), X < 3) ; a(X), b(X).") == [
        "p(X) :- e(X, 1), a(X).",
        "p(X) :- e(X, 1), b(X), X < 3.",
        "p(X) :- a(X), b(X).",
    ]


def test_negation_moves_inwards() -> None:
    assert clauses(DECLARED + "p(X) :- e(X, _), !(a(X), !b(X) ; X = 7).") == [
        "p(X) :- e(X, _), !a(X), X != 7.",
        "p(X) :- e(X, _), b(X), X != 7.",
    ]


def test_every_negated_comparison_is_turned_round() -> None:
    body = ", ".join(f"!(X {op} Y)" for op in ("=", "!=", "<", "<=", ">", ">="))
    assert clauses(DECLARED + f"p(X) :- e(X, Y), {body}.") == [
        "p(X) :- e(X, Y), X != Y, X = Y, X >= Y, X > Y, X <= Y, X < Y."
    ]


def test_true_is_left_out_and_false_stays() -> None:
    assert clauses(DECLARED + "p(X) :- a(X), true, !false.\np(X) :- b(X), !true.") == [
        "p(X) :- a(X).",
        "p(X) :- b(X), false.",
    ]


def test_a_negated_comparison_of_nullable_operands_has_a_clause_for_every_null() -> None:
    assert clauses(DECLARED + "p(1) :- maybe(X, Y), !(X < Y).") == [
        "p(1) :- maybe(X, Y), X >= Y.",
        "p(1) :- maybe(X, Y), is_null(X).",
        "p(1) :- maybe(X, Y), is_null(Y).",
    ]


def test_a_null_case_makes_other_negated_comparisons_of_the_variable_true() -> None:
    assert clauses(DECLARED + "p(1) :- maybe(X, _), !(X < 3 ; X > 9).") == [
        "p(1) :- maybe(X, _), X >= 3, X <= 9.",
        "p(1) :- maybe(X, _), is_null(X).",
    ]


def test_a_variable_bound_by_two_literals_has_no_null_case() -> None:
    assert clauses(DECLARED + "p(1) :- maybe(X, _), maybe(_, X), !(X < 3).") == [
        "p(1) :- maybe(X, _), maybe(_, X), X >= 3."
    ]


def test_a_negated_inequality_binds_like_an_equation() -> None:
    assert clauses(DECLARED + "p(X) :- !(X != 3).") == ["p(X) :- X = 3."]


def test_negated_tests_stay() -> None:
    text = '.decl s(x: symbol)\n.decl p(x: symbol)\np(X) :- s(X), !contains("a", X), !match("b.*", X).'
    assert clauses(text) == ['p(X) :- s(X), !contains("a", X), !match("b.*", X).']


def test_aggregates_move_onto_variables_of_their_own() -> None:
    text = """
p(count : { e(_, _) } + 1) :- a(_).
p(X) :- a(X), X < sum Y : { e(X, Y) }.
p(X) :- a(X), e(X, max Y : { e(X, Y) }).
p(X) :- a(X), !b(min Y : { e(X, Y) }).
p(X) :- a(X), 3 = count : { e(X, _) }.
p(N) :- count : { a(_) } = N.
p(N) :- N = count : { a(X), X = count : { b(Y), Y < X } }.
"""
    assert clauses(DECLARED + text) == [
        "p(count_1 + 1) :- a(_), count_1 = count : { e(_, _) }.",
        "p(X) :- a(X), sum_1 = sum Y : { e(X, Y) }, X < sum_1.",
        "p(X) :- a(X), max_1 = max Y : { e(X, Y) }, e(X, max_1).",
        "p(X) :- a(X), min_1 = min Y : { e(X, Y) }, !b(min_1).",
        "p(X) :- a(X), count_1 = count : { e(X, _) }, 3 = count_1.",
        "p(N) :- N = count : { a(_) }.",
        "p(N) :- N = count : { a(X), X = count : { b(Y), Y < X } }.",
    ]


def test_fresh_variables_never_clash_with_those_of_the_user() -> None:
    text = "p(count_1) :- a(count_1), count_1 < count : { a(count_2), b(count_2) }."
    assert clauses(DECLARED + text) == [
        "p(count_1) :- a(count_1), count_1_1 = count : { a(count_2), b(count_2) }, count_1 < count_1_1."
    ]


def test_variables_of_two_aggregates_are_renamed_apart() -> None:
    text = '.decl s(x: symbol)\np(N + M) :- N = count : { a(X), X > 1 }, M = count : { s(X), contains("a", X) }.'
    assert clauses(DECLARED + text) == [
        'p(N + M) :- N = count : { a(X), X > 1 }, M = count : { s(X_1), contains("a", X_1) }.'
    ]
    types = checked(DECLARED + text).clauses[0].types
    assert (str(types["X"]), str(types["X_1"])) == ("number", "symbol")


def test_a_variable_inside_and_outside_an_aggregate_is_one_variable() -> None:
    text = "p(N) :- a(X), N = count : { e(X, Y), Y < Z, Z = count : { e(Y, X) } }."
    assert clauses(DECLARED + text) == ["p(N) :- a(X), N = count : { e(X, Y), Y < Z, Z = count : { e(Y, X) } }."]


def test_a_variable_of_the_term_that_the_body_binds_belongs_to_the_aggregate() -> None:
    assert clauses(DECLARED + "p(S) :- a(X), S = sum X : { e(Y, X), b(Y) }, X < S.") == [
        "p(S) :- a(X), S = sum X_1 : { e(Y, X_1), b(Y) }, X < S."
    ]
    # What nothing outside binds is a witness; what the body does not bind is the value outside.
    assert clauses(DECLARED + "p(X) :- N = max X : { a(X) }, N > 1.") == [
        "p(X) :- N > 1, N = max X_1 : { a(X_1) }, a(X), N = X."
    ]
    outside = "p(N) :- a(X), N = sum X : { b(Y), Y > X }."
    assert clauses(DECLARED + outside) == [outside]
    assert clauses(DECLARED + "p(X) :- X = max X : { a(X) }.") == ["p(X) :- X = max X_1 : { a(X_1) }."]


def test_negation_inside_an_aggregate_moves_inwards_too() -> None:
    assert clauses(DECLARED + "p(N) :- N = count : { a(X), !(b(X) ; X < 3) }.") == [
        "p(N) :- N = count : { a(X), !b(X), X >= 3 }."
    ]


def test_a_negated_comparison_of_nullable_operands_inside_an_aggregate_has_two_cases() -> None:
    assert clauses(DECLARED + "p(N) :- N = count : { maybe(X, _), !(X < 3) }.") == [
        "p(N) :- N = count : { maybe(X, Any), X >= 3; maybe(X, Any), is_null(X) }."
    ]


def test_alternatives_of_an_aggregate_stay_together() -> None:
    assert clauses(DECLARED + "p(N) :- N = count : { e(X, _), (a(X) ; b(X), X < 3) }.") == [
        "p(N) :- N = count : { e(X, Any), a(X); e(X, Any), b(X), X < 3 }."
    ]


def test_a_range_stands_alone_in_an_equation() -> None:
    assert clauses(DECLARED + "p(range(1, X) + 1) :- a(X).") == ["p(range_1 + 1) :- a(X), range_1 = range(1, X)."]


def test_a_cast_leaves_nothing_but_the_value() -> None:
    assert clauses(DECLARED + ".type T <: number\np(as(X, T)) :- a(X), as(X, number) < 3.") == ["p(X) :- a(X), X < 3."]


def test_an_aggregate_over_nothing_but_true_keeps_a_body() -> None:
    assert clauses(DECLARED + "p(N) :- N = count : { true }.") == ["p(N) :- N = count : { true }."]


def test_clauses_lead_back_to_the_text() -> None:
    program = checked(DECLARED + "p(X) :- a(X) ; b(X).")
    assert [c.origin.text for c in program.clauses if c.origin] == ["p(X) :- a(X) ; b(X)."] * 2


def test_a_variable_that_occurs_once_is_worth_a_warning() -> None:
    text = "p(X) :- e(X, Y), e(X, _Z), e(_, X).\np(N) :- N = count : { e(W, _) }."
    assert warnings(DECLARED + text) == [("singleton-variable", "Y"), ("singleton-variable", "W")]
