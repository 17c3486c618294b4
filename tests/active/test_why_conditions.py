"""`why_changed` of an active rule: the derivation that its condition gained or lost, whether a view holds it or not."""

from __future__ import annotations

from typing import Any

import pytest

import upshot

GRAPH = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(X, Y) :- edge(X, Y).
closure(X, Z) :- closure(X, Y), edge(Y, Z).
.decl blocked(x: number)
.decl hit(x: number)
"""
RULES = {
    "a selection": ".rule h(X) when closure(X, 5) do insert hit(X).",
    "a join": ".rule h(X) when closure(X, Y), Y > 4 do insert hit(X).",
    "an event": ".rule h(X) on insert closure(X, Y) when Y > 4 do insert hit(X).",
    "an event alone": ".rule h(X) on insert closure(X, 5) do insert hit(X).",
    "nervous": ".rule h(X) semantics=nervous when closure(X, 5) do insert hit(X).",
    "a window": ".rule h(X) when inserted closure(X, 5), !blocked(X) do insert hit(X).",
    "after the commit": ".rule h(X) coupling=after on insert closure(X, 5) do insert hit(X).",
}


def reached(rule: str, path: Any = None) -> Any:
    """A database in which 1 has just reached 5."""
    db = upshot.connect(path) if path is not None else upshot.connect()
    db.define(GRAPH + rule)
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2), (7, 8)])
    with db.transaction() as tx:
        tx.insert("edge", [(2, 5)])
    return db


@pytest.mark.parametrize("kind", RULES)
def test_the_condition_of_a_rule_is_explained_like_a_view(kind: str, tmp_path: Any) -> None:
    with reached(RULES[kind], tmp_path / "db") as db:
        version = 3
        found = db.why_changed("h", (1,), version)
        assert found.change == "came"
        lines = found.text().splitlines()
        assert lines[0].startswith("h(1) inserted in version 3")
        assert lines[1].startswith("+ h(1)")
        assert RULES[kind] in lines[1]
        assert "+ closure(1, 5)" in lines[2]
        assert "+ edge(2, 5)" in found.text()
        assert "closure(1, 2)" in found.text()
        with pytest.raises(upshot.DataError) as caught:
            db.why_changed("h", (7,), version)
        assert caught.value.code == "row-not-changed"
        assert "`h(7)`" in caught.value.message
        db.verify()


def test_a_condition_that_became_false_went() -> None:
    with reached(RULES["a selection"]) as db:
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2)])
        assert db.why_changed("h", (1,)).change == "went"


def test_a_negation_of_a_nervous_condition_is_explained() -> None:
    with reached(".rule h(X) semantics=nervous when closure(X, 5), !blocked(X) do insert hit(X).") as db:
        with db.transaction() as tx:
            tx.insert("blocked", [(1,)])
        assert db.why_changed("h", (1,)).change == "went"
        with db.transaction() as tx:
            tx.delete("blocked", [(1,)])
        assert "- blocked(1)" in db.why_changed("h", (1,)).text()


@pytest.mark.parametrize(
    "rule",
    [
        ".rule h(X) on delete closure(X, 5) do insert hit(X).",
        ".rule h(X) when old closure(X, 5), !closure(X, 5) do insert hit(X).",
    ],
)
def test_a_rule_about_rows_that_went_has_no_condition(rule: str) -> None:
    with reached(rule) as db:
        with pytest.raises(upshot.UsageError) as caught:
            db.why_changed("h", (1,))
        assert caught.value.code == "no-condition"
        assert "firing.cause" in caught.value.help
