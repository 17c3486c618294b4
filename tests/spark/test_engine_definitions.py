"""A new program over rows that are there, on Spark: what did not change is kept, the rest changes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engine.driver import plan_of
from tests.engine.test_install import BASE, CHAIN
from tests.spark.engine_driver import IN_FILES, SparkDriver
from upshot.engine.saved import Saved
from upshot.spark.location import files_of


def test_definitions_come_and_go_and_views_stay_exact(spark: Any) -> None:
    with SparkDriver(spark, BASE) as it:
        it.insert("edge", *CHAIN)
        it.assert_exact()
        assert it.install(BASE) == {}
        assert (it.work.components, it.work.derived, it.work.jobs) == (0, 0, 0)
        both = BASE + ".decl both(x: number) both(X) :- path(X, 5), path(X, 7)."
        assert it.install(both) == {"both": ({(i,) for i in range(5)}, set())}
        assert set(it.work.views) == {"both"}
        changed = both.replace("end(X) :- edge(_, X), !edge(X, _).", "end(X) :- edge(_, X), X > 18.")
        assert it.install(changed, recompute={"end"}) == {"end": ({(19,)}, set())}
        assert it.delete("edge", (18, 19))["end"] == (set(), {(19,)})
        it.assert_exact()
        wider = changed.replace(".decl end(x: number)", ".decl end(x: number, y: number)").replace(
            "end(X) :- edge(_, X), X > 18.", "end(X, Y) :- edge(Y, X), !edge(X, _)."
        )
        assert it.install(wider, recompute={"end"})["end"] == ({(18, 17), (20, 19)}, set())
        assert it.install(".decl edge(x: number, y: number)") == {}
        assert set(it.engine.work.views) == set()
        it.install(BASE)
        it.assert_exact()


def test_a_definition_that_is_undone_leaves_everything_as_it_was(spark: Any) -> None:
    with SparkDriver(spark, BASE) as it:
        it.insert("edge", *CHAIN)
        before = it.state()
        more = plan_of(BASE.replace("!edge(X, _)", "X > 5") + ".decl loop(x: number) loop(X) :- path(X, X).")
        it.engine.install(more, frozenset({"end"}))
        it.engine.insert("edge", [(20, 0)])
        deltas = it.engine.propagate()
        assert len(deltas["loop"][0]) == 21
        assert it.query("end(X)") == {(20,)}
        assert it.state() == before
        it.engine.rollback()
        assert it.state() == before
        assert set(deltas["edge"][0]) == {(20, 0)}
        it.delete("edge", (3, 4))
        it.assert_exact()


STRATEGIES = ("maintenance", "counting", "recompute", "counting", "maintenance", "recompute", "maintenance")


def test_a_view_and_those_above_it_stay_exact_when_it_changes_its_strategy(spark: Any) -> None:
    text = """
    .decl e(g: number, x: number) .decl r(g: number, x: number) .decl v(g: number, n: number) .decl u(g: number)
    r(G, X) :- e(G, X), X > 0. r(G, X) :- e(X, G). v(G, N) :- r(G, _), N = sum X : { r(G, X) }.
    u(G) :- e(G, _), !r(G, 1).
    """
    with SparkDriver(spark, text + ".view r strategy=recompute") as it:
        it.insert("e", (1, 1), (1, 2), (2, 7), (7, 2))
        for number, strategy in enumerate(STRATEGIES):
            views = {"r", "v", "u", *(name for name in it.plan.normal.schemas if name != "e")}
            deltas = it.install(text + f".view r strategy={strategy}", recompute=views)
            assert not any(came or went for came, went in deltas.values()), strategy
            it.change(delete={"e": [(1, 1 + number % 2)]}, insert={"e": [(1, 2 - number % 2), (number, 1)]})
            it.assert_exact()


def test_rows_handed_out_do_not_follow_later_changes(spark: Any) -> None:
    path_only = ".decl edge(x: number, y: number) .decl path(x: number, y: number) path(X, Y) :- edge(X, Y), X < Y."
    for small in (IN_FILES, 1000):
        it = SparkDriver(spark, path_only, small=small)
        it.engine.insert("edge", CHAIN)
        inserted, _ = it.engine.propagate()["edge"]
        it.engine.accept()
        whole, lent = it.engine.rows("edge"), it.engine.rows("path").to_spark()
        it.engine.delete("edge", CHAIN[:10])
        deltas = it.engine.propagate()
        it.engine.rollback()
        it.replace("edge", *CHAIN[5:12])
        it.insert("edge", *[(i, -i) for i in range(1, 9)])
        assert set(inserted) == set(whole) == set(CHAIN)
        assert set(deltas["edge"][1]) == set(CHAIN[:10])
        assert lent.columns == ["x", "y"]
        assert lent.count() == 20
        path = it.engine.rows("path")
        assert len(set(path)) == len(path)
        workspace = it.engine._workspace
        it.engine.close()
        assert len(set(path)) == len(path)
        assert files_of(spark, workspace.uri).status(workspace.uri) is None


def test_saved_relations_come_back_without_being_computed(spark: Any, tmp_path: Path) -> None:
    extra = ".decl yes() .decl twice(x: number) yes() :- edge(1, 2). twice(X) :- edge(X, _). twice(X) :- edge(_, X)."
    plan = plan_of(BASE + extra)
    with SparkDriver(spark, BASE + extra, small=IN_FILES) as it:
        it.insert("edge", *CHAIN)
        saved = {}
        for name in plan.normal.schemas:
            count = it.engine.save(name, tmp_path / name)
            assert count == it.engine.size(name)
            saved[name] = Saved(tmp_path / name, count)
        it.engine.delete("edge", [(0, 1)])
        it.engine.insert("edge", [(30, 31)])
        deltas = it.engine.propagate()
        it.engine.accept()
        for number, (name, (came, went)) in enumerate(deltas.items()):
            came.to_parquet(tmp_path / f"came-{name}")
            change = (tmp_path / f"came-{name}" if number % 2 else came.to_arrow(), went.to_arrow())
            saved[name] = Saved(saved[name].folder, saved[name].rows, (change,))
        wanted = it.state()
    with SparkDriver(spark, "") as it:
        it.engine.restore(plan, saved)
        it.plan = plan
        assert it.state() == wanted
        assert all(work.jobs <= 2 for name, work in it.work.views.items()), it.work.views
        assert "path" not in it.work.views
        it.delete("edge", (9, 10), (30, 31))
        it.assert_exact()
    with SparkDriver(spark, "") as it:
        it.engine.restore(plan, {"edge": saved["edge"]})
        it.plan = plan
        assert it.state() == wanted
