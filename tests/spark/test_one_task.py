"""Commits over a few rows that are all in the driver: a round is one task, and nothing is sent or shuffled for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.spark.engine_driver import SparkDriver

pytest.importorskip("pyspark")

from upshot.engine.spark.frames import joins
from upshot.plan.rule_plan import State

PROGRAM = """
.decl edge(x: number, y: number) .decl closed(x: number)
.decl open(x: number, y: number) .decl degree(x: number, n: number) .decl joined(x: number, y: number)
open(X, Y) :- edge(X, Y), !closed(X), !closed(Y).
degree(X, N) :- edge(X, _), N = count : { open(X, _) }.
joined(X, Z) :- open(X, Y), open(Y, Z), X != Z.
"""
CLOSURE = """
.decl edge(x: number, y: number) .decl closure(x: number, y: number) .view closure policy=strict
closure(X, Y) :- edge(X, Y). closure(X, Z) :- closure(X, Y), edge(Y, Z).
"""
CHAIN = [(node, node + 1) for node in range(20)]


@contextmanager
def counted(spark: Any) -> Iterator[list[int]]:
    """Inside, Spark's own jobs are counted: those that send rows around, too."""
    context, group = spark.sparkContext, f"one task {len(_GROUPS)}"
    _GROUPS.append(group)
    found: list[int] = []
    context.setJobGroup(group, group)
    try:
        yield found
    finally:
        found.append(len(context.statusTracker().getJobIdsForGroup(group)))
        context.setLocalProperty("spark.jobGroup.id", None)


_GROUPS: list[str] = []


def test_a_round_over_a_few_rows_is_one_job_of_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"insert": {"edge": [(1, 3)], "closed": [(5,)]}, "delete": {"edge": [(7, 8)]}}
    with SparkDriver(spark, PROGRAM) as it, counted(spark) as jobs:
        it.change(insert={"edge": CHAIN, "closed": [(9,)]})
        loaded = it.work.jobs
        it.change(**changes)
        it.assert_exact()
        actions = loaded + it.work.jobs
    assert jobs == [actions]
    monkeypatch.setattr(joins, "FEW", 0)
    with SparkDriver(spark, PROGRAM) as it, counted(spark) as jobs:
        it.change(insert={"edge": CHAIN, "closed": [(9,)]})
        it.change(**changes)
        it.assert_exact()
    assert jobs[0] > actions


def test_a_task_builds_no_more_tables_than_its_memory_holds(spark: Any) -> None:
    """Each takes a page of it until the task ends; rows of further joins are broadcast."""
    text = ".decl a(x: number, y: number) .decl b(x: number, y: number)"
    views = [f".decl v{n}(x: number, z: number) v{n}(X, Z) :- a(X, Y), b(Y, Z), X != {n}." for n in range(30)]
    with SparkDriver(spark, text + " ".join(views)) as it:
        plans: list[str] = []
        answer = it.engine._jobs.answer

        def explained(asks: Any) -> Any:
            plans.extend(ask.frame._jdf.queryExecution().toString() for ask in asks)
            return answer(asks)

        it.engine._jobs.answer = explained  # type: ignore[method-assign]
        it.change(insert={"a": CHAIN, "b": CHAIN})
        it.assert_exact()
    physical = "".join(plan.partition("== Physical Plan ==")[2] for plan in plans)
    assert 0 < physical.count("ShuffledHashJoin") <= joins.MOST_HASHED
    assert physical.count("BroadcastHashJoin") > 0


def test_rows_in_files_are_for_many_tasks(spark: Any) -> None:
    with SparkDriver(spark, PROGRAM, small=10) as it:
        it.change(insert={"edge": CHAIN, "closed": [(9,)]})
        tables = it.engine._now.tables
        assert not tables["edge"].committed.is_local
        with joins.one_task([tables["closed"]]):
            assert joins.is_alone()
            tables["edge"].frame(State.OLD)
            assert not joins.is_alone()
        with joins.one_task(tables.values()):
            assert not joins.is_alone()


@pytest.mark.parametrize(("small", "jobs"), [(1000, [1, 1, 1]), (100, [2, 1, 1])], ids=["in the driver", "in files"])
def test_what_a_change_touches_is_found_in_the_job_that_follows_it(spark: Any, small: int, jobs: list[int]) -> None:
    """With the view in files, once a change has shown how much that is."""
    with SparkDriver(spark, CLOSURE, small=small, driver=0) as it:
        it.insert("edge", *CHAIN)
        took = []
        for row in (CHAIN[18], CHAIN[17], CHAIN[16]):
            it.delete("edge", row)
            took.append(it.work.views["closure"].jobs)
            it.assert_exact()
    assert took == jobs
