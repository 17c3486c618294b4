"""Queries with parameters that somebody follows: exact, shared by shape, at the cost of what a commit touches."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

import upshot
from tests.properties.settings import base_seed, case_count
from upshot.database.watch import Event
from upshot.plan import following

GRAPH = """
    .decl edge(x: symbol, y: symbol)
    .decl reach(x: symbol, y: symbol)
    reach(X, Y) :- edge(X, Y).
    reach(X, Z) :- reach(X, Y), edge(Y, Z).
"""
UNSTORED = GRAPH + ".view reach materialized=false events=none\n"


class Follower:
    """Keeps a copy from events, and the events."""

    def __init__(self, db: upshot.Database, query: str, **values: Any) -> None:
        self.db, self.query, self.values = db, query, values
        self.rows: set[tuple[Any, ...]] = set()
        self.events: list[Event] = []
        self.subscription = db.watch(query, self.hear, **values)

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if event.snapshot:
            self.rows = set(event.inserted)
            return
        assert not self.rows & set(event.inserted), "an idle insertion"
        assert set(event.deleted) <= self.rows, "a phantom deletion"
        self.rows = self.rows - set(event.deleted) | set(event.inserted)

    def check(self) -> None:
        ask = self.db.sql if self.query.lower().startswith("select") else self.db.query
        assert self.rows == set(ask(self.query, **self.values)), self.query
        assert not self.subscription.errors


def chains(db: upshot.Database, count: int) -> None:
    with db.transaction() as tx:
        tx.insert("edge", [(f"n{i}", f"n{i + 1}") for i in range(count) if i % 10 != 9])


QUERIES = [
    "reach($x, Y)",
    "reach(Y, $x)",
    "reach($x, $y)",
    "reach($x, Y), !edge($x, Y)",
    "reach($x, Y), reach(Y, $y)",
    "edge($x, Y), !reach(Y, $x)",
    "N = count : { reach($x, _) }",
    "reach($x, Y), Y > $y",
    "reach($x, Y) ; edge(Y, $y)",
    'reach("n1", Y), Y != $x',
    "select y from reach where x = :x",
    "select x, count(*) as n from reach where y <> :y group by x",
    "select e.y from edge e where e.x = :x and not exists (select 1 from reach r where r.x = e.y and r.y = :y)",
]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["stored", "unstored", "right", "squared", "above"])
def test_copies_kept_from_events_equal_the_answers_after_random_transactions(program: str) -> None:
    texts = {
        "stored": GRAPH,
        "unstored": UNSTORED,
        "right": UNSTORED.replace("reach(X, Y), edge(Y, Z)", "edge(X, Y), reach(Y, Z)"),
        "squared": UNSTORED.replace("reach(X, Y), edge(Y, Z)", "reach(X, Y), reach(Y, Z)"),
        "above": UNSTORED + ".decl far(x: symbol, y: symbol)\nfar(X, Y) :- reach(X, Y), !edge(X, Y).\n",
    }
    queries = [*QUERIES, "far($x, Y)"] if program == "above" else QUERIES
    for case in range(case_count(250)):
        chance = random.Random(f"{base_seed()}-{program}-{case}")
        names = [f"n{i}" for i in range(6)]
        db = upshot.connect()
        db.define(texts[program])
        followers: list[Follower] = []
        for _ in range(9):
            with db.transaction() as tx:
                tx.insert("edge", [(chance.choice(names), chance.choice(names)) for _ in range(chance.randint(0, 3))])
                tx.delete("edge", [(chance.choice(names), chance.choice(names)) for _ in range(chance.randint(0, 4))])
            query = chance.choice(queries)
            values = {name: chance.choice(names) for name in "xy" if f"${name}" in query or f":{name}" in query}
            followers.append(Follower(db, query, **values))
            if chance.random() < 0.2:
                followers.pop(chance.randrange(len(followers))).subscription.close()
            for each in followers:
                each.check()
        db.verify()
        db.close()


def test_a_followed_select_takes_its_parameters_with_a_dollar_or_a_colon() -> None:
    db = upshot.connect()
    db.define(GRAPH)
    texts = "SELECT y FROM reach WHERE x = $x", "SELECT y FROM reach WHERE x = :x"
    followers = [Follower(db, text, x="a") for text in texts]
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c"), ("x", "y")])
    assert [follower.rows for follower in followers] == [{("b",), ("c",)}] * 2


def test_a_commit_costs_the_parameters_it_touches() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    chains(db, 2_000)
    followers = [Follower(db, "reach($x, Y)", x=f"n{i}") for i in range(500)]
    with db.transaction() as tx:
        tx.insert("edge", [("elsewhere", "nowhere")])
    assert tx.stats.probed <= 4
    for each in followers:
        each.events.clear()
    with db.transaction() as tx:
        tx.insert("edge", [("n9", "new")])
    assert sum(bool(each.events) for each in followers) == 10
    ten = tx.stats.probed
    with db.transaction() as tx:
        tx.insert("edge", [("n19", "one"), ("n29", "two")])
    assert sum(bool(each.events) for each in followers) == 30
    assert tx.stats.probed <= 2 * ten + 4
    more = [Follower(db, "reach($x, Y)", x=f"n{i}") for i in range(500, 1_000)]
    with db.transaction() as tx:
        tx.insert("edge", [("n9", "newer")])
    assert tx.stats.probed <= ten + 1
    assert not any(len(each.events) > 1 for each in more)


def test_a_query_is_compiled_once_for_all_values() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    for i in range(20):
        Follower(db, "reach($x, Y)", x=f"n{i}")
        Follower(db, "select y from reach where x = :x", x=f"n{i}")
    assert len(db._state.live.by_answer) == 2


def test_parameters_go_with_their_last_follower() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    chains(db, 20)
    first, second = (Follower(db, "reach($x, Y)", x="n1") for _ in range(2))
    other = Follower(db, "reach($x, Y)", x="elsewhere")
    (live,) = db._state.live.by_answer.values()
    parameters = live.shape.parameters.name
    first.subscription.close()
    assert db._state.engine.size(parameters) == 2
    with db.transaction() as tx:
        tx.insert("edge", [("n3", "z")])
    second.check()
    second.subscription.close()
    assert db._state.engine.size(parameters) == 1
    with db.transaction() as tx:
        tx.insert("edge", [("n3", "y")])
    assert tx.stats.inserted == 0
    other.subscription.close()
    assert not db._state.live.by_answer


def test_closing_inside_a_transaction_takes_the_parameters_back_later() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    follower = Follower(db, "reach($x, Y)", x="n1")
    with db.transaction() as tx:
        tx.insert("edge", [("n1", "n2")])
        follower.subscription.close()
    Follower(db, "reach($x, Y)", x="n2")
    (live,) = db._state.live.by_answer.values()
    assert db._state.engine.size(live.shape.parameters.name) == 1


def test_following_makes_no_version_and_leaves_nothing_in_a_store(tmp_path: Any) -> None:
    with upshot.connect(tmp_path / "db") as db:
        db.define(UNSTORED)
        chains(db, 20)
        before = db.version
        follower = Follower(db, "reach($x, Y)", x="n1")
        assert db.version == before
        with db.transaction() as tx:
            tx.insert("edge", [("n2", "z")])
        db.snapshot()
        follower.check()
        cursor, rows = db.version, set(follower.rows)
    with upshot.connect(tmp_path / "db") as db:
        assert "$live" not in "".join(db.schemas)
        with db.transaction() as tx:
            tx.insert("edge", [("z", "end")])
            tx.delete("edge", [("n1", "n2")])
        heard: list[Event] = []
        db.watch("reach($x, Y)", heard.append, since=cursor, x="n1")
        (event,) = heard
        assert not event.snapshot
        assert rows - set(event.deleted) | set(event.inserted) == set(db.query("reach($x, Y)", x="n1"))
        db.verify()


def test_a_definition_that_changes_the_rules_is_followed_and_one_that_changes_columns_ends_the_query() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    chains(db, 20)
    follower = Follower(db, "reach($x, Y)", x="n1")
    db.add_rule("reach(X, Y) :- edge(Y, X).")
    follower.check()
    db.define(".decl other(x: number)")
    with db.transaction() as tx:
        tx.insert("edge", [("n2", "z")])
    follower.check()
    with pytest.raises(upshot.Error, match="watched by 1 subscription"):
        db.drop("reach")
    db.define(".decl reach(x: symbol)\nreach(X) :- edge(X, _).")
    assert not follower.subscription.active
    assert follower.subscription.errors[0].code == "query-ended"  # type: ignore[attr-defined]


def test_a_query_that_needs_a_view_as_a_whole_is_followed_on_demand() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    chains(db, 20)
    follower = Follower(db, "reach(X, Y), X = Y")
    with db.transaction() as tx:
        tx.insert("edge", [("n5", "n2")])
    follower.check()
    assert follower.rows


def test_one_sign_a_sample_and_an_interval() -> None:
    db = upshot.connect()
    db.define(".decl e(x: number, y: number)")
    inserted: list[Event] = []
    deleted: list[Event] = []
    sample: list[Event] = []
    seldom: list[Event] = []
    db.watch("e($x, Y)", inserted.append, events="insert", x=1)
    db.watch("e($x, Y)", deleted.append, events="delete", x=1)
    db.watch("e($x, Y)", sample.append, limit=2, x=1)
    db.watch("e($x, Y)", seldom.append, every=0.2, x=1)
    with db.transaction() as tx:
        tx.insert("e", [(1, y) for y in range(5)])
    with db.transaction() as tx:
        tx.delete("e", [(1, 0)])
        tx.insert("e", [(1, 9)])
    assert [len(each.inserted) for each in inserted] == [0, 5, 1]
    assert [len(each.deleted) for each in deleted] == [0, 1]
    assert [(len(each.inserted), each.omitted) for each in sample] == [(0, 0), (2, 3), (1, 0)]
    assert len(seldom) == 1
    time.sleep(0.5)
    assert [len(each.inserted) for each in seldom] == [0, 5]
    for wrong in ({"events": "both"}, {"every": 0}, {"limit": -1}):
        with pytest.raises(upshot.Error) as caught:
            db.watch("e($x, Y)", inserted.append, **wrong, x=1)  # type: ignore[arg-type]
        assert caught.value.code == "wrong-argument"


@pytest.mark.parametrize(
    ("query", "values", "code"),
    [
        ("nothing($x)", {"x": 1}, "unknown-relation"),
        ("edge($x, Y)", {}, "missing-parameter"),
        ("edge($x, Y)", {"x": "a", "z": 1}, "unused-parameter"),
        ("edge($x, Y)", {"x": 1}, "type-mismatch"),
        ("select y from edge where x = :x limit 1", {"x": "a"}, "live-query-limit"),
        ("select y, CURRENT_DATE from edge", {}, "sql-unsupported"),
        ("!edge($x, Y)", {"x": "a"}, "unsafe-variable"),
        ("nothing", {}, "unknown-relation"),
    ],
)
def test_what_cannot_be_followed_is_refused_and_leaves_nothing(query: str, values: dict[str, Any], code: str) -> None:
    db = upshot.connect()
    db.define(GRAPH)
    with pytest.raises(upshot.Error) as caught:
        db.watch(query, print, **values)
    assert caught.value.code == code
    assert not db._state.live


@pytest.mark.parametrize(
    "time", ["CURRENT_DATE", "now()", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "date_trunc('day', now())"]
)
def test_the_time_in_a_followed_select_is_refused_by_name(time: str) -> None:
    db = upshot.connect()
    db.define(".decl due(name: symbol, at: timestamp)")
    with pytest.raises(upshot.ProgramError) as caught:
        db.watch("select name from due where at < TIME".replace("TIME", time), print)
    name = time.partition("'day', ")[2].rstrip(")") or time
    assert f"`{name.rstrip('()')}" in str(caught.value)
    assert "in a live query is not supported" in str(caught.value)


def test_a_followed_select_calls_functions_and_follows_other_code() -> None:
    db = upshot.connect(functions={"double": lambda x: 2 * x, "top": upshot.Fold(0, max)})
    db.define(
        ".functor double(x: number): number pure\n.functor top(x: number): number fold\n.decl n(k: symbol, x: number)"
    )
    rows, tops = Follower(db, "select double(x) as y from n where k = :k", k="a"), Follower(db, "select top(x) from n")
    with db.transaction() as tx:
        tx.insert("n", [("a", 1), ("a", 2), ("b", 9)])
    assert (rows.rows, tops.rows) == ({(2,), (4,)}, {(9,)})
    db.function("double", lambda x: 3 * x)
    assert rows.rows == {(3,), (6,)}
    since = db.version
    with db.transaction() as tx:
        tx.delete("n", [("a", 1), ("b", 9)])
    assert (rows.rows, tops.rows) == ({(6,)}, {(2,)})
    gone = db.changes("select double(x) as y from n where k = :k", since, k="a")
    assert (set(gone.inserted), set(gone.deleted)) == (set(), {(3,)})


def test_a_parameter_named_like_an_argument_is_refused_by_name() -> None:
    db = upshot.connect()
    db.define(".decl e(x: number, y: number)")
    for name in ("callback", "since", "every", "limit"):
        for query in (each.replace("NAME", name) for each in ("e($NAME, Y)", "select y from e where x = :NAME")):
            with pytest.raises(upshot.UsageError) as caught:
                db.watch(query, print, **{name: 1})  # type: ignore[arg-type]
            assert (caught.value.code, f"`{name}`" in caught.value.message) == ("wrong-argument", True)
            assert f"{name}_value" in str(caught.value.help)
    heard: list[Event] = []
    db.watch("e($view, Y)", callback=heard.append, view=1)
    assert len(heard) == 1
    for wrong in (lambda: db.watch(3, print), lambda: db.watch("e"), lambda: db.hold_query(None)):  # type: ignore[arg-type]
        with pytest.raises(upshot.UsageError) as caught:
            wrong()
        assert caught.value.code == "wrong-argument"


def test_null_and_numbers_of_other_types_are_parameters_too() -> None:
    db = upshot.connect()
    db.define(".decl m(x: number?, f: float)\nm(1, 1.5). m(2, 2.5).")
    with db.transaction() as tx:
        tx.insert("m", [(None, 0.5)])
    for query, values in [
        ("m($x, F)", {"x": None}),
        ("m(X, F), F > $f", {"f": 1}),
        ("m(X, F), F > $f", {"f": 1.5}),
        ("m(X, F), X = $x + 1", {"x": 1}),
    ]:
        follower = Follower(db, query, **values)
        follower.check()
        with db.transaction() as tx:
            tx.insert("m", [(2, 7.5), (1, 8.5)])
        follower.check()


def test_a_group_that_fails_is_not_heard_of() -> None:
    db = upshot.connect()
    db.define(UNSTORED)
    chains(db, 20)
    follower = Follower(db, "reach($x, Y)", x="n1")

    def fail() -> None:
        with db.group() as group:
            with group.transaction() as tx:
                tx.insert("edge", [("n2", "z")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(follower.events) == 1
    follower.check()
    with db.group() as group:
        with group.transaction() as tx:
            tx.insert("edge", [("n2", "z")])
        with group.transaction() as tx:
            tx.insert("edge", [("z", "y")])
    assert len(follower.events) == 3
    follower.check()


@pytest.mark.parametrize("query", ["e", "e($x, Y)"])
def test_nothing_is_called_after_closing_and_a_late_error_is_kept(query: str) -> None:
    db = upshot.connect()
    db.define(".decl e(x: number, y: number)")
    values = {"x": 1} if "$" in query else {}
    heard: list[Event] = []

    def fail(event: Event) -> None:
        if not event.snapshot:
            raise ZeroDivisionError

    closed = db.watch(query, heard.append, every=0.2, **values)
    failing = db.watch(query, fail, every=0.2, **values)
    with db.transaction() as tx:
        tx.insert("e", [(1, 2)])
    closed.close()
    deadline = time.monotonic() + 20
    while not failing.errors and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [type(error) for error in failing.errors] == [ZeroDivisionError]
    assert [event.snapshot for event in heard] == [True]
    assert failing.active


def test_following_one_view_makes_no_rules_for_changes_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    db = upshot.connect()
    db.define(UNSTORED + ".decl far(x: symbol)\nfar(Y) :- reach(_, Y).\n.view far materialized=false\n")
    chains(db, 20)
    copy, heard = set[Any](), list[Any]()

    def hear(event: Event) -> None:
        assert event.snapshot or not copy & set(event.inserted)
        copy.difference_update(event.deleted)
        copy.update(event.inserted)
        heard.append(len(event.inserted) - len(event.deleted))

    db.watch("far", hear)
    monkeypatch.setattr(following, "changes_of_rules", lambda *_, **__: pytest.fail("rules for a change of rules"))
    follower = Follower(db, "reach($x, Y)", x="n1")
    assert heard == [18]
    db.define('.decl other(x: symbol)\nother(X) :- edge(X, _).\nedge("n1", "m1").')
    assert heard == [18, 1]
    follower.check()
    monkeypatch.undo()
    db.add_rule("far(X) :- other(X).")
    assert heard == [18, 1, 2]
    assert copy == set(db.rows("far"))
