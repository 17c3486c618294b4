"""Rules say which changes they hear, and changes of unstored views that nobody hears are not worked out."""

from __future__ import annotations

import random
from typing import Any

import pytest

import upshot
from tests.active.random_rules import VIEWS, random_case
from tests.properties.settings import case_count, seed_of

GRAPH = """
.decl edge(x: number, y: number)
.decl tc(x: number, y: number)
tc(X, Y) :- edge(X, Y).
tc(X, Z) :- edge(X, Y), tc(Y, Z).
.view tc strategy=epf events=none
.decl log(x: number, y: number)
"""
CHAIN = [(node, node + 1) for node in range(40)]


def graph(*rules: str) -> Any:
    db = upshot.connect()
    db.action("tell", lambda rows: None)
    db.define(GRAPH)
    with db.transaction() as tx:
        tx.insert("edge", CHAIN)
    for rule in rules:
        db.define(rule)
    return db


def change(db: Any, *, insert: Any = (), delete: Any = ()) -> Any:
    with db.transaction() as tx:
        tx.insert("edge", list(insert))
        tx.delete("edge", list(delete))
    return tx


@pytest.mark.parametrize(("kind", "unheard"), [("delete", "insert"), ("insert", "delete")])
def test_an_event_that_no_rule_hears_costs_no_probe(kind: str, unheard: str) -> None:
    with graph(f".rule gone(X, Y) on {kind} tc(X, Y) do call tell(X, Y).") as db:
        assert not db.reports_changes("tc")
        if unheard == "insert":
            quiet, loud = change(db, insert=[(40, 41)]), change(db, delete=[(40, 41)])
        else:
            quiet, loud = change(db, delete=[(39, 40)]), change(db, insert=[(39, 40)])
        assert (quiet.stats.probed, quiet.firings) == (0, ())
        assert loud.stats.probed > 0
        (firing,) = loud.firings
        assert firing.rows == {(x, 41 if kind == "delete" else 40) for x in range(41 if kind == "delete" else 40)}


def test_a_rule_that_sleeps_hears_nothing() -> None:
    with graph(".rule gone(X, Y) active=false on delete tc(X, Y) do call tell(X, Y).") as db:
        assert change(db, delete=[(39, 40)]).stats.probed == 0


@pytest.mark.parametrize("coupling", ["", "coupling=deferred"])
@pytest.mark.parametrize("action", ["insert log(X, Y)", "delete log(X, Y)"])
@pytest.mark.parametrize(("kind", "unheard"), [("delete", "insert"), ("insert", "delete")])
def test_a_rule_before_the_commit_hears_only_its_event_too(kind: str, unheard: str, action: str, coupling: str) -> None:
    with graph(f".rule gone(X, Y) {coupling} on {kind} tc(X, Y) do {action}.") as db:
        assert not db.reports_changes("tc")
        if unheard == "insert":
            quiet, loud = change(db, insert=[(40, 41)]), change(db, delete=[(40, 41)])
        else:
            quiet, loud = change(db, delete=[(39, 40)]), change(db, insert=[(39, 40)])
        assert (quiet.stats.probed, quiet.firings) == (0, ())
        assert loud.stats.probed > 0
        assert len(loud.firings) == 1


@pytest.mark.parametrize("rule", ["when tc(X, X)", "on insert tc(X, X)", "strategy=epf when tc(X, Y), log(Y, X)"])
def test_a_deletion_costs_nothing_to_a_rule_whose_action_cannot_undo_its_condition(rule: str) -> None:
    with graph(f".decl flag(x: number) .rule w(X) {rule} do insert flag(X).") as db:
        tx = change(db, delete=[(39, 40)])
        assert (tx.stats.probed, tx.firings) == (0, ())
        with db.transaction() as tx:
            tx.insert("log", [(7, 3)])
            tx.insert("edge", [(5, 0)])
        assert [firing.rule for firing in tx.firings] == ["w"]


@pytest.mark.parametrize("options", ["", ".view tc strategy=auto events=all"])
def test_what_an_action_brings_back_after_a_turn_is_news(options: str) -> None:
    """tc(99, 99) is there at the beginning and at the end, but not when `w` has its first turn."""
    with graph(
        ".rule w(X) when tc(X, X) do insert log(X, X).",
        ".rule back(X) on insert log(X, _) when X = 98 do insert edge(99, 99).",
        options,
    ) as db:
        assert db.reports_changes("tc"), "`back` can make it true after a turn"
        change(db, insert=[(99, 99)])
        tx = change(db, insert=[(98, 98)], delete=[(99, 99)])
        assert [firing.rows.sorted() for firing in tx.firings if firing.rule == "w"] == [[(98,)], [(99,)]]


@pytest.mark.parametrize("number", range(case_count(4, least=30)))
def test_rules_fire_alike_whether_all_changes_are_worked_out_or_those_that_they_hear(number: int) -> None:
    """Random rules, with processing points and savepoints at random: unstored views against stored ones."""
    case = random_case(seed_of("rules/heard", number))
    quiet = "".join(f".view {view} materialized=false events=none\n" for view in VIEWS)
    outcomes = []
    for options in ("", quiet):
        rng = random.Random(number)
        with upshot.connect(max_firings=25) as db:
            db.action("tell", lambda rows: None)
            db.define(case.text.partition(".rule")[0] + options)
            with db.transaction() as tx:
                for name, rows in case.base.items():
                    tx.insert(name, sorted(rows))
            db.define(".rule" + case.text.partition(".rule")[2])
            outcomes.append([outcome(db, transaction, rng) for transaction in case.transactions])
    assert outcomes[0] == outcomes[1], case.text


def outcome(db: Any, transaction: Any, rng: random.Random) -> Any:
    """The firings of a transaction with processing points and a part that is undone."""
    doings = [rng.choice(["", "", "process", "undo"]) for _ in transaction]
    try:
        with db.transaction() as tx:
            for doing, (kind, relation, row) in zip(doings, transaction, strict=True):
                if doing == "undo":
                    with tx.savepoint() as savepoint:
                        getattr(tx, kind)(relation, [row])
                        tx.process()
                        savepoint.rollback()
                else:
                    getattr(tx, kind)(relation, [row])
                if doing == "process":
                    tx.process()
    except upshot.RuleError as error:
        return error.code
    return [(firing.rule, firing.rows.sorted()) for firing in tx.firings]


def test_a_rule_with_several_turns_hears_both_signs() -> None:
    """A row that came before a processing point and left after it has left in the second window."""
    with graph(".rule gone(X, Y) on delete tc(X, Y) do insert log(X, Y).") as db:
        with db.transaction() as tx:
            tx.insert("edge", [(90, 91)])
            tx.delete("edge", [(0, 1)])
            assert len(tx.process()) == 1
            tx.delete("edge", [(90, 91)])
        assert [len(firing.rows) for firing in tx.firings] == [40, 1]
        assert tx.firings[1].rows == {(90, 91)}


def test_what_leaves_and_comes_back_in_one_transaction_is_no_event() -> None:
    with graph(".rule gone(X, Y) on delete tc(X, Y) do call tell(X, Y).") as db:
        with db.transaction() as tx:
            tx.delete("edge", [(0, 1)])
            tx.process()
            tx.insert("edge", [(0, 1), (0, 2)])
            tx.delete("edge", [(5, 6)])
            tx.insert("edge", [(4, 6)])
        assert [(firing.rule, firing.rows.sorted()) for firing in tx.firings] == [
            ("gone", [(5, y) for y in range(6, 41)])
        ]
