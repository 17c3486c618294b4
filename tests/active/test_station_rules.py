"""Stations and trains: views kept by generated production rules, with rules of users beside them. Both are scheduled by
one processor; a user's rule has its turn when the generated ones are quiet, and what it changes wakes those again."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from upshot.active.run import PythonSets
from upshot.engine.rule_processor import Consideration, RuleProcessor, ScheduledRule

PROGRAM = """
.decl station(name: symbol, state: symbol)
.decl train(from: symbol, to: symbol)
.decl route(from: symbol, to: symbol)
route(X, Y) :- train(X, Y).
route(X, Y) :- route(X, Z), route(Z, Y).
.decl reach_cal(name: symbol)
reach_cal(X) :- station(X, "California").
reach_cal(X) :- route(X, Y), reach_cal(Y).
.decl unconnected(from: symbol, to: symbol)
unconnected(X, Y) :- station(X, _), station(Y, _), !route(X, Y).
.decl lost(name: symbol)
.decl bus(from: symbol, to: symbol)
"""
RULES = """
.rule stranded(X) on delete reach_cal(X) when station(X, _), !lost(X) do insert lost(X).
.rule replacement(X, Y) priority=-1
    when lost(X), station(Y, "California"), unconnected(X, Y), !unconnected(Y, Y)
    do insert train(X, Y), insert bus(X, Y).
.rule found(X) priority=-2 when lost(X), reach_cal(X) do delete lost(X).
.rule back(X) priority=-3 on insert reach_cal(X) do insert lost("never").
"""
VIEWS = ("route", "reach_cal", "unconnected")
STATIONS = [("LA", "California"), ("Fresno", "California"), ("Reno", "Nevada"), ("Denver", "Colorado")]
TRAINS = [("LA", "Fresno"), ("Fresno", "LA"), ("Reno", "LA"), ("Denver", "Reno")]


def stations(strategy: str) -> Any:
    db = upshot.connect()
    db.define(PROGRAM + "".join(f".view {view} strategy={strategy}\n" for view in VIEWS))
    with db.transaction() as tx:
        tx.insert("station", STATIONS)
        tx.insert("train", TRAINS)
    db.define(RULES)
    return db


def washed_out(db: Any) -> Any:
    with db.transaction() as tx:
        tx.delete("train", [("Reno", "LA")])
    return tx


def fired(tx: Any) -> list[tuple[str, list[Any]]]:
    return [(firing.rule, firing.rows.sorted()) for firing in tx.firings]


CASCADE = [
    ("stranded", [("Denver",), ("Reno",)]),
    ("replacement", [("Denver", "Fresno"), ("Denver", "LA"), ("Reno", "Fresno"), ("Reno", "LA")]),
    ("found", [("Denver",), ("Reno",)]),
]


@pytest.mark.parametrize("strategy", ["production", "maintenance", "epf"])
def test_a_cascade_goes_through_the_views_and_back(strategy: str) -> None:
    with stations(strategy) as db:
        tx = washed_out(db)
        assert fired(tx) == CASCADE, "`back` does not fire: in its window nobody lost California, nobody found it"
        assert db.rows("lost") == []
        assert set(tx.changes["bus"].inserted) == {(x, y) for x in ("Reno", "Denver") for y in ("LA", "Fresno")}
        assert tx.changes["reach_cal"].deleted == [], "lost and found within the transaction"
        assert tx.changes["unconnected"].inserted == []
        db.verify()


def test_rules_of_users_wait_until_the_generated_ones_are_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn of the transaction, in order: after each of a user's that changes something the views come first."""
    with stations("production") as db:
        turns: list[tuple[str, bool]] = []
        _record(monkeypatch, turns)
        washed_out(db)
    users = [name for name, generated in turns if not generated]
    assert users == ["stranded", "replacement", "found"]
    waves = "".join("g" if generated else "U" for _, generated in turns)
    assert waves.startswith("g")
    assert waves.count("U") == 3
    assert "Ug" in waves, "what a user's rule changes is a new wave of the generated ones"


def _record(monkeypatch: pytest.MonkeyPatch, turns: list[tuple[str, bool]]) -> None:
    """Has every processor tell whose turn it is."""

    def recorded(method: Any) -> Any:
        def take(self: Any, *arguments: Any) -> Consideration[Any] | None:
            turn: Consideration[Any] | None = method(self, *arguments)
            if turn is not None:
                turns.append((turn.rule.name, turn.rule.generated))
            return turn

        return take

    monkeypatch.setattr(RuleProcessor, "next", recorded(RuleProcessor.next))


def test_one_processor_orders_both_kinds() -> None:
    """A user's rule of any rank comes after generated ones of any rank, and sees the whole wave as one change."""
    rules = [
        ScheduledRule("user", (("route", "inserted"),), rank=(0,)),
        ScheduledRule("generated", (("train", "inserted"),), rank=(9,), generated=True),
    ]
    processor: RuleProcessor[Any] = RuleProcessor(rules, PythonSets())
    processor.changed("train", "inserted", frozenset({(1, 2)}))
    processor.changed("route", "inserted", frozenset({(1, 2)}))
    assert _name(processor.next()) == "generated"
    processor.changed("route", "inserted", frozenset({(2, 3)}))
    turn = processor.next()
    assert _name(turn) == "user"
    assert turn is not None
    assert turn.window.of("route").inserted == {(1, 2), (2, 3)}
    processor.changed("train", "inserted", frozenset({(5, 6)}))
    assert _name(processor.next()) == "generated", "a new wave"
    assert processor.next() is None


def _name(turn: Consideration[Any] | None) -> str | None:
    return None if turn is None else turn.rule.name


def test_a_generated_view_that_a_rule_reads_in_its_old_state() -> None:
    """`old route` is the route before the rule's window, although the generated rules have had many windows since."""
    with stations("production") as db:
        db.define("""
            .decl detour(from: symbol, to: symbol)
            .rule shorter(X, Y) priority=5 when old route(X, Y), inserted train(X, Y) do insert detour(X, Y).
        """)
        with db.transaction() as tx:
            tx.insert("train", [("Denver", "LA"), ("LA", "Denver")])
        assert tx.changes["detour"].inserted == [("Denver", "LA")]
