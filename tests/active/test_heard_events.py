"""Rules say which changes they hear, and changes of unstored views that nobody hears are not worked out."""

from __future__ import annotations

from typing import Any

import pytest

import upshot

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


def test_a_rule_before_the_commit_hears_both_since_it_may_have_several_turns() -> None:
    """A row that came before a processing point and left after it has left in the second window."""
    with graph(".rule gone(X, Y) on delete tc(X, Y) do insert log(X, Y).") as db:
        assert db.reports_changes("tc")
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
