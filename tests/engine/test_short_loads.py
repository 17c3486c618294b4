"""A load pays for the rules it runs, for few estimates and few growths: by calls, not by the clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import upshot
from tests.engine.kernels import kernel
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.phases import LocalStatistics
from upshot.engine.local.storage import index, storage
from upshot.engine.local.storage.storage import Storage, Table
from upshot.plan import component_plans, rule_plans

SAME_GENERATION = """
.decl edge(a: number, b: number)
.decl sg(x: number, y: number)
sg(X, Y) :- edge(P, X), edge(P, Y), X != Y.
sg(X, Y) :- edge(A, X), sg(A, B), edge(B, Y).
"""


def calls_of(deed: Callable[[], Any]) -> int:
    """The calls of Python functions that the deed takes."""
    count = 0

    def follow(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(follow)
    try:
        deed()
    finally:
        sys.setprofile(None)
    return count


def table_of(pairs: list[tuple[int, int]]) -> Table:
    table = Storage().create(2)
    table.stage(np.array(pairs, np.int64), insert=True)
    table.settle()
    return table


def component_of(text: str) -> LocalComponent:
    db = upshot.connect()
    db.define(text)
    (component,) = db._state.engine._now.components  # type: ignore[attr-defined]
    assert isinstance(component, LocalComponent)
    return component


@pytest.mark.parametrize(("keys", "least", "most"), [(10, 10, 10), (500, 250, 1_000), (20_000, 10_000, 20_000)])
def test_the_keys_of_a_large_table_are_estimated_by_few_calls(keys: int, least: int, most: int) -> None:
    with kernel("compiled"):
        statistics = LocalStatistics({"r": table_of([(i * 7 % keys, i) for i in range(20_000)])})
        statistics.keys("r", (1,))
        assert calls_of(lambda: statistics.keys("r", (0,))) < 60
        assert least <= (statistics.keys("r", (0,)) or 0) <= most


def test_keys_that_stand_together_are_not_taken_for_distinct_ones() -> None:
    with kernel("compiled"):
        statistics = LocalStatistics({"r": table_of([(i // 40, i) for i in range(40_000)])})
        assert 500 <= (statistics.keys("r", (0,)) or 0) <= 4_000


def test_a_load_orders_no_rule_that_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    component, planned = component_of(SAME_GENERATION), list[str]()
    plans = rule_plans.maintenance_plans

    def counted(rule: Any, *rest: Any) -> Any:
        planned.append(rule.name)
        return plans(rule, *rest)

    monkeypatch.setattr(component_plans, "maintenance_plans", counted)
    assert len(component.plans("load")) == 2
    assert len(planned) == 1
    component._has_seeds("insert")
    assert len(planned) == 1


@pytest.mark.parametrize("strategy", ["maintenance", "bf"])
def test_what_drives_a_stage_is_what_drives_its_plans(strategy: str) -> None:
    component = component_of(SAME_GENERATION + f".view sg strategy={strategy}")
    for stage in component.plan.strategy.stages:
        seeds = {
            (plan.driver.match.relation, plan.driver.change, plan.action)
            for plan in component.plans(stage)
            if plan.seed and plan.driver
        }
        assert component_plans.seeds_of(component.plan, stage) == seeds


def test_a_table_of_a_hundred_thousand_rows_has_grown_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, rehashed = list[int](), index.rehashed

    def counted(old: Any, old_count: int, new_count: int) -> Any:
        moved.append(old_count)
        return rehashed(old, old_count, new_count)

    monkeypatch.setattr(storage, "rehashed", counted)
    with kernel("compiled"):
        table = Storage().create(1)
        for first in range(0, 100_000, 10):
            table.stage(np.arange(first, first + 10, dtype=np.int64).reshape(-1, 1), insert=True)
        assert table.size == 100_000
    assert len(moved) <= 10
    assert sum(moved) < 3 * 100_000
