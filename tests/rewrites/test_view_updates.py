"""The rules of view updating, letter for letter."""

from __future__ import annotations

import pytest

from upshot.check import check
from upshot.rewrite import normal_form
from upshot.rewrite.operators import operators
from upshot.rewrite.print_view_updates import print_view_updates
from upshot.rewrite.view_updates import view_updates
from upshot.syntax import parse

CONSISTENT = """
.decl r1(x: number)  .decl r2(x: number)  .decl s(x: number)
.decl p(x: number)  .decl q1(x: number)  .decl q2(x: number)  .decl au(x: number)
p(X) :- q1(X).  p(X) :- q2(X).
q1(X) :- r1(X), s(X).
q2(X) :- r2(X), !s(X).
au(X) :- q2(X), !q1(X).
.deny ic() :- au(2).
"""


def printed(text: str, view: str | None = None) -> str:
    normal = normal_form(check(parse(text)))
    return print_view_updates(view_updates(operators(normal, [v for layer in normal.strata for v in layer]), view))


def lines(text: str, view: str | None = None) -> list[str]:
    return [line for line in printed(text, view).splitlines() if line and not line.startswith("//")]


def test_the_requests_of_the_first_worked_example() -> None:
    asked = printed(CONSISTENT, "p").split("// contradictions")[0]
    assert asked == (
        "// requests to p\n"
        "∇-p(X) & q1(X) → ∇-q1(X).\n"
        "∇-p(X) & q2(X) → ∇-q2(X).\n"
        "∇+p(X) → ∇+q1(X) ∨ ∇+q2(X).\n"
        "\n"
        "// requests to q2\n"
        "∇+q2(X) & !r2(X) → ∇+r2(X).\n"
        "∇+q2(X) & s(X) → ∇-s(X).\n"
        "∇-q2(X) → ∇-r2(X) ∨ ∇+s(X).\n"
        "\n"
        "// requests to q1\n"
        "∇+q1(X) & !r1(X) → ∇+r1(X).\n"
        "∇+q1(X) & !s(X) → ∇+s(X).\n"
        "∇-q1(X) → ∇-r1(X) ∨ ∇-s(X).\n"
        "\n"
    )


def test_the_transitions_of_the_first_worked_example() -> None:
    told = printed(CONSISTENT).split("// contradictions")[1]
    assert "∇+p(X) & ∇-p(X) → false.\n" in told
    assert "// constraints are repaired\nΔ+ic() → ∇-ic().\n" in told
    assert "∇-p(X) & !q1(X) & Δ+q1(X) → ∇-q1(X).\n" in told
    assert "∇+q1(X) & s(X) & Δ-s(X) → ∇+s(X).\n" in told
    assert told.endswith("∇+s(X) & !s(X) → Δ+s(X).\n∇-s(X) & s(X) → Δ-s(X).\n")


def test_a_rule_without_a_state_test_has_no_compensation() -> None:
    told = printed(CONSISTENT).split("// side effects are compensated")[1].split("// base changes")[0]
    assert len([line for line in told.splitlines() if line]) == 8


def test_the_second_and_the_fourth_worked_example() -> None:
    second = lines(
        ".decl p(x: number) .decl q(x: number) .decl h(x: number) .decl i()h(X) :- p(X), q(X), i(). i() :- p(X), !q(X)."
    )
    assert second[:11] == [
        "∇+h(X) & !h_aux(X) → ∇+h_aux(X).",
        "∇+h(X) & !q(X) → ∇+q(X).",
        "∇-h(X) → ∇-h_aux(X) ∨ ∇-q(X).",
        "∇+h_aux(X) & !i() → ∇+i().",
        "∇+h_aux(X) & !p(X) → ∇+p(X).",
        "∇-h_aux(X) → ∇-i() ∨ ∇-p(X).",
        "∇-i() & i_aux(X) → ∇-i_aux(X).",
        "∇+i() → ∇+i_aux(c1) ∨ … ∨ ∇+i_aux(cn) ∨ ∇+i_aux(c_new).",
        "∇+i_aux(X) & !p(X) → ∇+p(X).",
        "∇+i_aux(X) & q(X) → ∇-q(X).",
        "∇-i_aux(X) → ∇-p(X) ∨ ∇+q(X).",
    ]
    fourth = lines(
        ".decl e(x: number, y: number) .decl h() .decl i() .decl j(x: number)"
        "h() :- e(X, Y), !i(). j(X) :- e(X, Y), e(X, Z), Y != Z. i() :- e(X, Y), !j(X).",
        "j",
    )
    assert "∇+j(X) → ∇+j_aux_1(X, c1, d1) ∨ … ∨ ∇+j_aux_1(X, cn, dn) ∨ ∇+j_aux_1(X, c_new, d_new)." in fourth


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("v(Y, X) :- e(X, Y).", ["∇+v(Y, X) → ∇+e(X, Y).", "∇-v(Y, X) → ∇-e(X, Y)."]),
        ("n() :- !z().", ["∇+n() → ∇-z().", "∇-n() → ∇+z()."]),
        ("v(X, Y) :- e(X, Y), X < Y.", [
            "∇+v(X, Y) & X < Y → ∇+e(X, Y).",
            "∇-v(X, Y) & X < Y → ∇-e(X, Y).",
            "∇+v(X, Y) & X >= Y → false.",
        ]),
        ("v(X, X) :- e(X, X).", [
            "∇+v(X, Y) & Y != X → false.", "∇+v(X, X) → ∇+e(X, X).", "∇-v(X, X) → ∇-e(X, X).",
        ]),
    ],
)  # fmt: skip
def test_each_operator_has_its_rules(rule: str, expected: list[str]) -> None:
    text = ".decl e(x: number, y: number) .decl z() .decl v(x: number, y: number) .decl n()" + rule
    view = rule.partition("(")[0]
    assert [line for line in lines(text, view) if line.startswith((f"∇+{view}(", f"∇-{view}("))][: len(expected)] == (
        expected
    )


def test_aggregates_are_named_and_nothing_is_asked_below_them() -> None:
    text = ".decl e(x: number, y: number) .decl c(x: number, n: number) c(X, N) :- e(X, _), N = count : { e(X, _) }."
    assert "aggregates: of a group, those rows are asked to go or to come that move its value" in printed(text)
