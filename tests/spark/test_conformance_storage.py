"""What a long run leaves behind: nothing. Files and storage memory are what they were, commit after commit."""

from __future__ import annotations

import time
from typing import Any

import pytest

import upshot
from tests.properties.settings import is_soak
from tests.spark.conftest import Place

pytestmark = pytest.mark.slow
"""Dozens of commits, hundreds by `make soak`."""

PROGRAM = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
.decl even(x: number) .decl odd(x: number)
.decl far(x: number, n: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
odd(Y) :- edge(0, Y). odd(Y) :- even(X), edge(X, Y).
even(Y) :- odd(X), edge(X, Y).
far(X, N) :- edge(X, _), N = count : { closure(X, _) }.
"""
COMMITS = 1_000 if is_soak() else 16
WARM = 6
"""Commits before the first look: caches of Spark and of ours that are made once."""


def storage(spark: Any) -> int:
    """The storage memory in use, once the collector of what nobody refers to any more has had its chance."""
    spark.sparkContext._jvm.System.gc()
    time.sleep(1.0)
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().values().toSeq()
    return sum(status.apply(n)._1() - status.apply(n)._2() for n in range(status.size()))


def test_the_location_and_storage_memory_return_to_where_they_were(spark: Any, place: Place) -> None:
    chain = [(node, node + 1) for node in range(30)]
    with upshot.connect(spark=spark, engine="spark", location=place.uri) as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("edge", chain)
        before: tuple[int, int] = (0, 0)
        for number in range(COMMITS):
            if number == WARM:
                before = place.bytes(), storage(spark)
            edge = chain[20 + number // 2 % 10]
            with db.transaction() as tx:
                (tx.insert if number % 2 else tx.delete)("edge", [edge])
            assert len(tx.changes["closure"].inserted) + len(tx.changes["closure"].deleted) > 0
        after = place.bytes(), storage(spark)
        assert len(db.rows("closure")) == 30 * 31 // 2
    assert after[0] <= before[0] * 1.1 + 4_096, f"location: {before[0]} bytes, then {after[0]}"
    assert after[1] <= before[1] * 1.1 + 65_536, f"storage memory: {before[1]} bytes, then {after[1]}"
    assert place.bytes() == 0, "closing the database leaves files behind"
