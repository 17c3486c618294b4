"""The oracle's functors and folds, value by value, against results worked out by hand."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from upshot.check import check
from upshot.core.errors import DataError
from upshot.core.types import FLOAT, NUMBER, SYMBOL, UNSIGNED, Kind, Type
from upshot.engine.naive import evaluate
from upshot.engine.naive_functions import aggregate, apply
from upshot.engine.naive_values import NAN, canonical, compare
from upshot.syntax import parse

MONEY = Type(Kind.DECIMAL, precision=10, scale=2)
MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("function", "args", "type", "result"),
    [
        ("/", (-7, 2), NUMBER, -3),
        ("/", (7, -2), NUMBER, -3),
        ("%", (-7, 2), NUMBER, -1),
        ("%", (7, -2), NUMBER, 1),
        ("^", (-1, MOST), NUMBER, -1),
        ("^", (-1, 2**62), NUMBER, 1),
        ("^", (0, 0), NUMBER, 1),
        ("^", (-2, 63), NUMBER, LEAST),
        ("neg", (MOST,), NUMBER, -MOST),
        ("+", (2**63, 2**63 - 1), UNSIGNED, 2**64 - 1),
        ("band", (-1, 6), NUMBER, 6),
        ("bnot", (0,), NUMBER, -1),
        ("bnot", (0,), UNSIGNED, 2**64 - 1),
        ("bshl", (1, 62), NUMBER, 2**62),
        ("bshl", (-1, 63), NUMBER, LEAST),
        ("bshl", (1, 64), NUMBER, 1),
        ("bshr", (-8, 1), NUMBER, -4),
        ("max", (3, 1, 2), NUMBER, 3),
        ("min", ("b", "a"), SYMBOL, "a"),
        ("max", (math.inf, NAN), FLOAT, NAN),
        ("/", (1.0, 0.0), FLOAT, math.inf),
        ("/", (-1.0, 0.0), FLOAT, -math.inf),
        ("^", (2.0, 0.5), FLOAT, math.sqrt(2)),
        ("*", (Decimal("1.50"), Decimal("0.25")), Type(Kind.DECIMAL, scale=4), Decimal("0.3750")),
        ("substr", ("abc", 1, 5), SYMBOL, "bc"),
        ("substr", ("abc", -1, 2), SYMBOL, ""),
        ("substr", ("abc", 3, 1), SYMBOL, ""),
        ("ord", ("",), NUMBER, -1),
        ("cat", ("a", "", "b"), SYMBOL, "ab"),
        ("to_number", ("-0042",), NUMBER, -42),
        ("to_string", (-42,), SYMBOL, "-42"),
    ],
)
def test_functors_give_what_the_language_says(function: str, args: tuple[Any, ...], type: Type, result: Any) -> None:
    found = canonical(apply(function, args, type))
    assert found is result or found == result


@pytest.mark.parametrize(
    ("function", "args", "type", "code"),
    [
        ("/", (1, 0), NUMBER, "division-by-zero"),
        ("%", (1, 0), UNSIGNED, "division-by-zero"),
        ("/", (LEAST, -1), NUMBER, "overflow"),
        ("neg", (LEAST,), NUMBER, "overflow"),
        ("+", (MOST, 1), NUMBER, "overflow"),
        ("-", (0, 1), UNSIGNED, "overflow"),
        ("*", (2**32, 2**32), UNSIGNED, "overflow"),
        ("^", (2, 10**18), NUMBER, "overflow"),
        ("^", (2, -1), NUMBER, "negative-exponent"),
        ("bshl", (1, 63), NUMBER, "overflow"),
        ("bshl", (2, 63), UNSIGNED, "overflow"),
        ("+", (Decimal(10) ** 16 - 1, Decimal(1)), MONEY, "overflow"),
        ("to_number", ("4.5",), NUMBER, "not-a-number"),
        ("to_number", ("",), NUMBER, "not-a-number"),
        ("to_number", ("9223372036854775808",), NUMBER, "overflow"),
    ],
)
def test_functors_fail_where_the_language_says(function: str, args: tuple[Any, ...], type: Type, code: str) -> None:
    with pytest.raises(DataError) as caught:
        apply(function, args, type)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("function", "values", "type", "result"),
    [
        ("sum", [], NUMBER, 0),
        ("sum", [MOST, 1, -1], NUMBER, MOST),
        ("sum", [0.1] * 10, FLOAT, 1.0),
        ("sum", [1e308, 1e308, -1e308], FLOAT, 1e308),
        ("sum", [1e308, 1e308], FLOAT, math.inf),
        ("sum", [math.inf, -math.inf], FLOAT, NAN),
        ("sum", [Decimal("0.10"), Decimal("0.20")], MONEY, Decimal("0.30")),
        ("mean", [1, 2], NUMBER, 1.5),
        ("mean", [], NUMBER, None),
        ("max", [], SYMBOL, None),
        ("min", [NAN, 1.0], FLOAT, 1.0),
        ("max", [NAN, math.inf], FLOAT, NAN),
    ],
)
def test_aggregates_do_not_depend_on_row_order(function: str, values: list[Any], type: Type, result: Any) -> None:
    for order in (values, values[::-1]):
        found = canonical(aggregate(function, order, type))
        assert found is result or found == result


def test_nan_equals_nan_and_null_equals_nothing() -> None:
    assert compare("=", NAN, canonical(float("nan")))
    assert compare(">", NAN, math.inf)
    assert not any(compare(op, None, other) for op in ("=", "!=", "<", "<=", ">", ">=") for other in (None, 1))


def test_an_aggregate_sees_the_variables_of_the_aggregate_around_it() -> None:
    program = check(
        parse("""
        .decl r(x: number, y: number)
        .decl busy(n: number)
        busy(N) :- N = count : { r(X, _), M = sum Y : { r(X, Y) }, M > 5 }.
        """)
    )
    assert evaluate(program, {"r": {(1, 2), (1, 4), (2, 5), (3, 9)}}) == {"busy": {(3,)}}


def test_literals_that_compute_run_after_the_guards() -> None:
    program = check(
        parse("""
        .decl r(x: number, y: number)
        .decl q(x: number, z: number)
        q(X, Z) :- Z = X / Y, r(X, Y), Y != 0.
        """)
    )
    assert evaluate(program, {"r": {(6, 0), (6, 2)}}) == {"q": {(6, 3)}}
