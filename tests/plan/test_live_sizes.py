"""Join orders follow the sizes that relations have while a fixpoint runs, not those they had when it was planned."""

from __future__ import annotations

import random

import numpy as np
import pytest

import upshot
from tests.engine.kernels import both_forms, kernel
from tests.plan.plans import Given, changes, declared, steps
from upshot.engine.local.components import component
from upshot.engine.local.components.phases import LocalStatistics
from upshot.engine.local.storage.storage import Storage
from upshot.plan.component_plans import stage_plans
from upshot.plan.program_plan import ComponentPlan
from upshot.plan.rule_plan import RulePlan

POINTS_TO = """
.decl new_object(v: symbol, o: symbol)
.decl assign(to: symbol, from: symbol)
.decl load(to: symbol, base: symbol, f: symbol)
.decl store(base: symbol, f: symbol, from: symbol)
.decl vpt(v: symbol, o: symbol)
.decl hpt(o: symbol, f: symbol, t: symbol)
vpt(V, O) :- new_object(V, O).
vpt(V, O) :- assign(V, W), vpt(W, O).
vpt(V, O) :- load(V, B, F), vpt(B, H), hpt(H, F, O).
hpt(H, F, O) :- store(B, F, V), vpt(B, H), vpt(V, O).
"""


def points_to(variables: int, seed: int) -> dict[str, list[tuple[str, ...]]]:
    rng = random.Random(seed)

    def variable() -> str:
        return f"v{rng.randrange(variables)}"

    def field() -> str:
        return f"f{rng.randrange(10)}"

    return {
        "new_object": [(variable(), f"o{i}") for i in range(variables)],
        "assign": [(variable(), variable()) for _ in range(variables // 2)],
        "load": [(variable(), variable(), field()) for _ in range(variables // 4)],
        "store": [(variable(), field(), variable()) for _ in range(variables // 4)],
    }


@both_forms
def test_a_load_from_empty_probes_in_proportion_to_what_it_derives(form: str) -> None:
    with kernel(form):
        db = upshot.connect()
        db.define(POINTS_TO)
        with db.transaction() as tx:
            for relation, rows in points_to(600 if form == "plain" else 3000, seed=7).items():
                tx.insert(relation, rows)
        assert tx.stats.derived > 1000
        assert tx.stats.probed <= 20 * tx.stats.derived
        db.verify()


def times_planned(monkeypatch: pytest.MonkeyPatch, text: str, rows: dict[str, list[tuple[str, ...]]]) -> int:
    """The number of times that a load plans its rules."""
    stages: list[str] = []

    def counted(plan: ComponentPlan, stage: str, statistics: LocalStatistics) -> list[RulePlan]:
        stages.append(stage)
        return stage_plans(plan, stage, statistics)

    monkeypatch.setattr(component, "stage_plans", counted)
    with upshot.connect() as db:
        db.define(text)
        stages.clear()
        with db.transaction() as tx:
            for relation, given in rows.items():
                tx.insert(relation, given)
        planned = stages.count("load")
        db.verify()
    return planned


def test_rounds_that_look_up_only_relations_of_one_size_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = """
    .decl edge(x: symbol, y: symbol)
    .decl sg(x: symbol, y: symbol)
    sg(X, Y) :- edge(P, X), edge(P, Y), X != Y.
    sg(X, Y) :- edge(A, X), sg(A, B), edge(B, Y).
    """
    tree = [(f"n{(child - 1) // 2}", f"n{child}") for child in range(1, 127)]
    assert times_planned(monkeypatch, linear, {"edge": tree}) == 1
    assert times_planned(monkeypatch, POINTS_TO, points_to(600, seed=7)) > 1


def test_a_body_is_never_started_with_a_cross_product_where_a_connected_probe_exists() -> None:
    rule = "p(X) :- q(X, Y), r(Y, Z), s(Z).\nq(X, Y) :- p(X), r(X, Y)."
    text = declared(rule, views="p(x: number) .decl q(x: number, y: number)", r=2, s=1)
    plans = changes(text, "p", Given({"p": 0, "q": 0, "r": 1_000, "s": 0}))
    for plan in plans:
        assert not any(line.startswith("scan") for line in steps(plan)[1:]), plan


@pytest.mark.parametrize("strategy", ["rod", "epf", "differencing"])
def test_a_query_of_an_unstored_view_continues_the_chain_instead_of_multiplying_its_ends(strategy: str) -> None:
    rng = random.Random(1)
    db = upshot.connect()
    db.define(
        f"""
        .decl a(x: number, y: number)
        .decl e(x: number, y: number)
        .decl c(x: number, y: number)
        .decl b(x: number, y: number)
        .decl p(x: number, y: number)
        b(X, Y) :- e(X, Y).
        b(X, Y) :- e(X, Z), b(Z, Y).
        p(X, Y) :- a(X, V), b(V, W), c(W, Y).
        .view b strategy={strategy} materialized=false
        .view p strategy={strategy} materialized=false
        """
    )
    nodes = 600
    with db.transaction() as tx:
        tx.insert("a", [(rng.randrange(3), rng.randrange(nodes)) for _ in range(nodes)])
        tx.insert("c", [(rng.randrange(nodes), rng.randrange(3)) for _ in range(nodes)])
        tx.insert("e", [(node, node + 1) for node in range(nodes) if node % 20 != 19])
    with db.transaction() as tx:
        tx.delete("a", [sorted(db.rows("a"))[50]])
    # The hub of `a` times the hub of `c` would be 40,000 pairs for each row that is rederived.
    assert tx.stats.probed < 200_000
    db.verify()


def test_distinct_keys_are_estimated_from_a_sample_where_no_index_counts_them() -> None:
    table = Storage().create(3)
    rows = np.array([(i, i % 10, i // 2) for i in range(20_000)], np.int64)
    table.stage(rows, insert=True)
    table.settle()
    table.accept()
    statistics = LocalStatistics({"t": table})
    assert statistics.keys("t", (0,)) == 20_000
    assert statistics.keys("t", (1,)) == 10
    halves = statistics.keys("t", (2,))
    assert halves is not None
    assert 2_000 < halves <= 20_000
    table.index_on((2,))
    assert statistics.keys("t", (2,)) == 10_000


def test_equal_values_that_stand_together_are_seen_to_repeat() -> None:
    table = Storage().create(2)
    table.stage(np.array([(i // 40, i) for i in range(200_000)], np.int64), insert=True)
    table.settle()
    table.accept()
    groups = LocalStatistics({"t": table}).keys("t", (0,))
    assert groups is not None
    assert 1_000 < groups < 20_000
