"""Recursion without a pivot on Spark: by one worker in one job, and in parts that exchange rows beyond that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.properties.exactness import check_transactions
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, is_soak, seed_of
from tests.spark.engine_driver import IN_FILES, SparkDriver
from tests.spark.test_conformance_random import agree
from upshot.core.errors import OverflowError_

pytest.importorskip("pyspark")

from upshot.engine.spark.one_worker import OneWorker

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


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No single worker holds a whole recursion."""
    begin = OneWorker.__init__

    def begun(worker: OneWorker, *args: Any, **options: Any) -> None:
        begin(worker, *args, **options)
        worker.is_crowded = True

    monkeypatch.setattr(OneWorker, "__init__", begun)


def test_a_change_by_one_worker_is_one_job_however_many_rounds_it_takes(spark: Any) -> None:
    with SparkDriver(spark, SAME_GENERATION) as it:
        it.insert("e", *grid(7))
        assert it.work.jobs == 1
        told = it.engine.describe("sg")
        assert "load by one worker in one job" in told
        assert "change by one worker in one job: about 8 rounds, 314 rows for workers to read" in told
        came, went = it.delete("e", (0, 1))["sg"]
        assert (len(came), len(went)) == (0, 13)
        assert it.work.jobs == 1
        assert it.work.views["sg"].deleted > 100 > it.work.views["sg"].inserted
        it.change(delete={"e": [(24, 25), (3, 4)]}, insert={"e": [(0, 1), (1, 30)]})
        assert it.work.jobs == 1
        it.assert_exact()


def test_so_many_rows_and_so_few_rounds_are_left_to_joins(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with SparkDriver(spark, SAME_GENERATION) as it:
        it.insert("e", *grid(4))
        monkeypatch.setattr("upshot.engine.spark.without_pivot.READ_A_SECOND", 1)
        assert "change by rounds of joins on Spark: about 8 rounds, 67 rows" in it.engine.describe("sg")
        it.delete("e", (9, 10))
        assert it.work.jobs > 1
        it.assert_exact()


@pytest.mark.slow
@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("small", [1000, IN_FILES], ids=["in the driver", "in files"])
def test_a_change_in_parts_takes_a_few_jobs_however_many_rounds_it_takes(
    small: int, spark: Any, tmp_path: Path
) -> None:
    with SparkDriver(spark, SAME_GENERATION, small=small, scratch=tmp_path) as it:
        it.insert("e", *grid(9))
        it.assert_exact()
        told = it.engine.describe("sg")
        assert "in 2 parts, `sg` by x, y: rounds inside each, what crosses is exchanged" in told
        assert "change in 2 parts" in told
        for change in ({"delete": {"e": [(0, 1)]}}, {"insert": {"e": [(0, 1)]}, "delete": {"e": [(40, 41), (3, 4)]}}):
            it.change(**change)
            it.assert_exact()
            if small != IN_FILES:
                assert it.work.jobs <= 4
        it.engine.rollback()
        assert not list(tmp_path.rglob("begun-*")), "a meeting is left behind"


@pytest.mark.slow
@pytest.mark.usefixtures("crowded")
def test_text_and_null_in_rules_that_use_the_recursion_thrice_find_each_other(spark: Any) -> None:
    with SparkDriver(spark, TEXTS) as it:
        it.insert("e", ("a", "b"), ("b", "ç"), ("ç", None), (None, "a"), ("d", "a"))
        it.assert_exact()
        assert "`p` by y and all rows everywhere" in it.engine.describe("p")
        it.change(delete={"e": [("ç", None), ("d", "a")]}, insert={"e": [("b", "d"), (None, None)]})
        it.assert_exact()
        it.delete("e", ("a", "b"))
        it.assert_exact()


@pytest.mark.slow
@pytest.mark.usefixtures("crowded")
def test_what_fails_in_a_part_is_the_error_of_the_local_engine(spark: Any, tmp_path: Path) -> None:
    text = """
    .decl e(x: number, f: number) .decl p(x: number) .decl q(x: number) .view p policy=strict
    p(X) :- e(X, 0). q(X) :- p(X). p(Y) :- q(X), e(X, F), F > 0, Y = X * F.
    """
    with SparkDriver(spark, text, scratch=tmp_path) as it:
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
@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("small", [1000, IN_FILES][: 1 + is_soak()])
def test_random_programs_in_parts_change_as_the_oracle_says(small: int, spark: Any) -> None:
    cases = [random_case(seed_of(f"spark parts {small}", n), FOCUSES[n % 2]) for n in range(case_count(400, least=2))]
    agree(
        lambda: Database(lambda: SparkEngine(spark, small=small)),
        [(check_transactions, case, "maintenance policy=strict") for case in cases],
    )
