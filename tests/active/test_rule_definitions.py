"""Rules over views of every kind, and rules that come, change and go while a database is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot

GRAPH = """
.decl edge(x: number, y: number)
.decl node(x: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.decl alone(x: number)
alone(X) :- node(X), !path(X, _).
.decl came(x: number, y: number)
.decl went(x: number, y: number)
.decl first(x: number, y: number)
.rule came_rule(X, Y) when path(X, Y), node(X) do insert came(X, Y).
.rule went_rule(X, Y) on delete path(X, Y) do insert went(X, Y).
.rule joined(X) when alone(X) do insert edge(X, 100).
.rule first_rule(X, Y) when inserted path(X, Y), !old path(X, _) do insert first(X, Y).
"""
UNSTORED = ("epf", "rod", "differencing", "propagation")


def change(db: Any, *, insert: Any = None, delete: Any = None) -> Any:
    with db.transaction() as tx:
        for name, rows in (delete or {}).items():
            tx.delete(name, rows)
        for name, rows in (insert or {}).items():
            tx.insert(name, rows)
    return tx


def fired(tx: Any) -> list[tuple[str, list[Any]]]:
    return [(firing.rule, firing.rows.sorted()) for firing in tx.firings]


@pytest.mark.parametrize("strategy", UNSTORED)
def test_rules_on_views_that_are_not_stored(strategy: str) -> None:
    with upshot.connect() as db:
        db.define(
            GRAPH
            + "".join(f".view {view} strategy={strategy} materialized=false\n" for view in ("path", "alone"))
            + f".rule strategic(X) strategy={strategy} when path(X, X), node(X) do insert first(X, X).\n"
        )
        assert fired(change(db, insert={"edge": [(1, 2), (2, 3)], "node": [(1,), (7,)]})) == [
            ("came_rule", [(1, 2), (1, 3)]),
            ("joined", [(7,)]),
            ("came_rule", [(7, 100)]),
            ("first_rule", [(1, 2), (1, 3), (2, 3), (7, 100)]),
        ]
        assert fired(change(db, delete={"edge": [(2, 3)]})) == [("went_rule", [(1, 3), (2, 3)])]
        assert ("strategic", [(1,)]) in fired(change(db, insert={"edge": [(2, 1)]}))
        assert fired(change(db, delete={"edge": [(2, 1)]}, insert={"edge": [(2, 1)]})) == []
        db.verify()


AGGREGATE = """
.decl entry(account: symbol, id: number, n: number)
.decl account(name: symbol, limit: number) key(name)
.decl alarm(name: symbol, total: number)
.rule over(A, S) {options} when account(A, L), S = sum N : {{ entry(A, _, N) }}, S > L do insert alarm(A, S).
"""


def test_a_condition_with_an_aggregate_fires_when_the_group_crosses_its_bound() -> None:
    with upshot.connect() as db:
        db.define(AGGREGATE.format(options=""))
        change(db, insert={"account": [("ann", 100), ("bob", 100)], "entry": [("ann", 1, 60)]})
        assert fired(change(db, insert={"entry": [("ann", 2, 60)]})) == [("over", [("ann", 120)])]
        assert fired(change(db, insert={"entry": [("ann", 3, 10)]})) == [], "the sum comes along, it tells none apart"
        assert fired(change(db, delete={"entry": [("ann", 2, 60)]})) == []
        assert fired(change(db, insert={"entry": [("ann", 4, 60), ("bob", 5, 101)]})) == [
            ("over", [("ann", 130), ("bob", 101)])
        ]
        assert fired(change(db, insert={"account": [("cyd", -1)]})) == [("over", [("cyd", 0)])], "the sum of nothing"
        db.verify()


def test_a_nervous_condition_with_an_aggregate_fires_at_every_change_below_it() -> None:
    with upshot.connect() as db:
        db.define(AGGREGATE.format(options="semantics=nervous"))
        change(db, insert={"account": [("ann", 100)], "entry": [("ann", 1, 120)]})
        assert fired(change(db, insert={"entry": [("ann", 2, 10)]})) == [("over", [("ann", 130)])]
        assert fired(change(db, insert={"entry": [("bob", 3, 10)]})) == [("over", [("ann", 130)])]


def test_an_event_with_an_aggregate_in_its_condition() -> None:
    with upshot.connect() as db:
        db.define("""
            .decl seat(flight: symbol, who: symbol)
            .decl full(flight: symbol)
            .rule filled(F) on insert seat(F, _) when 2 <= count : { seat(F, _) } do insert full(F).
        """)
        assert fired(change(db, insert={"seat": [("x", "ann"), ("y", "bob"), ("y", "cyd")]})) == [("filled", [("y",)])]
        assert fired(change(db, insert={"seat": [("y", "dan")]})) == [("filled", [("y",)])]


# ---- what is hidden ------------------------------------------------------------------------------------


def test_the_view_of_a_condition_is_seen_nowhere(tmp_path: Path) -> None:
    with upshot.connect(tmp_path / "db") as db:
        made = db.define(GRAPH)
        visible = ["edge", "node", "path", "alone", "came", "went", "first"]
        assert list(db.schemas) == visible
        assert set(made.recomputed) | set(made.kept) == {"path", "alone"}
        tx = change(db, insert={"edge": [(1, 2)], "node": [(1,)]})
        hidden = db._state.compiled.checked.hidden
        assert hidden, "there is one"
        assert set(tx.changes) <= set(visible)
        assert all(set(commit.changes) <= set(visible) for commit in db.history())
        assert set(db.verify().views) <= set(visible)
        for name in hidden:
            assert name not in repr(tx.firings)
            with pytest.raises(upshot.UsageError):
                db.rows(name)
            with pytest.raises(upshot.Error):
                db.watch(name, print)
            with pytest.raises(upshot.Error):
                db.query(f"{name}(X, Y)")
            with pytest.raises(upshot.Error):
                change(db, insert={name: [(1, 2)]})
            with pytest.raises(upshot.Error):
                db.drop(name)


def test_a_name_that_the_hidden_view_has_is_still_free() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".decl pair(x: number, y: number)\n.rule note(X) when pair(X, Y), Y > 0 do insert log(X).")
        change(db, insert={"pair": [(1, 1)]})
        (hidden,) = db._state.compiled.checked.hidden
        for text in (f".output {hidden}", f".view {hidden} strategy=epf", f".deny d(X) :- {hidden}(X)."):
            with pytest.raises(upshot.ProgramError) as caught:
                db.define(text)
            assert caught.value.code == "unknown-relation"
        made = db.define(f".decl {hidden}(x: number)")
        assert dict(made.changes.items()) == {}, "nobody ever saw a row of it"
        tx = change(db, insert={hidden: [(7,)], "pair": [(1, 2), (2, 2)]})
        assert fired(tx) == [("note", [(2,)])]
        assert db.rows(hidden) == [(7,)]
        change(db, delete={hidden: [(7,)]})
        db.drop(hidden)
        assert fired(change(db, insert={"pair": [(1, 3), (3, 3)]})) == [("note", [(3,)])]
        db.verify()


# ---- rules that come and go ---------------------------------------------------------------------------

BASE = """
.decl fact(x: number)
.decl log(x: number)
"""


def test_defining_a_rule_fires_nothing_even_if_its_condition_holds() -> None:
    with upshot.connect() as db:
        db.define(BASE)
        change(db, insert={"fact": [(1,)]})
        db.define(".rule note(X) when fact(X) do insert log(X).")
        assert db.rows("log") == []
        assert fired(change(db, insert={"fact": [(1,), (2,)]})) == [("note", [(2,)])]


def test_a_rule_defined_again_takes_the_place_of_the_old_one() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule note(X) when fact(X) do insert log(X).")
        db.activate("note", X=1)
        db.define(".rule note(X) when fact(X), X > 1 do insert log(X * 10).")
        change(db, insert={"fact": [(1,), (2,), (3,)]})
        assert db.rows("log") == [(20,), (30,)], "active for all again"


def test_a_rule_whose_views_are_redefined_follows_them() -> None:
    with upshot.connect() as db:
        db.define(
            BASE + ".decl big(x: number)\nbig(X) :- fact(X), X > 10.\n.rule note(X) when big(X) do insert log(X)."
        )
        change(db, insert={"fact": [(5,), (20,)]})
        db.define("big(X) :- fact(X), X > 3.")
        assert db.rows("log") == [(20,)], "a definition fires nothing"
        assert fired(change(db, insert={"fact": [(4,), (5,)]})) == [("note", [(4,)])]
        db.add_rule("big(X) :- fact(X), X < 0.")
        assert fired(change(db, insert={"fact": [(-1,)]})) == [("note", [(-1,)])]
        db.verify()


def test_a_rule_is_dropped_and_with_it_what_it_was_activated_for() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule note(X) when fact(X), X > 0 do insert log(X).")
        db.activate("note", X=1)
        db.drop("note")
        assert fired(change(db, insert={"fact": [(1,)]})) == []
        with pytest.raises(upshot.UsageError, match="unknown relation `note`"):
            db.drop("note")
        db.define(".rule note(X) when fact(X), X > 0 do insert log(X).")
        assert fired(change(db, insert={"fact": [(2,)]})) == [("note", [(2,)])]


def test_what_a_rule_uses_is_not_dropped_under_it() -> None:
    with upshot.connect() as db:
        db.define(
            BASE
            + """
            .decl other(x: number)
            .rule note(X) on insert fact(X) when !other(X) do insert log(X).
            .rule late(X) follows=note on insert other(X) do call tell(X).
            """
        )
        for name, users in (("fact", "`note`"), ("log", "`note`"), ("other", "`note`, `late`"), ("note", "`late`")):
            with pytest.raises(upshot.UsageError, match=f"`{name}` is used by {users}") as caught:
                db.drop(name)
            assert caught.value.code == "relation-in-use"
        for name in ("late", "note", "other", "log", "fact"):
            db.drop(name)
        assert dict(db.schemas) == {}


def test_a_rule_that_is_watched_is_not_dropped() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule note(X) active=false when fact(X) do insert log(X).")
        heard: list[Any] = []
        subscription = db.watch("note", lambda event: heard.append(event.inserted.sorted()))
        with pytest.raises(upshot.UsageError, match="watched"):
            db.drop("note")
        change(db, insert={"fact": [(1,)]})
        db.activate("note")
        change(db, insert={"fact": [(2,)]})
        assert heard == [[], [(2,)]], "it may be watched while it sleeps"
        subscription.close()
        db.drop("note")


def test_a_definition_that_is_refused_leaves_the_rules_as_they_were() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule note(X) when fact(X) do insert log(X).")
        with pytest.raises(upshot.ProgramError):
            db.define(".rule note(X) when fact(X) do insert nowhere(X).")
        assert fired(change(db, insert={"fact": [(1,)]})) == [("note", [(1,)])]


def test_facts_of_a_definition_fire_nothing() -> None:
    with upshot.connect() as db:
        db.define(BASE + ".rule note(X) when fact(X) do insert log(X).\nfact(1).")
        assert db.rows("fact") == [(1,)]
        assert db.rows("log") == []


def test_a_table_that_is_registered_is_a_transaction_and_fires() -> None:
    pandas = pytest.importorskip("pandas")
    with upshot.connect() as db:
        db.define(BASE + ".rule note(X) when fact(X) do insert log(X).")
        db.register("fact", pandas.DataFrame({"x": [1, 2]}))
        assert db.rows("log") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("text", "slug", "help"),
    [
        (".decl view(x: number) view(X) :- old fact(X).", "state-outside-rule", "remove `old`"),
        (".deny wrong(X) :- inserted fact(X).", "state-outside-rule", "remove `inserted`"),
        (".rule r(X) on update fact(X, _) do call f(X).", "no-key", "`on change`"),
        (".rule r(X) on insert fact(X) do call f(X). .activate r(1)", "unexpected-token", "`.activate reorder(I ="),
        (".rule r(X) on insert fact(X).", "unexpected-token", "a rule reads"),
    ],
)
def test_a_mistake_is_told_once_and_with_a_cure(text: str, slug: str, help: str) -> None:
    with upshot.connect() as db:
        with pytest.raises(upshot.ProgramError) as caught:
            db.define(".decl fact(x: number)\n" + text)
        (found,) = caught.value.diagnostics
        assert found.slug == slug
        assert help in found.help


@pytest.mark.parametrize("strategy", UNSTORED)
@pytest.mark.parametrize("events", ["insert", "delete", "none"])
def test_a_rule_hears_of_a_view_that_reports_nothing_else(strategy: str, events: str) -> None:
    with upshot.connect() as db:
        db.define(
            GRAPH.partition(".decl alone")[0] + f".decl log(x: number) .view path strategy={strategy} events={events}"
        )
        quiet = change(db, insert={"edge": [(1, 2)]})
        assert ("path" in quiet.changes) is (events == "insert")
        db.define("""
            .rule came(X, Y) on insert path(X, Y) do insert log(X).
            .rule went(X, Y) on delete path(X, Y) do delete log(X).
        """)
        assert fired(change(db, insert={"edge": [(5, 6)]})) == [("came", [(5, 6)])]
        assert fired(change(db, delete={"edge": [(5, 6)]})) == [("went", [(5, 6)])]
