"""The values that rules are active for are rows of hidden relations: one more costs the same however many there are,
and a rule that sleeps costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.database.test_short_ways import calls_of

PROGRAM = """
.decl quantity(item: number, n: number) key(item)
.decl threshold(item: number, n: number) key(item)
.decl orders(item: number, n: number)
.decl low(item: number)
low(I) :- quantity(I, Q), threshold(I, T), Q < T.
"""
REORDER = """
.rule reorder(I, N) {options} when low(I), quantity(I, Q), threshold(I, T), N = T - Q do insert orders(I, N).
"""
TOLD = ".rule told(I) {options} on insert low(I) do call tell(I).\n"
ITEMS = 3_000


def shop(*rules: str, path: Path | None = None) -> Any:
    db = upshot.connect() if path is None else upshot.connect(path)
    db.action("tell", lambda rows: None)
    db.define(PROGRAM)
    with db.transaction() as tx:
        tx.insert("quantity", [(item, 100) for item in range(ITEMS)])
        tx.insert("threshold", [(item, 50) for item in range(ITEMS)])
    for rule in rules:
        db.define(rule)
    return db


@pytest.fixture
def db() -> Iterator[Any]:
    with shop(REORDER.format(options="active=false"), TOLD.format(options="active=false")) as found:
        yield found


def sell(db: Any, item: int, left: int) -> Any:
    with db.transaction() as tx:
        tx.upsert("quantity", [(item, left)])
    return tx


def fired(tx: Any) -> list[tuple[str, list[Any]]]:
    return [(firing.rule, firing.rows.sorted()) for firing in tx.firings]


def test_fifty_rules_that_sleep_cost_a_commit_nothing() -> None:
    sleeping = "".join(
        REORDER.format(options="active=false").replace("reorder", f"reorder{number}") for number in range(50)
    )
    with shop() as bare, shop(sleeping) as db:
        for each in (bare, db):
            sell(each, 1, 40)
            sell(each, 1, 99)
        without, asleep = sell(bare, 2, 40).stats, sell(db, 2, 40).stats
        assert (asleep.probed, asleep.stored, asleep.components) == (without.probed, without.stored, without.components)
        calls = [calls_of(lambda each=each: sell(each, 3, 40)).total() for each in (bare, db)]  # type: ignore[misc]
        assert calls[1] <= calls[0] + 20


def test_a_rule_that_is_active_for_nothing_any_more_costs_no_probe(db: Any) -> None:
    asleep = sell(db, 1, 40).stats
    for rule in ("reorder", "told"):
        db.activate(rule, I=5)
        db.deactivate(rule, I=5)
    sell(db, 1, 99)
    again = sell(db, 1, 40).stats
    assert again.stored == asleep.stored
    assert again.views.keys() == asleep.views.keys(), "its condition is not looked at"
    assert fired(sell(db, 5, 1)) == []


def test_activations_take_as_many_calls_however_many_there_are(db: Any) -> None:
    def calls(item: int) -> list[int]:
        return [
            calls_of(lambda deed=deed, rule=rule: deed(rule, I=item)).total()  # type: ignore[misc]
            for rule in ("reorder", "told")
            for deed in (db.activate, db.deactivate)
        ]

    for rule in ("reorder", "told"):
        db.activate(rule, I=0)
    calls(1)
    few = calls(2)
    for item in range(3, 2_000):
        db.activate("reorder", I=item)
    assert all(now <= then + 20 for now, then in zip(calls(2_500), few, strict=True)), "a table may grow now and then"
    assert max(few) <= 450


def test_a_commit_costs_the_activations_that_it_touches(db: Any) -> None:
    db.activate("reorder", I=1)
    sell(db, 1, 40)
    one = sell(db, 1, 99), sell(db, 1, 40), sell(db, 2_999, 40)
    for item in range(2, 2_000):
        db.activate("reorder", I=item)
    sell(db, 2_999, 99)
    many = sell(db, 1, 99), sell(db, 1, 40), sell(db, 2_999, 40)
    assert [tx.stats.probed for tx in many] == [tx.stats.probed for tx in one]
    assert [len(tx.firings) for tx in many] == [0, 1, 0]
    db.verify()


def test_what_holds_already_does_not_fire_when_the_rule_is_activated(db: Any) -> None:
    sell(db, 1, 40)
    made = db.activate("reorder", I=1)
    assert (list(made.changes), db.rows("orders")) == ([], [])
    assert fired(sell(db, 1, 30)) == []
    sell(db, 1, 99)
    assert fired(sell(db, 1, 30)) == [("reorder", [(1, 20)])]


def test_a_computed_parameter_is_tested_at_the_end(db: Any) -> None:
    db.activate("reorder", N=20)
    assert fired(sell(db, 1, 40)) == []
    assert fired(sell(db, 1, 30)) == [], "the item is low already"
    assert fired(sell(db, 2, 30)) == [("reorder", [(2, 20)])]
    db.activate("reorder", I=3, N=1)
    assert fired(sell(db, 3, 48)) == []
    sell(db, 3, 99)
    assert fired(sell(db, 3, 49)) == [("reorder", [(3, 1)])]


@pytest.mark.parametrize("text", [".deactivate reorder(I = 2)", None])
def test_python_and_text_mean_the_same_rows(db: Any, text: str | None) -> None:
    db.define(".activate reorder(I = 1)\n.activate reorder(I = 2)")
    db.activate("reorder", I=3)
    db.define(text) if text else db.deactivate("reorder", I=2)
    db.deactivate("reorder", I=1)
    assert db.explain("reorder").as_dict()["rules"]["reorder"]["activations"] == [{"I": 3}]
    db.define(".activate reorder(I = 1)")
    assert [fired(sell(db, item, 1)) for item in (1, 2, 3)] == [
        [("reorder", [(i, 49)])] if i != 2 else [] for i in (1, 2, 3)
    ]
    for name in ("reorder", "told"):
        with pytest.raises(upshot.ProgramError) as caught:
            db.deactivate(name, I=77)
        assert caught.value.code == "not-activated"


def test_a_rule_that_is_restated_forgets_its_rows(db: Any) -> None:
    db.activate("reorder", I=1)
    db.define(REORDER.format(options="") + ".activate reorder(I = 2)")
    assert [len(sell(db, item, 1).firings) for item in (1, 2)] == [0, 1]
    db.define(".activate reorder\n.activate reorder(I = 3)")
    sell(db, 2, 99)
    assert [len(sell(db, item, 1).firings) for item in (2, 3)] == [0, 1]


def test_activations_outlive_the_process_and_a_snapshot(tmp_path: Path) -> None:
    with shop(REORDER.format(options="active=false"), path=tmp_path / "db") as db:
        version = db.activate("reorder", I=1).version
        assert db.activate("reorder", I=2).version == version + 1
        assert db.activate("reorder", I=2).version == version + 1, "nothing changes"
        db.snapshot()
        db.activate("reorder", I=3)
        db.deactivate("reorder", I=1)
    with upshot.connect(tmp_path / "db") as db:
        assert [len(sell(db, item, 1).firings) for item in (1, 2, 3, 4)] == [0, 1, 1, 0]
        assert list(db.schemas) == ["quantity", "threshold", "orders", "low"]


def test_parameters_of_another_type_are_refused_while_there_are_rows() -> None:
    with upshot.connect() as db:
        db.define(".decl a(x: number) .decl v(x: number) v(X) :- a(X). .decl log(x: number)")
        db.define(".rule note(X) when v(X) do call tell(X).")
        db.activate("note", X=1)
        with pytest.raises(upshot.DataError) as caught:
            db.define(".decl v(x: symbol)  v(to_string(X)) :- a(X).")
        assert caught.value.code == "schema-change"
        assert "active for 1 binding" in caught.value.message


def test_groups_are_activated_together() -> None:
    with shop(REORDER.format(options="group=stock"), TOLD.format(options="group=stock group=mail")) as db:
        assert [rule for rule, _ in fired(sell(db, 1, 1))] == ["reorder", "told"]
        db.deactivate("stock")
        assert fired(sell(db, 2, 1)) == []
        db.activate("mail")
        assert [rule for rule, _ in fired(sell(db, 3, 1))] == ["told"]
        db.activate("stock", I=5)
        db.activate("stock", I=6)
        assert [[rule for rule, _ in fired(sell(db, item, 1))] for item in (4, 5, 6)] == [
            [],
            ["reorder", "told"],
            ["reorder", "told"],
        ]
        db.define(".deactivate stock(I = 6)\n.activate mail")
        assert [len(sell(db, item, 99).firings) for item in (5, 6)] == [0, 0]
        assert [[rule for rule, _ in fired(sell(db, item, 1))] for item in (5, 6)] == [["reorder", "told"], ["told"]]


def test_a_group_does_not_have_the_name_of_a_rule() -> None:
    with pytest.raises(upshot.ProgramError) as caught:
        shop(REORDER.format(options=""), TOLD.format(options="group=reorder"))
    assert caught.value.code == "name-clash"
