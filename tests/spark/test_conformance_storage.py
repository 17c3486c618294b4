"""What a long run leaves behind: nothing. Files and storage memory are what they were, commit after commit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.settings import is_soak

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


@pytest.fixture
def location(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """A location of our own, so that its bytes are ours."""
    spark.conf.set("upshot.location", str(tmp_path))
    yield tmp_path
    spark.conf.unset("upshot.location")


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def storage(spark: Any) -> int:
    """The storage memory in use, once the collector of what nobody refers to any more has had its chance."""
    spark.sparkContext._jvm.System.gc()
    time.sleep(1.0)
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().values().toSeq()
    return sum(status.apply(n)._1() - status.apply(n)._2() for n in range(status.size()))


def test_the_location_and_storage_memory_return_to_where_they_were(spark: Any, location: Path) -> None:
    chain = [(node, node + 1) for node in range(30)]
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            tx.insert("edge", chain)
        before: tuple[int, int] = (0, 0)
        for number in range(COMMITS):
            if number == WARM:
                before = bytes_in(location), storage(spark)
            edge = chain[20 + number // 2 % 10]
            with db.transaction() as tx:
                (tx.insert if number % 2 else tx.delete)("edge", [edge])
            assert len(tx.changes["closure"].inserted) + len(tx.changes["closure"].deleted) > 0
        after = bytes_in(location), storage(spark)
        assert len(db.rows("closure")) == 30 * 31 // 2
    assert after[0] <= before[0] * 1.1 + 4_096, f"location: {before[0]} bytes, then {after[0]}"
    assert after[1] <= before[1] * 1.1 + 65_536, f"storage memory: {before[1]} bytes, then {after[1]}"
    assert bytes_in(location) == 0, "closing the database leaves files behind"
