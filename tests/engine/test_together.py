"""Views that do not read one another run together: the same changes and counters as one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import cycle
from typing import Any

import pytest

import upshot
from tests.engine.driver import Driver
from upshot.engine.local.components.component import LocalComponent
from upshot.engine.local.components.runner import Runner
from upshot.engine.local.components.together import Together
from upshot.engine.local.storage.storage import Table
from upshot.plan.rule_plan import RulePlan

COUNT = 9
BASE = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl word(x: number, w: symbol)
"""
FORMS = (
    "v{i}(X) :- a(X, Y), b(Y, Z), X > {i}.",
    "v{i}(X) :- a(X, Y), !b(Y, X), Y != {i}.",
    "v{i}(X) :- a(X, _), word(X, W), strlen(W) > {i}.",
    "v{i}(X) :- a(X, Y). v{i}(Y) :- b(X, Y), Y < {i}.",
)
"""The third one has a function that the kernel leaves to others."""


STRATEGIES = (("counting",), ("maintenance",), ("maintenance", "counting"))
"""Those of the views, in turn."""


def program(count: int = COUNT, strategies: Sequence[str] = STRATEGIES[0]) -> str:
    """`v…` on one level, `w…` above them."""
    below = [FORMS[i % len(FORMS)].format(i=i) for i in range(count)]
    above = [f"w{i}(X) :- v{i}(X), !v{i + 1}(X)." for i in range(count - 1)]
    names = [*(f"v{i}" for i in range(count)), *(f"w{i}" for i in range(count - 1))]
    options = [
        f".decl {name}(x: number)\n.view {name} strategy={strategy}"
        for name, strategy in zip(names, cycle(strategies), strict=False)
    ]
    return "\n".join([BASE, *options, *below, *above, ""])


def history(it: Driver, seed: int, steps: int = 25) -> Iterator[tuple[object, dict[str, dict[str, object]]]]:
    """Random changes; after each, what changed and what it took, view by view."""
    chance = random.Random(seed)
    for _ in range(steps):
        rows = [(chance.randrange(12), chance.randrange(12)) for _ in range(chance.randrange(1, 6))]
        words = [(x, "w" * y) for x, y in rows]
        name = chance.choice("ab")
        change = it.engine.insert if chance.random() < 0.6 else it.engine.delete
        change(name, rows)
        change("word", words)
        deltas = it.commit()
        took = {view: {k: v for k, v in asdict(work).items() if k != "seconds"} for view, work in it.work.views.items()}
        yield deltas, took


@pytest.mark.parametrize("strategies", STRATEGIES, ids=" and ".join)
@pytest.mark.parametrize("seed", range(4))
def test_changes_are_exact(seed: int, strategies: Sequence[str]) -> None:
    it = Driver(program(strategies=strategies))
    for number, _ in enumerate(history(it, seed)):
        if number % 4 == 0:
            it.assert_exact()


@pytest.mark.parametrize("strategies", STRATEGIES, ids=" and ".join)
def test_every_view_has_the_counters_it_has_by_itself(
    strategies: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of maintained views the numbers of rows: plans that are made at another time may join in another order."""
    text = program(strategies=strategies)
    compared = ("probed", "matched", "derived", "filtered", "rounds") if strategies == STRATEGIES[0] else ()

    def counted() -> list[object]:
        counters = ("deleted", "rederived", "inserted", *compared)
        return [
            (deltas, {view: [each[name] for name in counters] for view, each in took.items()})
            for deltas, took in history(Driver(text), 7)
        ]

    together = counted()
    monkeypatch.setattr(Together, "is_worth_it", lambda *_: False)
    assert counted() == together


@pytest.mark.parametrize("strategies", STRATEGIES, ids=" and ".join)
def test_eighty_views_take_few_runs(strategies: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    it = Driver(program(41, strategies))
    it.insert("a", *((i, i) for i in range(50)))
    it.insert("b", *((i, i + 1) for i in range(50)))
    it.insert("word", *((i, "w" * i) for i in range(50)))
    runs: list[object] = []
    run = Runner.run

    def counted(self: Runner, *args: Any, **options: Any) -> None:
        runs.append(self)
        run(self, *args, **options)

    monkeypatch.setattr(Runner, "run", counted)
    it.insert("a", (60, 7))
    assert it.work.components > 60
    assert len(runs) <= 3
    it.assert_exact()


def test_views_that_the_change_does_not_reach_are_not_run() -> None:
    it = Driver(program())
    it.insert("a", *((i, i) for i in range(50)))
    it.insert("b", (1, 20))
    assert {"v0", "v4"} <= set(it.work.views)
    assert not {"v2", "v6"} & set(it.work.views)
    it.assert_exact()


def test_rows_need_not_fit_the_room_there_is() -> None:
    it = Driver(program())
    it.insert("a", (1, 2))
    it.insert("b", *((i % 30, i) for i in range(60)))
    it.insert("a", *((i, i % 40) for i in range(120)))
    it.assert_exact()
    it.delete("a", *((i, i % 40) for i in range(0, 120, 3)))
    it.assert_exact()


def test_an_error_in_one_of_them_leaves_all_as_they_were() -> None:
    rules = "".join(
        f".decl v{i}(x: number) .view v{i} strategy=counting\nv{i}(X / Y) :- a(X, Y), X > {i}.\n" for i in range(6)
    )
    with upshot.connect() as db:
        db.define(BASE + rules)
        with db.transaction() as tx:
            tx.insert("a", [(i, 1) for i in range(40)])
        before = {f"v{i}": set(db.query(f"v{i}(X)")) for i in range(6)}
        with pytest.raises(upshot.Error, match="division by zero"), db.transaction() as tx:
            tx.insert("a", [(99, 3), (5, 0)])
        assert {f"v{i}": set(db.query(f"v{i}(X)")) for i in range(6)} == before
        db.verify()
        with db.transaction() as tx:
            tx.delete("a", [(3, 1)])
        db.verify()


def test_a_definition_in_between_changes_who_runs_together() -> None:
    it = Driver(program(6))
    list(history(it, 3, 8))
    it.install(program(9))
    list(history(it, 4, 8))
    it.assert_exact()
    it.install(program(5))
    list(history(it, 5, 8))
    it.assert_exact()


def test_text_constants_are_kept_while_the_views_live() -> None:
    rules = "".join(
        f'.decl v{i}(x: number) .view v{i} strategy=counting\nv{i}(X) :- word(X, "text {i}"), a(X, _).\n'
        for i in range(8)
    )
    with upshot.connect() as db:
        db.define(BASE + rules)
        for step in range(6):
            with db.transaction() as tx:
                tx.insert("word", [(i, f"{step} {i}") for i in range(3_000)])
                tx.insert("a", [(step, step)])
            with db.transaction() as tx:
                tx.delete("word", [(i, f"{step} {i}") for i in range(3_000)])
        with db.transaction() as tx:
            tx.insert("word", [(i % 6, f"text {i}") for i in range(8)])
        assert [len(tx.changes[f"v{i}"].inserted) for i in range(8)] == [1] * 8
        db.verify()


def test_views_without_changes_are_neither_settled_nor_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    db = upshot.connect()
    rules = [f".deny c{i}(X) :- item(X, Q), Q < {-i}." for i in range(40)]
    rules += [f".decl v{i}(x: number) v{i}(X) :- item(X, Q), Q > {1000 * (i % 4)}." for i in range(40)]
    db.define(".decl item(x: number, q: number)\n" + "\n".join(rules))
    with db.transaction() as tx:
        tx.insert("item", [(i, 1500) for i in range(200)])
    settled: list[int] = []
    settle = Table.settle

    def counted(table: Table) -> None:
        settled.append(table.number)
        settle(table)

    monkeypatch.setattr(Table, "settle", counted)
    with db.transaction() as tx:
        tx.insert("item", [(1000, 1500)])
    changed = {f"v{i}" for i in range(40) if i % 4 < 2}
    assert set(tx.changes) == {"item", *changed}
    assert len(settled) == len(changed) + 1
    assert tx.stats.components == 80
    assert tx.stats.inserted == len(changed)
    assert all(tx.stats.views[f"c{i}"].derived == 0 for i in range(40))
    db.verify()


def test_only_members_whose_relations_grew_are_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Driver(program())
    it.insert("a", *((i, i) for i in range(20)))
    it.insert("b", *((i, i + 1) for i in range(20)))
    it.insert("a", (60, 7))
    views, planned = {f"v{i}" for i in range(COUNT)}, list[str]()
    plans = LocalComponent.plans

    def counted(self: LocalComponent, stage: str) -> list[RulePlan]:
        planned.append(self.names)
        return plans(self, stage)

    monkeypatch.setattr(LocalComponent, "plans", counted)
    it.insert("a", (61, 7))
    assert not planned
    it.insert("word", *((i, "w" * (i % 4)) for i in range(5000)))
    it.insert("a", (62, 7))
    assert {name for name in planned if name in views} == {"v2", "v6"}
    it.assert_exact()
