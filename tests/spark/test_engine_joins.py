"""Rule bodies on Spark that are wide, long, or computed partly in Python; rows in the driver and in files."""

from __future__ import annotations

import random
from typing import Any

import pytest

import upshot
from tests.engine.test_joins import names
from tests.properties.strategies import STRATEGIES
from tests.spark.engine_driver import IN_FILES, SparkDriver
from upshot.database.database import Database
from upshot.engine.spark.engine import SparkEngine
from upshot.engine.spark.rounds.derivations import count


@pytest.mark.parametrize("small", [IN_FILES, 1000], ids=["in files", "in the driver"])
def test_wide_long_and_computed_bodies_follow_their_base(spark: Any, small: int) -> None:
    """All shapes and strategies in one program: what is independent shares its jobs."""
    columns = ", ".join(f"c{i}: number" for i in range(20))
    # A file costs what a thousand rows in the driver cost: there the same is shown on less.
    strategies, length, turns = (STRATEGIES, 6, 2) if small > IN_FILES else (("maintenance", "counting"), 3, 2)
    atoms = ", ".join(f"e(X{i}, X{i + 1})" for i in range(length))
    kept = "".join(
        f"""
        .decl long_{s}(x: number, y: number) .decl text_{s}(x: number, t: symbol, n: number)
        .view long_{s} strategy={s}
        .view text_{s} strategy={s}
        long_{s}(X0, X{length}) :- {atoms}.
        text_{s}(X, V, M) :- w(X, T), N = strlen(T), e(X, Y), Y <= N, w(Y, U), V = cat(T, U), M = strlen(V) + N * 2,
                             !size(M, V), contains("a", V), M % 2 = 0.
        """
        for s in strategies
    )
    text = f"""
    .decl r({columns}) .decl s({columns}) .decl joined(a: number, b: number) .decl wide({columns})
    .decl w(x: number, t: symbol) .decl e(x: number, y: number) .decl size(n: number, t: symbol)
    .decl walk(x: symbol, t: symbol) .decl g(x: symbol, y: symbol)
    joined(A0, B0) :- r({names("X", 17)}, {names("A", 3)}), s({names("X", 17)}, {names("B", 3)}).
    wide({names("X", 20)}) :- r({names("X", 20)}), !s({names("X", 20)}).
    walk(Y, T) :- g(X, Y), T = cat(X, Y).
    walk(Y, T) :- walk(X, S), g(X, Y), strlen(S) < 5, T = cat(S, Y).
    {kept}
    """
    rng = random.Random(2)
    texts = ["", "a", "ab", "b", "aab"]
    with SparkDriver(spark, text, small=small) as it:
        for _ in range(turns):
            wide = [(*range(16), rng.randint(0, 1), rng.randint(0, 1), 1, 2) for _ in range(3)]
            some = [(rng.choice("abc"), rng.choice("abc")) for _ in range(5)]
            it.change(
                insert={
                    "w": [(rng.randint(0, 3), rng.choice(texts)) for _ in range(3)],
                    "e": [(rng.randint(0, 3), rng.randint(0, 3)) for _ in range(4)],
                    "size": [(rng.randint(0, 8), rng.choice(texts))],
                    "r": wide[:2], "s": wide[1:], "g": some[:3],
                },
                delete={
                    "w": [(rng.randint(0, 3), rng.choice(texts)) for _ in range(2)],
                    "e": [(rng.randint(0, 3), rng.randint(0, 3))],
                    "r": [row for row in it.rows("r") if rng.random() < 0.4], "g": some[3:],
                },
            )  # fmt: skip
            it.assert_exact()


def test_rows_inserted_and_deleted_are_joined_together(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[int] = []

    def counted(table: Any, frames: Any, *rest: Any, **options: Any) -> Any:
        derived.append(len(frames))
        return count(table, frames, *rest, **options)

    monkeypatch.setattr("upshot.engine.spark.rounds.component.count", counted)
    program = """
        .decl stock(item: number, n: number)
        .decl least(item: number, n: number)
        .decl low(item: number)
        .decl plenty()
        low(I) :- stock(I, N), least(I, M), N < M.
        plenty() :- stock(_, N), N > 8.
    """
    changed = [(item, item % 10) for item in range(0, 30, 7)]
    with Database(lambda: SparkEngine(spark, small=20, driver=0)) as db, upshot.connect() as local:
        for each in (db, local):
            each.define(program)
            with each.transaction() as tx:
                tx.insert("stock", [(item, item % 10) for item in range(30)])
                tx.insert("least", [(item, 5) for item in range(30)])
            derived.clear()
            with each.transaction() as tx:
                tx.delete("stock", changed)
                tx.insert("stock", [(item, 9 - n) for item, n in changed])
            assert derived == ([1, 1] if each is db else [])
            assert {len(tx.changes["low"].inserted), len(tx.changes["low"].deleted)} == {2, 3}
        assert set(db.rows("low")) == set(local.rows("low"))
        assert set(db.rows("plenty")) == set(local.rows("plenty"))
        db.verify()
