"""Every optimization can be switched off on Spark too, whichever way it goes: the same changes, and more work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.driver import plain
from upshot.core.optimizations import NAMES, optimizations
from upshot.database.database import Database
from upshot.engine.limits import Limits
from upshot.engine.spark.engine import SparkEngine
from upshot.engine.work import Work

pytestmark = pytest.mark.slow

WAYS = ("in the driver", pytest.param("by rounds", marks=pytest.mark.deep))

PROGRAM = """
.decl edge(x: number, y: number) .decl road(x: number, y: number) .decl mark(x: number, y: number)
.decl reach(x: number, y: number) .decl far(y: number) .decl both(x: number, y: number) .decl way(x: number, y: number)
.decl low(x: number)
.decl wide(x: number, z: number) .decl high(x: number) .decl lost(x: number)
way(X, Y) :- road(X, Y).
reach(X, Y) :- edge(X, Y).
reach(X, Z) :- reach(X, Y), edge(Y, Z).
far(Y) :- reach(1, Y), Y > 2.
both(X, Y) :- edge(X, Y), way(X, _).
both(X, Y) :- edge(X, Y), way(_, Y).
wide(X, Z) :- way(A, X), way(B, Z), edge(X, B), edge(A, A).
low(X) :- mark(X, Y), Y < 10.
high(X) :- mark(X, Y), Y > 90.
lost(X) :- road(X, X), edge(X, X).
.view reach strategy=epf events=none
.view way strategy=epf events=none
.view far strategy=epf events=insert
.view both strategy=epf
.view wide strategy=epf
.view low strategy=epf
.view high strategy=maintenance
.view lost strategy=maintenance
"""
BASE = {
    "edge": [(1, 2), (2, 3), (3, 4), (11, 12), (12, 13)],
    "road": [(1, 2), (2, 3), (11, 12), (12, 13)],
    "mark": [(1, 5), (2, 95), (3, 50)],
}


def work_of(spark: Any, optimize: list[str], way: str) -> tuple[dict[str, Work], dict[str, Any]]:
    """What three changes take, and what becomes of the views."""
    limits = Limits(optimizations=optimizations(optimize))
    found, changes = {}, {}
    driver = 0 if way == "by rounds" else None
    with Database(lambda: SparkEngine(spark, limits=limits, driver=driver)) as db:
        db.define(PROGRAM)
        with db.transaction() as tx:
            for name, rows in BASE.items():
                tx.insert(name, rows)
        for told, insert, delete in (
            ("followed", {"edge": [(4, 5), (13, 14)]}, {"edge": [(12, 13)]}),
            ("gone", {}, {"edge": [(2, 3)]}),
            ("irrelevant", {"mark": [(7, 50), (8, 51)]}, {"mark": [(3, 50)]}),
        ):
            with db.transaction() as tx:
                for name, rows in delete.items():
                    tx.delete(name, rows)
                for name, rows in insert.items():
                    tx.insert(name, rows)
            found[told] = tx.stats
            for view in ("far", "both", "wide", "low", "high", "lost"):
                if view in tx.changes:
                    changes[told, view] = plain(tx.changes[view].inserted), plain(tx.changes[view].deleted)
            jobs = [work.jobs for views, work in tx.stats.views.items() if "far" in views]
            assert all((each == 0) == (way == "in the driver") for each in jobs) or told == "irrelevant"
    return found, changes


@pytest.mark.parametrize("way", WAYS)
def test_each_can_be_switched_off_on_spark(spark: Any, way: str) -> None:
    with_all, wanted = work_of(spark, list(NAMES), way)
    assert wanted == {
        ("followed", "far"): ({(5,)}, set()),
        ("followed", "both"): (set(), {(12, 13)}),
        ("gone", "both"): (set(), {(2, 3)}),
    }
    assert with_all["irrelevant"].components == 0
    assert with_all["irrelevant"].screened == 3
    for left_out in NAMES:
        work, changes = work_of(spark, [name for name in NAMES if name != left_out], way)
        assert changes == wanted, left_out
        total, least = (sum(_steps(each) for each in some.values()) for some in (work, with_all))
        assert total > least, left_out
        if left_out == "screening":
            assert work["irrelevant"].screened == 0
            assert work["irrelevant"].components > 0
        elif left_out == "memo":
            assert sum(each.asked for each in work.values()) > sum(each.asked for each in with_all.values())
        elif left_out == "event_paths":
            assert work["gone"].asked > with_all["gone"].asked
            assert work["gone"].components > with_all["gone"].components, "an empty view has nothing to lose"


def _steps(work: Work) -> int:
    """What both ways count: rows derived, questions, components looked at."""
    return work.derived + work.asked + work.components
