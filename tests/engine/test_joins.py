"""Rule bodies that are wide, long, or go back and forth between the kernel and Python."""

from __future__ import annotations

import random

import pytest

from tests.engine.driver import Driver
from tests.engine.kernels import both_forms, kernel
from tests.properties.strategies import STRATEGIES

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def names(prefix: str, count: int) -> str:
    return ", ".join(f"{prefix}{i}" for i in range(count))


@both_forms
@pytest.mark.parametrize("width", [1, 2, 16, 17, 18, 19])
def test_a_join_on_many_columns_compares_all_of_them(width: int, form: str) -> None:
    columns = ", ".join(f"c{i}: number" for i in range(20))
    left = ", ".join([names("X", width), names("A", 20 - width)])
    right = ", ".join([names("X", width), names("B", 20 - width)])
    with kernel(form):
        it = Driver(
            f".decl r({columns}) .decl s({columns}) .decl p(a: number, b: number)\np(A0, B0) :- r({left}), s({right})."
        )
        it.insert("r", tuple(range(20)))
        it.insert("s", *[(*range(width - 1), last, *range(40, 60 - width)) for last in range(width - 1, width + 2)])
        it.assert_exact()
        it.delete("s", (*range(width), *range(40, 60 - width)))
        it.assert_exact()


@pytest.mark.slow
@every_strategy
@pytest.mark.parametrize("live", range(1, 9))
def test_any_number_of_variables_crosses_into_python_and_back(live: int, strategy: str) -> None:
    """The narrow relations give more variables than the widest relation has columns."""
    atoms = ", ".join(f"e(X{i}, X{i + 1})" for i in range(live))
    middle = live // 2
    it = Driver(
        f"""
        .decl e(x: symbol, y: symbol) .decl p(a: symbol, b: symbol)
        .view p strategy={strategy}
        p(X0, L) :- {atoms}, X0 < X{live}, L = cat(X{middle}, X{live}).
        """
    )
    rng = random.Random(live)
    for _ in range(6):
        some = [(rng.choice("abcd"), rng.choice("abcd")) for _ in range(5)]
        it.change(insert={"e": some[:3]}, delete={"e": some[3:]})
        it.assert_exact()


@every_strategy
def test_steps_of_python_and_of_the_kernel_alternate(strategy: str) -> None:
    it = Driver(
        f"""
        .decl w(x: number, t: symbol) .decl e(x: number, y: number) .decl size(n: number, t: symbol)
        .decl p(x: number, t: symbol, n: number)
        .view p strategy={strategy}
        p(X, V, M) :- w(X, T), N = strlen(T), e(X, Y), Y <= N, w(Y, U), V = cat(T, U), M = strlen(V) + N * 2,
                      !size(M, V), contains("a", V), M % 2 = 0.
        """
    )
    rng = random.Random(2)
    texts = ["", "a", "ab", "b", "aab"]
    for _ in range(12):
        it.change(
            insert={
                "w": [(rng.randint(0, 3), rng.choice(texts)) for _ in range(3)],
                "e": [(rng.randint(0, 3), rng.randint(0, 3)) for _ in range(2)],
                "size": [(rng.randint(0, 8), rng.choice(texts))],
            },
            delete={
                "w": [(rng.randint(0, 3), rng.choice(texts)) for _ in range(2)],
                "e": [(rng.randint(0, 3), rng.randint(0, 3))],
            },
        )
        it.assert_exact()


@pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute", "production"])
def test_recursion_through_python(strategy: str) -> None:
    it = Driver(
        f"""
        .decl e(x: symbol, y: symbol) .decl walk(x: symbol, t: symbol)
        .view walk strategy={strategy}
        walk(Y, T) :- e(X, Y), T = cat(X, Y).
        walk(Y, T) :- walk(X, S), e(X, Y), strlen(S) < 5, T = cat(S, Y).
        """
    )
    rng = random.Random(8)
    for _ in range(10):
        some = [(rng.choice("abc"), rng.choice("abc")) for _ in range(4)]
        it.change(insert={"e": some[:2]}, delete={"e": some[2:]})
        it.assert_exact()


@both_forms
def test_a_view_of_twenty_columns_follows_its_base(form: str) -> None:
    columns = ", ".join(f"c{i}: number" for i in range(20))
    with kernel(form):
        it = Driver(
            f".decl r({columns}) .decl p({columns}) .decl q({columns}) .view q strategy=maintenance\n"
            f"p({names('X', 20)}) :- r({names('X', 20)}), X0 < X19.\n"
            f"q({names('X', 20)}) :- r({names('X', 20)}), !p({names('X', 20)})."
        )
        rng = random.Random(1)
        for _ in range(4):
            rows = [tuple(rng.randint(0, 1) for _ in range(20)) for _ in range(30)]
            it.change(insert={"r": rows}, delete={"r": [row for row in it.rows("r") if rng.random() < 0.4]})
            it.assert_exact()


@pytest.mark.slow
@every_strategy
def test_long_bodies_and_many_rules(strategy: str) -> None:
    atoms = ", ".join(f"e(X{i}, X{i + 1})" for i in range(30))
    rules = "\n".join(f"q(X, {i}) :- e(X, Y), Y > {i}, !e(Y, {i})." for i in range(40))
    it = Driver(
        f"""
        .decl e(x: number, y: number) .decl p(x: number, y: number) .decl q(x: number, y: number)
        .view p strategy={strategy}
        .view q strategy={strategy}
        p(X0, X30) :- {atoms}.
        {rules}
        """
    )
    it.insert("e", *[(i, i + 1) for i in range(32)])
    assert it.rows("p") == {(0, 30), (1, 31), (2, 32)}
    it.change(delete={"e": [(31, 32)]}, insert={"e": [(15, 15)]})
    assert it.rows("p") == {(i, j) for i in range(16) for j in range(15, 32) if j - i <= 30}
    assert it.delete("e", (15, 15))["p"][0] == set()
    assert it.rows("p") == {(0, 30), (1, 31)}


@both_forms
def test_more_heads_than_a_block_holds_come_out_once_each(form: str) -> None:
    with kernel(form):
        it = Driver(
            """
            .decl n(x: number) .decl p(x: number, y: number) .decl half(x: number)
            p(X, Y) :- n(X), n(Y).
            half(Z) :- p(X, Y), Z = (X + Y) / 2.
            """
        )
        it.insert("n", *[(i,) for i in range(45)])
        assert len(it.rows("p")) == 2025
        assert len(it.rows("half")) == 45
        deltas = it.change(delete={"n": [(i,) for i in range(0, 45, 2)]}, insert={"n": [(100,)]})
        assert len(it.rows("p")) == 23 * 23
        assert len(deltas["p"][1]) == 2025 - 22 * 22
        it.assert_exact()
