"""Views kept by production rules on Spark, in the driver and in files."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.spark.engine_driver import IN_FILES, SparkDriver
from upshot.core.errors import LimitError
from upshot.engine.spark.storage.pieces import SMALL

pytestmark = pytest.mark.slow

TRAINS = """
.decl train(x: symbol, y: symbol)
.decl station(x: symbol, state: symbol) key(x)
.decl route(x: symbol, y: symbol)
.decl reach_cal(x: symbol)
.decl unconnected(x: symbol, y: symbol)
.decl routes(x: symbol, n: number)
.view route strategy=production
.view reach_cal strategy=production
.view unconnected strategy=production
.view routes strategy=production
route(X, Y) :- train(X, Y).
route(X, Y) :- route(X, Z), route(Z, Y).
reach_cal(X) :- station(X, "California").
reach_cal(X) :- route(X, Y), reach_cal(Y).
unconnected(X, Y) :- station(X, _), station(Y, _), !route(X, Y).
routes(X, N) :- station(X, _), N = count : { route(X, _) }.
"""


def test_stations_and_trains_follow_the_oracle(spark: Any) -> None:
    rng = random.Random(6)
    names = [f"s{i}" for i in range(6)]
    with SparkDriver(spark, TRAINS) as it:
        stations = [(name, rng.choice(["California", "Nevada"])) for name in names]
        it.change(insert={"station": stations, "train": [(rng.choice(names), rng.choice(names)) for _ in range(7)]})
        it.assert_exact()
        held = sorted(it.rows("train"))
        it.change(
            delete={"train": rng.sample(held, 2), "station": stations[:2]},
            insert={"train": [(rng.choice(names), rng.choice(names))]},
        )
        it.assert_exact()


@pytest.mark.parametrize("small", [SMALL, IN_FILES], ids=["in the driver", "in files"])
def test_a_row_that_went_and_came_is_no_change(spark: Any, small: int) -> None:
    text = """
    .decl a(x: number) .decl b(x: number) .decl e(x: number, y: number) .decl p(x: number) .decl u(x: number)
    .view p strategy=production
    .view u strategy=production
    p(X) :- a(X). p(X) :- b(X). p(Y) :- p(X), e(X, Y). u(Y) :- e(_, Y), !p(Y).
    """
    with SparkDriver(spark, text, small=small) as it:
        it.change(insert={"a": [(1,)], "b": [(1,)], "e": [(1, 2), (2, 3), (3, 4)]})
        assert it.delete("a", (1,)).keys() == {"a"}
        assert (it.work.deleted, it.work.rederived) == (4, 1)
        it.change(delete={"e": [(2, 3)]}, insert={"a": [(4,)]})
        it.assert_exact()


def test_a_view_that_grows_for_ever_is_stopped(spark: Any) -> None:
    text = ".decl a(x: number) .decl p(x: number) .view p strategy=production p(X) :- a(X). p(X + 1) :- p(X)."
    with SparkDriver(spark, text, max_rounds=5) as it, pytest.raises(LimitError, match="still growing after 5 rounds"):
        it.insert("a", (1,))
