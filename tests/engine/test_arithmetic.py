"""Whole-number arithmetic at the edges of 64 bits: the exact value or an error, in both forms of the kernel."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.engine.driver import Driver
from tests.engine.kernels import both_forms, kernel
from upshot.core.errors import DataError
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE

NUMBERS = [0, 1, -1, 2, -2, 3, 7, -7, 62, 63, 64, 2**31, 2**32 + 1, -(2**31), 3037000499, 3037000500, -3037000500]
NUMBERS += [2**62, -(2**62), 2**63 - 1, -(2**63) + 1, -(2**63)]
UNSIGNEDS = [0, 1, 2, 3, 7, 63, 64, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 4294967295, 4294967296]


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def power(a: int, b: int) -> int | None:
    if abs(a) <= 1 or b <= 64:
        return a ** (b if b <= 64 else 64 + b % 2)
    return None


def exact(operator: str, a: int, b: int) -> Any:
    """The value, or the code of the error."""
    match operator:
        case "/" | "%" if b == 0:
            return "division-by-zero"
        case "^" if b < 0:
            return "negative-exponent"
        case "/":
            return truncated(a, b)
        case "%":
            return a - b * truncated(a, b)
        case "^":
            return power(a, b)
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "band":
            return a & b
        case "bor":
            return a | b
        case "bxor":
            return a ^ b
        case "bshl":
            return a << (b & 63)
        case "bshr":
            return a >> (b & 63)
    raise AssertionError(operator)


def outcomes(operator: str, values: list[int], bounds: range) -> tuple[dict[tuple[int, int], int], dict[Any, str]]:
    """What the pairs of values give, and with which code the others fail."""
    fine, failing = {}, {}
    for pair in itertools.product(values, repeat=2):
        value = exact(operator, *pair)
        if isinstance(value, str):
            failing[pair] = value
        elif value is None or value not in bounds:
            failing[pair] = "overflow"
        else:
            fine[pair] = value
    return fine, failing


@both_forms
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "^", "band", "bor", "bxor", "bshl", "bshr"])
@pytest.mark.parametrize(
    ("type", "values", "bounds"),
    [("number", NUMBERS, NUMBER_RANGE), ("unsigned", UNSIGNEDS, UNSIGNED_RANGE)],
    ids=["number", "unsigned"],
)
def test_an_operator_gives_the_exact_value_or_an_error(
    operator: str, type: str, values: list[int], bounds: range, form: str
) -> None:
    fine, failing = outcomes(operator, values, bounds)
    with kernel(form):
        it = Driver(
            f".decl r(a: {type}, b: {type}) .decl p(a: {type}, b: {type}, c: {type})\n"
            f"p(A, B, C) :- r(A, B), C = A {operator} B."
        )
        it.insert("r", *fine)
        assert it.rows("p") == {(a, b, value) for (a, b), value in fine.items()}
        for pair, code in list(failing.items())[:: max(1, len(failing) // 25)]:
            it.engine.insert("r", [pair])
            with pytest.raises(DataError) as caught:
                it.engine.propagate()
            it.engine.rollback()
            assert (pair, caught.value.code) == (pair, code)
        assert len(it.rows("p")) == len(fine)


@both_forms
def test_negation_complement_minimum_and_maximum(form: str) -> None:
    with kernel(form):
        it = Driver(
            """
            .decl r(a: number, b: number) .decl p(a: number, n: number)
            .decl q(a: number, b: number, x: number, y: number)
            p(A, N) :- r(A, _), N = bnot A.
            q(A, B, X, Y) :- r(A, B), X = max(A, B), Y = min(A, B).
            """
        )
        pairs = [*itertools.product(NUMBERS, repeat=2)]
        it.insert("r", *pairs)
        assert it.rows("p") == {(a, ~a) for a in NUMBERS}
        assert it.rows("q") == {(a, b, max(a, b), min(a, b)) for a, b in pairs}


@both_forms
@pytest.mark.parametrize("type", ["number", "unsigned"])
def test_comparisons_follow_the_order_of_numbers(type: str, form: str) -> None:
    values = NUMBERS if type == "number" else UNSIGNEDS
    with kernel(form):
        it = Driver(
            f"""
            .decl r(a: {type}) .decl lt(a: {type}, b: {type})
            .decl ge(a: {type}, b: {type}) .decl ne(a: {type}, b: {type})
            lt(A, B) :- r(A), r(B), A < B.
            ge(A, B) :- r(A), r(B), A >= B.
            ne(A, B) :- r(A), r(B), A != B.
            """
        )
        it.insert("r", *[(value,) for value in values])
        pairs = {*itertools.product(values, repeat=2)}
        assert it.rows("lt") == {(a, b) for a, b in pairs if a < b}
        assert it.rows("ge") == {(a, b) for a, b in pairs if a >= b}
        assert it.rows("ne") == {(a, b) for a, b in pairs if a != b}
