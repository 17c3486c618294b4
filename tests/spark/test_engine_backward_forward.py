"""`bf` on Spark: the answers of `maintenance`, and `explain` says whose rules run."""

from __future__ import annotations

from typing import Any

from tests.spark.engine_driver import SparkDriver

TEXT = """
.decl edge(x: number, y: number) .decl closure(x: number, y: number) .view closure strategy=bf
closure(X, Y) :- edge(X, Y). closure(X, Y) :- closure(X, Z), closure(Z, Y).
"""


def test_a_view_that_asks_for_it_is_kept_by_maintenance(spark: Any) -> None:
    with SparkDriver(spark, TEXT) as it:
        it.insert("edge", (0, 1), (1, 2), (2, 3), (3, 1), (0, 3))
        it.delete("edge", (0, 1), (2, 3))
        it.assert_exact()
        told = it.engine.describe("closure")
        assert "on Spark by `maintenance`" in told
        assert "rederive:" in told
        assert "prove:" not in told
