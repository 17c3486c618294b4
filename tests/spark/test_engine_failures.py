"""A change on Spark that does not end normally leaves nothing behind; a loss in the cluster is made good."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.engine.test_errors import ENDLESS
from tests.properties.settings import case_count
from tests.spark.conftest import Place
from tests.spark.engine_driver import IN_FILES, SparkDriver
from upshot.core.errors import DataError, EngineError, LimitError

pytest.importorskip("pyspark")

from upshot.engine.spark.storage.requests import Jobs
from upshot.spark.failures import translated

CLOSURE = """
.decl edge(x: number, y: number) .decl even(x: number, y: number) .decl odd(x: number, y: number)
.decl out(x: number, n: number)
odd(X, Y) :- edge(X, Y).
odd(X, Z) :- even(X, Y), edge(Y, Z).
even(X, Z) :- odd(X, Y), edge(Y, Z).
out(X, N) :- edge(X, _), N = count : { odd(X, _) }.
"""


def test_a_failing_rule_is_an_error_and_the_state_stays(spark: Any) -> None:
    text = ".decl q(x: number, y: number) .decl p(x: number) p(Z) :- q(X, Y), Z = X / Y."
    with SparkDriver(spark, text) as it:
        it.insert("q", (4, 2))
        before = it.state()
        it.engine.insert("q", [(1, 1), (1, 0)])
        with pytest.raises(DataError, match="division by zero") as caught:
            it.engine.propagate()
        assert caught.value.code == "division-by-zero"
        assert caught.value.span is not None
        it.engine.rollback()
        assert it.state() == before
        assert it.insert("q", (1, 1))["p"] == ({(1,)}, set())


def test_recursion_without_end_stops_at_the_limit_and_names_the_view(spark: Any) -> None:
    with SparkDriver(spark, ENDLESS, max_rounds=5) as it:
        it.engine.insert("start", [(1,)])
        with pytest.raises(LimitError) as caught:
            it.engine.propagate()
        assert caught.value.code == "recursion-limit"
        assert "`n`" in caught.value.message
        assert "5 rounds" in caught.value.message
        it.engine.rollback()
        assert it.rows("start") == it.rows("n") == set()


class Unreliable:
    """Loses an executor in some of the jobs to come."""

    def __init__(self, patch: pytest.MonkeyPatch, *lost: int) -> None:
        self.jobs, self.lost = 0, lost
        original = Jobs.answer

        def answer(answers: Jobs, asks: Any) -> Any:
            self.jobs += 1
            if self.jobs in self.lost or 0 in self.lost:
                raise translated(RuntimeError("Job aborted: ExecutorLostFailure (executor 1 exited)"))
            return original(answers, asks)

        patch.setattr(Jobs, "answer", answer)


@pytest.mark.parametrize("small", [pytest.param(IN_FILES, marks=pytest.mark.deep), 1000])
def test_an_attempt_that_loses_a_worker_is_made_again_from_the_committed_rows(
    spark: Any, small: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: Place
) -> None:
    with SparkDriver(spark, CLOSURE, small=small, location=place.uri, driver=0) as it:
        it.insert("edge", *[(i, i + 1) for i in range(4)])
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "upshot.spark"):
            unreliable = Unreliable(patch, 3, 5)
            it.change(delete={"edge": [(1, 2)]}, insert={"edge": [(1, 3), (4, 0)]})
            assert unreliable.jobs > 5
        assert sum("is made again" in record.message for record in caplog.records) == 2
        it.assert_exact()
        before, files = it.state(), place.files()
        it.engine.insert("edge", [(7, 8)])
        with monkeypatch.context() as patch:
            Unreliable(patch, 0)
            with pytest.raises(EngineError) as caught:
                it.engine.propagate()
            assert (caught.value.code, caught.value.retryable) == ("lost-worker", True)
        it.engine.rollback()
        assert place.files() <= files, "a failed change leaves a file behind"
        assert it.state() == before


def test_views_that_do_not_depend_on_each_other_share_their_jobs(spark: Any) -> None:
    views = " ".join(f".decl v{i}(x: number) v{i}(X) :- e(X, Y), Y > {i}, !f(X)." for i in range(6))
    with SparkDriver(spark, ".decl e(x: number, y: number) .decl f(x: number)" + views) as it:
        it.insert("e", *[(i, i) for i in range(9)])
        it.change(insert={"f": [(7,)], "e": [(20, 20)]}, delete={"e": [(8, 8)]})
        assert it.work.jobs <= 2
        assert len(it.work.views) == 6
        it.assert_exact()


def test_the_location_is_after_many_commits_what_it_was_before(spark: Any, place: Place) -> None:
    """Also when large changes are handed out and thrown away, undone, or written anew."""
    commits = case_count(100, least=9)
    with SparkDriver(spark, CLOSURE, small=30, location=place.uri, driver=0) as it:
        it.insert("edge", *[(i, i + 1) for i in range(12)])
        sizes = []
        for number in range(commits):
            turn = number % 3
            it.engine.delete("edge", [(4, 5)] if turn == 0 else [])
            it.engine.insert("edge", [(4, 5)] if turn == 1 else [])
            held = it.engine.propagate()
            it.engine.rollback() if turn == 2 else it.engine.accept()
            del held
            if turn == 2:
                sizes.append(it.engine._workspace.bytes())
        first, last = sizes[1], sizes[-1]
        assert abs(last - first) <= 0.1 * first, sizes
        it.assert_exact()
    assert place.files() == set()


def test_what_is_too_much_to_send_to_all_workers_is_shuffled(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One edge meets a hub of rows, which meet others in turn."""
    text = """
    .decl e(x: number, y: number) .decl hub(y: number, z: number) .decl at(z: number, w: number)
    .decl p(x: number, w: number)
    .view p strategy=counting
    p(X, W) :- e(X, Y), hub(Y, Z), at(Z, W).
    """
    with SparkDriver(spark, text, small=200) as it, caplog.at_level("INFO", logger="upshot.spark"):
        it.change(insert={"hub": [(1, z) for z in range(800)], "at": [(z, z % 5) for z in range(800)]})
        it.engine._session.conf.set("spark.sql.maxBroadcastTableSize", "10000b")
        it.insert("e", (0, 1))
        assert "joins shuffle" in caplog.text
        it.assert_exact()
        assert it.engine._session.conf.get("spark.sql.adaptive.enabled") == "false", "only until the change is made"


def test_work_that_finds_no_memory_for_its_joins_is_done_again_with_joins_that_spill(
    spark: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joins of small rows are hashed in one task, which keeps a page for each of them."""
    text = ".decl a(x: number) .decl b(x: number) .decl p(x: number) p(X) :- a(X), b(X). .view p strategy=counting"
    usual, hints = Jobs.answer, []

    def answer(self: Jobs, asks: Any) -> Any:
        hints.append(it.engine._session.conf.get("spark.sql.optimizer.disableHints"))
        if len(hints) == 1:
            raise translated(
                RuntimeError("SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 2048 bytes")
            )
        return usual(self, asks)

    with SparkDriver(spark, text) as it, caplog.at_level("INFO", logger="upshot.spark"):
        it.insert("a", (1,), (2,))
        monkeypatch.setattr(Jobs, "answer", answer)
        it.insert("b", (2,), (3,))
        assert hints[:2] == ["false", "true"]
        assert "joins shuffle" in caplog.text
        it.assert_exact()
