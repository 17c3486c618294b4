"""Every variable is bound: by a positive literal, or by `=` from bound ones, in any order."""

from __future__ import annotations

import pytest

from tests.check.programs import said, slugs

DECLARED = """
.decl e(x: number, y: number)
.decl s(x: symbol)
.decl p(x: number)
"""


@pytest.mark.parametrize(
    "rule",
    [
        "p(X) :- X = 1.",
        "p(X) :- 1 = X.",
        "p(X) :- X = Y, Y = Z, Z = 2.",
        "p(X) :- X = Y + Z, Z = Y * 2, e(Y, _).",
        "p(X) :- !e(X, Y), Y < X, Y = X - 1, e(X, _).",
        "p(X) :- e(X + Y, Y), e(_, X), Y = X.",
        "p(N) :- N = count : { e(X, Y), Z = X + Y, Z > 3 }.",
        "p(N) :- e(X, _), N = count : { e(Y, _), Y < X }.",
        "p(N) :- N = count : { e(Y, _), Y < X }, X = M + 1, M = max Z : { e(Z, _) }.",
        "p(N) :- N = sum A : { e(X, _), A = count : { e(X, _), e(_, X) } }.",
        "p(X) :- (e(X, _) ; X = 3).",
        "p(X) :- s(Y), X = strlen(Y).",
        "p(1) :- true.",
        "p(count : { e(_, _) }).",
    ],
)
def test_these_rules_are_safe(rule: str) -> None:
    assert slugs(DECLARED + rule) == []


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("p(X) :- e(_, _).", "X"),
        ("p(X) :- X < 3.", "X"),
        ("p(X) :- X = X.", "X"),
        ("p(X) :- e(X + 1, _).", "X"),
        ("p(Y) :- e(X, _), X = Y + 1.", "Y"),
        ("p(X) :- e(X, _), !e(X, Y).", "Y"),
        ("p(X) :- e(X, _), is_null(Y).", "Y"),
        ("p(X) :- s(Y), !contains(X, Y), strlen(X) > 1, p(1).", "X"),
        ("p(X) :- (e(X, _) ; e(_, _)).", "X"),
        ("p(X), p(Y) :- e(X, _).", "Y"),
        ("p(N) :- N = count : { e(X, _), N > 3 }.", "N"),
        ("p(N) :- N = count : { !e(X, Y) }.", "XY"),
        ("p(N) :- N = sum Z : { e(X, _), X < 3 }.", "Z"),
        ("p(N) :- e(N, _), N < Y, M = count : { e(Y, _) }, M > 1.", "Y"),
    ],
)
def test_these_variables_are_not_bound(rule: str, names: str) -> None:
    words = said(DECLARED + rule)
    errors = [line for line in words.splitlines() if line.startswith("error[unsafe-variable]")]
    assert [line.split("`")[1] for line in errors] == list(names)


def test_an_unsafe_variable_is_not_also_called_a_singleton() -> None:
    assert "singleton" not in said(DECLARED + "p(X) :- e(_, _).")
