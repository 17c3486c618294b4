"""A nervous rule fires for what is derived through a changed row, also below the views that its condition reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import upshot

PROGRAM = """
.decl stock(i: symbol, n: number) key(i)
.decl threshold(i: symbol, t: number)
.decl banned(i: symbol)
.decl sold(i: symbol, n: number)
.decl done(i: symbol)
.decl low(i: symbol)
low(I) :- stock(I, N), threshold(I, T), N < T.
.decl due(i: symbol)
due(I) :- low(I), !banned(I).
.decl busy(i: symbol)
busy(I) :- stock(I, _), S = sum N : { sold(I, N) }, S > 10.
.decl either(i: symbol)
either(I) :- low(I).
either(I) :- banned(I).
"""
INLINE = {
    "low(I)": "stock(I, N), threshold(I, T), N < T",
    "due(I)": "stock(I, N), threshold(I, T), N < T, !banned(I)",
    "busy(I)": "stock(I, _), S = sum N : { sold(I, N) }, S > 10",
    "either(I)": "(stock(I, N), threshold(I, T), N < T ; banned(I))",
    "low(I), !banned(I)": "stock(I, N), threshold(I, T), N < T, !banned(I)",
}


def firings(conditions: Iterable[str], options: str, action: str, views: str) -> dict[str, list[list[list[Any]]]]:
    """The rows that a rule with each condition fires for, transaction by transaction."""
    rules = {f"r{number}": condition for number, condition in enumerate(conditions)}
    changes: list[dict[str, Any]] = [
        {"insert": {"threshold": [("a", 10), ("b", 10)], "stock": [("a", 50), ("b", 9)], "sold": [("a", 20)]}},
        {"delete": {"stock": [("a", 50)]}, "insert": {"stock": [("a", 5)]}},
        {"delete": {"stock": [("a", 5)]}, "insert": {"stock": [("a", 4)]}},
        {"insert": {"threshold": [("a", 20)], "banned": [("b",)]}},
        {"delete": {"threshold": [("a", 20)], "banned": [("b",)]}},
        {"insert": {"sold": [("b", 30), ("a", 1)]}},
        {"delete": {"sold": [("a", 1)], "stock": [("b", 9)]}, "insert": {"stock": [("b", 50)]}},
    ]
    with upshot.connect() as db:
        db.action("tell", lambda rows: None)
        db.define(PROGRAM + views)
        lines = (
            f".rule {rule}(I) semantics=nervous {options} when {each} do {action}." for rule, each in rules.items()
        )
        db.define("\n".join(lines))
        found: dict[str, list[list[list[Any]]]] = {condition: [] for condition in rules.values()}
        for change in changes:
            with db.transaction() as tx:
                for verb, rows in change.items():
                    for name, values in rows.items():
                        getattr(tx, verb)(name, values)
            for rule, condition in rules.items():
                found[condition].append([firing.rows.sorted() for firing in tx.firings if firing.rule == rule])
        db.verify()
    return found


@pytest.mark.parametrize("views", ["", ".view low materialized=false\n.view due materialized=false"])
@pytest.mark.parametrize("action", ["call tell(I)", "insert done(I)"])
@pytest.mark.parametrize("options", ["", "coupling=immediate", "coupling=deferred"])
def test_a_condition_means_the_same_inline_and_through_a_view(options: str, action: str, views: str) -> None:
    found = firings({*INLINE, *INLINE.values()}, options, action, views)
    for through_a_view, inline in INLINE.items():
        assert found[through_a_view] == found[inline], through_a_view
        assert any(found[inline][2:]), f"`{inline}` fires again while it holds"


def test_a_quantity_that_stays_below_its_threshold_fires_again_through_a_view() -> None:
    assert firings(["low(I)"], "", "call tell(I)", "")["low(I)"][2] == [[("a",)]]


def test_a_recursive_view_fires_for_its_net_changes() -> None:
    with upshot.connect() as db:
        db.define("""
            .decl edge(x: number, y: number)
            .decl path(x: number, y: number)
            path(X, Y) :- edge(X, Y).
            path(X, Z) :- path(X, Y), edge(Y, Z).
            .decl seen(x: number)
            .rule r(X) semantics=nervous when path(X, 3) do insert seen(X).
        """)
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
        assert [firing.rows.sorted() for firing in tx.firings] == [[(1,), (2,)]]
        with db.transaction() as tx:
            tx.insert("edge", [(1, 3)])
        assert tx.firings == (), "1 reached 3 before"


def test_the_cause_is_the_change_below_the_view() -> None:
    with upshot.connect() as db:
        db.define(PROGRAM + ".rule r(I) semantics=nervous when due(I) do insert done(I).")
        with db.transaction() as tx:
            tx.insert("threshold", [("a", 10)])
            tx.insert("stock", [("a", 5)])
        with db.transaction() as tx:
            tx.upsert("stock", [("a", 4)])
        cause = tx.firings[0].cause["a",]
        assert cause.differentials == ("+due(I)",)
        assert (cause.inserted, cause.deleted) == ((("stock", ("a", 4)),), ())
        assert cause.literals == ('stock("a", 4)',)


def test_a_rule_that_sets_off_itself_below_a_view_may_not_terminate() -> None:
    with upshot.connect() as db:
        made = db.define(
            PROGRAM
            + ".rule r(I, N) semantics=nervous when low(I), stock(I, N) do delete stock(I, N), insert stock(I, N - 1)."
        )
        assert [warning.slug for warning in made.warnings] == ["rules-may-not-terminate"]
