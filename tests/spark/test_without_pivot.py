"""Recursion without a pivot on Spark: in the driver without a job, and by rounds of joins beyond that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.properties.exactness import check_transactions
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from tests.spark.engine_driver import IN_FILES, SparkDriver
from tests.spark.test_conformance_random import agree, shortened
from upshot.core.errors import DataError, OverflowError_

pytest.importorskip("pyspark")


from upshot.database.database import Database
from upshot.engine.spark.engine import SparkEngine

SAME_GENERATION = """
.decl e(x: number, y: number) .decl sg(x: number, y: number) .view sg policy=strict
sg(X, Y) :- e(A, X), e(A, Y). sg(X, Y) :- e(A, X), sg(A, B), e(B, Y).
"""
TEXTS = """
.decl e(x: symbol?, y: symbol?) .decl p(x: symbol?, y: symbol?) .decl q(x: symbol?, y: symbol?)
.view p policy=strict
.view q policy=strict
p(X, Y) :- e(X, Y). p(X, Y) :- p(X, Z), q(Z, W), p(W, Y). q(Y, X) :- p(X, Y), e(X, _). p(X, X) :- q(X, _), q(_, X).
"""


def grid(side: int) -> list[tuple[int, int]]:
    down = [(i * side + j, i * side + j + side) for i in range(side - 1) for j in range(side)]
    return down + [(i * side + j, i * side + j + 1) for i in range(side) for j in range(side - 1)]


def test_a_change_in_the_driver_takes_no_job_however_many_rounds_it_takes(spark: Any) -> None:
    with SparkDriver(spark, SAME_GENERATION) as it:
        it.insert("e", *grid(7))
        assert it.work.jobs == 0
        assert "load and change in the driver" in it.engine.describe("sg")
        came, went = it.delete("e", (0, 1))["sg"]
        assert (len(came), len(went)) == (0, 13)
        assert it.work.jobs == 0
        assert it.work.views["sg"].deleted > 100 > it.work.views["sg"].inserted
        it.change(delete={"e": [(24, 25), (3, 4)]}, insert={"e": [(0, 1), (1, 30)]})
        assert it.work.jobs == 0
        it.assert_exact()


def test_what_the_driver_holds_follows_changes_that_were_undone_or_made_without_it(spark: Any) -> None:
    """Rolled back, taken up again, failed, of no interest to the view, or by other rules."""
    text = SAME_GENERATION + ".decl q(x: number, y: number) .decl r(x: number) r(Z) :- q(X, Y), Z = X / Y."
    text += ".decl s(x: number) .view s policy=strict s(X) :- e(X, _). s(Y) :- s(X), sg(X, Y), !r(Y)."
    with SparkDriver(spark, text) as it:
        it.insert("e", *grid(4))
        it.engine.delete("e", [(0, 1)])
        it.engine.propagate()
        it.engine.rollback()
        it.change(delete={"e": [(5, 6)]})
        it.assert_exact()
        it.engine.insert("e", [(5, 6)])
        it.engine.propagate()
        it.engine.reopen()
        it.engine.delete("e", [(9, 10)])
        it.commit()
        it.assert_exact()
        it.engine.insert("e", [(9, 10)])
        it.engine.insert("q", [(1, 0)])
        with pytest.raises(DataError):
            it.engine.propagate()
        it.engine.rollback()
        it.insert("q", (4, 2))
        it.change(insert={"e": [(9, 10)], "q": [(3, 1)]})
        it.assert_exact()
        it.install(text + "sg(X, X) :- e(X, _).", ["sg"])
        it.assert_exact()
        it.delete("e", (1, 2))
        it.assert_exact()


def test_what_outgrows_the_driver_while_it_changes_goes_on_by_rounds(spark: Any) -> None:
    with SparkDriver(spark, SAME_GENERATION, driver=40_000) as it:
        it.insert("e", *grid(3))
        assert it.work.jobs == 0
        it.insert("e", *((100 + i, 200 + j) for i in range(5) for j in range(5)))
        assert "load and change in the driver" in it.engine.describe("sg")
        it.insert("e", *((100, 300 + j) for j in range(30)))
        assert "which was not enough" in it.engine.describe("sg")
        it.assert_exact()
        it.delete("e", (100, 200))
        it.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("driver", [None, 0], ids=["in the driver", "by rounds"])
def test_text_and_null_in_rules_that_use_the_recursion_thrice_find_each_other(spark: Any, driver: int | None) -> None:
    with SparkDriver(spark, TEXTS, driver=driver) as it:
        it.insert("e", ("a", "b"), ("b", "ç"), ("ç", None), (None, "a"), ("d", "a"))
        it.assert_exact()
        it.change(delete={"e": [("ç", None), ("d", "a")]}, insert={"e": [("b", "d"), (None, None)]})
        it.assert_exact()
        it.delete("e", ("a", "b"))
        it.assert_exact()


@pytest.mark.slow
def test_what_fails_in_the_driver_is_the_error_of_the_local_engine(spark: Any) -> None:
    text = """
    .decl e(x: number, f: number) .decl p(x: number) .decl q(x: number) .view p policy=strict
    p(X) :- e(X, 0). q(X) :- p(X). p(Y) :- q(X), e(X, F), F > 0, Y = X * F.
    """
    with SparkDriver(spark, text) as it:
        it.insert("e", (3, 0), (3, 5), (15, 2))
        before = it.state()
        it.engine.insert("e", [(30, 2**62)])
        with pytest.raises(OverflowError_):
            it.engine.propagate()
        it.engine.rollback()
        assert it.state() == before
        it.insert("e", (30, 7))
        it.assert_exact()


FOCUSES = (
    Features(recursion=1, nonlinear=0.6, mutual=0.6, aggregates=0.05, arithmetic=0.1, constants=0.03),
    Features(recursion=1, nonlinear=0.5, mutual=0.5, nullable=0.4, negation=0.4, aggregates=0, strings=0.2),
)


@pytest.mark.slow
@pytest.mark.parametrize("small", [1000, IN_FILES])
def test_random_programs_in_the_driver_change_as_the_oracle_says(small: int, spark: Any) -> None:
    seeds = [seed_of(f"spark driver {small}", n) for n in range(case_count(100, least=6))]
    cases = [shortened(random_case(seed, FOCUSES[n % 2])) for n, seed in enumerate(seeds)]
    agree(
        lambda: Database(lambda: SparkEngine(spark, small=small)),
        [(check_transactions, case, "maintenance policy=strict") for case in cases],
    )
