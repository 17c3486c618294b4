"""A later definition generates rules only for the components that it changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

import upshot
from upshot.plan import program_plan

MANY = 60
BASE = ".decl a(x: number, y: number)\n.decl b(x: number, y: number)\n"


def views(count: int = MANY) -> str:
    rules = (f".decl v{i}(x: number)\nv{i}(X) :- a(X, Y), b(Y, Z), X > {i}.\n" for i in range(count))
    return BASE + "".join(rules)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The components for which rules are generated."""
    found: list[tuple[str, ...]] = []
    component = program_plan._component

    def counted(normal: Any, names: tuple[str, ...], *rest: Any) -> program_plan.ComponentPlan:
        found.append(names)
        return component(normal, names, *rest)

    monkeypatch.setattr(program_plan, "_component", counted)
    return found


def test_one_more_view_generates_the_rules_of_that_view(planned: list[tuple[str, ...]]) -> None:
    with upshot.connect() as db:
        db.define(views())
        assert len(planned) == MANY
        planned.clear()
        db.define(".decl w(x: number)\nw(X) :- v3(X), !v4(X).\n")
        assert planned == [("w",)]
        with db.transaction() as tx:
            tx.insert("a", [(4, 1), (70, 1)])
            tx.insert("b", [(1, 1)])
        assert set(db.query("w(X)")) == {(4,)}
        db.verify()


def test_other_rules_columns_and_strategies_are_followed(planned: list[tuple[str, ...]]) -> None:
    with upshot.connect() as db:
        db.define(views(4))
        planned.clear()
        db.define("v1(X) :- b(X, X).\n")
        assert planned == [("v1",)]
        planned.clear()
        db.define(".view v2 strategy=maintenance\n")
        assert planned == [("v2",)]
        with db.transaction() as tx:
            tx.insert("a", [(3, 1), (7, 2)])
            tx.insert("b", [(1, 1), (2, 5), (9, 9)])
        db.verify()


@pytest.mark.parametrize("strategy", ["counting", "maintenance", "bf", "production"])
def test_a_relation_may_take_the_name_of_a_state(strategy: str) -> None:
    chance = random.Random(11)
    with upshot.connect() as db:
        db.define(BASE + f".decl v(x: number)\n.view v strategy={strategy}\nv(X) :- a(X, Y), !b(Y, X).\n")
        db.define(
            ".decl a_ins(x: number, y: number)\n.decl a_new(x: number, y: number)\n.decl b_del(x: number, y: number)\n"
            f".decl w(x: number)\n.view w strategy={strategy}\nw(X) :- a_ins(X, Y), a(Y, X), !b_del(X, Y), !v(Y).\n"
        )
        for _ in range(12):
            with db.transaction() as tx:
                for name in ("a", "b", "a_ins", "a_new", "b_del"):
                    rows = [(chance.randrange(4), chance.randrange(4)) for _ in range(3)]
                    (tx.insert if chance.random() < 0.6 else tx.delete)(name, rows)
            db.verify()
