"""The rules for changes of unstored views are kept from one change to the next, unless their tables got too large."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from upshot.engine.local.queries import demand_run, on_demand
from upshot.plan import demand_plans

TABLES = ".decl edge(a: number, b: number) .decl node(a: number)\n"
FAN = 300


def programs_made(monkeypatch: pytest.MonkeyPatch, rules: str) -> int:
    """The programs made after a load, for four insertions and deletions of an edge, each of which derives 300 rows."""
    made, change_program = list[Any](), demand_plans.change_program

    def counted(*args: Any, **options: Any) -> Any:
        made.append(options["changed"])
        return change_program(*args, **options)

    monkeypatch.setattr(on_demand, "change_program", counted)
    db = upshot.connect()
    db.define(TABLES + rules)
    with db.transaction() as tx:
        tx.insert("edge", [(1, node) for node in range(2, FAN + 2)])
    made.clear()
    for _ in range(4):
        with db.transaction() as tx:
            tx.insert("edge", [(0, 1)])
        assert len(tx.changes["reach_0"].inserted) == FAN
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
    return len(made)


def views(count: int) -> str:
    rule = ".decl reach_{0}(a: number, b: number) .view reach_{0} strategy=propagation materialized=false\n"
    rule += "reach_{0}(X, Z) :- edge(X, Y), edge(Y, Z), Z > {0}.\n"
    return "".join(rule.format(number) for number in range(count))


@pytest.mark.parametrize(("count", "expected"), [(1, 8), (40, 1)])
def test_programs_with_many_tables_keep_more_room(count: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_run, "_MOST_ROOM", 0)
    monkeypatch.setattr(demand_run, "_MOST_ROOM_EACH", {1: 20, 40: 400}[count])
    assert programs_made(monkeypatch, views(count)) == expected
