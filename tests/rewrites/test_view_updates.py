"""The rules of view updating, letter for letter."""

from __future__ import annotations

import pytest

from tests.revise.goldens import CONSISTENT, GOLDENS, Golden, name
from upshot.check import check
from upshot.rewrite import normal_form
from upshot.rewrite.normalize.operators import operators
from upshot.rewrite.view_updates import list_view_updates, view_updates
from upshot.syntax import parse


def printed(text: str, view: str | None = None) -> str:
    normal = normal_form(check(parse(text)))
    return list_view_updates(view_updates(operators(normal, [v for layer in normal.strata for v in layer]), view)).text


def lines(text: str, view: str | None = None) -> list[str]:
    return [line for line in printed(text, view).splitlines() if line and not line.startswith("//")]


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_the_rules_of_each_worked_example(golden: Golden) -> None:
    assert printed(golden.program) == golden.rules


def test_a_request_to_a_view_is_answered_by_the_rules_it_can_reach() -> None:
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


def test_a_rule_without_a_state_test_has_no_compensation() -> None:
    told = printed(CONSISTENT).split("// side effects are compensated")[1].split("// base changes")[0]
    assert len([line for line in told.splitlines() if line]) == 8


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
    assert "aggregates: rows of a group whose insertion or deletion changes its value" in printed(text)
