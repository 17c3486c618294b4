"""A new program over rows that are there: what did not change is kept and not looked at, the rest changes exactly."""

from __future__ import annotations

import itertools

import pytest

import upshot
from tests.engine.driver import Driver, plan_of
from tests.properties.strategies import STRATEGIES

BASE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl out(x: number, n: number)
.decl end(x: number)
path(X, Y) :- edge(X, Y).
path(X, Y) :- edge(X, Z), path(Z, Y).
out(X, N) :- edge(X, _), N = count : { path(X, _) }.
end(X) :- edge(_, X), !edge(X, _).
"""
CHAIN = [(i, i + 1) for i in range(20)]


def test_the_same_program_again_costs_nothing() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    assert it.install(BASE) == {}
    assert (it.work.components, it.work.probed, it.work.derived) == (0, 0, 0)
    it.delete("edge", (5, 6))
    it.assert_exact()


def test_a_new_view_is_computed_and_the_others_are_not_touched() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    deltas = it.install(BASE + ".decl both(x: number) both(X) :- path(X, 5), path(X, 7).")
    assert deltas == {"both": ({(i,) for i in range(5)}, set())}
    assert set(it.work.views) == {"both"}
    it.delete("edge", (2, 3))
    it.assert_exact()


def test_a_changed_view_reports_exactly_what_changed() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    changed = BASE.replace("end(X) :- edge(_, X), !edge(X, _).", "end(X) :- edge(_, X), X > 18.")
    assert it.install(changed, recompute={"end"}) == {"end": ({(19,)}, set())}
    assert set(it.work.views) == {"end"}
    it.delete("edge", (18, 19))
    it.assert_exact()


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(STRATEGIES, 2)])
def test_a_view_that_changes_its_strategy_goes_on_exactly(first: str, second: str) -> None:
    text = (
        ".decl a(x: number, y: number) .decl p(x: number) .decl u(x: number) p(X) :- a(X, _). u(X) :- a(_, X), !p(X).\n"
    )
    with upshot.connect() as db:
        db.define(text + f".view p strategy={first}")
        with db.transaction() as tx:
            tx.insert("a", [(1, 1), (1, 2), (2, 3)])
        definition = db.define(f".view p strategy={second}")
        assert len(definition.changes) == 0
        assert db._state.compiled.plan.strategies["p"].strategy == second
        with db.transaction() as tx:
            tx.delete("a", [(1, 1)])
        assert len(tx.changes["p"].deleted) == 0
        with db.transaction() as tx:
            tx.delete("a", [(1, 2)])
            tx.insert("a", [(3, 1)])
        assert tx.changes["p"].deleted == {(1,)}
        assert tx.changes["p"].inserted == {(3,)}
        assert tx.changes["u"].inserted == {(1,)}
        db.verify()


AGGREGATES = """
.decl r(g: number, x: number) .decl v(g: number, n: number) .decl w(n: number)
v(G, N) :- r(G, _), N = {function} : {{ r(G, X), X > {bound} }}.
w(N) :- v(_, N).
"""


@pytest.mark.parametrize("function", ["count", "sum X", "min X", "max X"])
def test_a_changed_aggregate_forgets_its_old_values(function: str) -> None:
    with upshot.connect() as db:
        db.define(AGGREGATES.format(function=function, bound=1))
        with db.transaction() as tx:
            tx.insert("r", [(1, 1), (1, 2), (1, 3), (2, 1), (3, 9)])
        before = {name: set(db.rows(name)) for name in ("v", "w")}
        definition = db.define(AGGREGATES.format(function=function, bound=2))
        for name, rows in before.items():
            changes, now = definition.changes[name], set(db.rows(name))
            assert (set(changes.inserted), set(changes.deleted)) == (now - rows, rows - now)
        db.verify()
        with db.transaction() as tx:
            tx.delete("r", [(1, 3)])
            tx.insert("r", [(2, 5)])
        db.verify()


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(STRATEGIES, 2)])
def test_views_above_one_that_changes_its_strategy_stay_exact(first: str, second: str) -> None:
    text = """
    .decl e(g: number, x: number) .decl r(g: number, x: number) .decl v(g: number, n: number) .decl u(g: number)
    r(G, X) :- e(G, X), X > 0. r(G, X) :- e(X, G). v(G, N) :- r(G, _), N = sum X : { r(G, X) }.
    u(G) :- e(G, _), !r(G, 1).
    """
    with upshot.connect() as db:
        db.define(text + f".view r strategy={first}")
        with db.transaction() as tx:
            tx.insert("e", [(1, 1), (1, 2), (2, 7), (7, 2)])
        assert len(db.define(f".view r strategy={second}").changes) == 0
        db.verify()
        for gone, come in ([(1, 1)], [(3, 3)]), ([(2, 7)], []), ([(7, 2), (3, 3)], [(1, 1)]):
            with db.transaction() as tx:
                tx.delete("e", gone)
                tx.insert("e", come)
            db.verify()


def test_a_view_with_other_columns_starts_afresh() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    wider = BASE.replace(".decl end(x: number)", ".decl end(x: number, y: number)").replace(
        "end(X) :- edge(_, X), !edge(X, _).", "end(X, Y) :- edge(Y, X), !edge(X, _)."
    )
    assert it.install(wider, recompute={"end"})["end"] == ({(20, 19)}, set())
    it.delete("edge", (19, 20))
    it.assert_exact()


def test_rows_and_a_definition_come_in_one_change_and_go_in_one() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    before = it.state()
    more = plan_of(BASE + ".decl loop(x: number) loop(X) :- path(X, X).")
    for _ in range(3):
        it.engine.install(more)
        it.engine.insert("edge", [(20, 0)])
        deltas = it.engine.propagate()
        assert len(deltas["loop"][0]) == 21
        it.engine.rollback()
        assert it.state() == before
    it.engine.install(more)
    it.engine.insert("edge", [(20, 0)])
    it.plan = more
    assert len(it.commit()["path"][0]) == 21 * 21 - 210
    it.assert_exact()


def test_inside_an_open_definition_reading_is_reading_before_it() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    it.engine.install(plan_of(BASE.replace("!edge(X, _)", "X > 5")), frozenset({"end"}))
    it.engine.propagate()
    assert it.query("end(X)") == {(20,)}
    assert it.rows("end") == {(20,)}
    it.engine.accept()
    assert len(it.rows("end")) == 15


def test_a_dropped_view_frees_its_memory_and_can_come_back() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    small = ".decl edge(x: number, y: number)"
    for _ in range(3):
        assert it.install(small) == {}
        assert set(it.engine.memory()) == {"edge", "texts"}
        assert len(it.install(BASE)["path"][0]) == 210
        it.assert_exact()


def test_a_kept_view_keeps_following_after_many_definitions() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    for n in range(6):
        extra = " ".join(f".decl v{i}(x: number) v{i}(X) :- path(X, {i + n})." for i in range(n % 4 + 1))
        it.install(BASE + extra, recompute={f"v{i}" for i in range(n % 4 + 1)})
        assert "path" not in it.work.views
        it.change(delete={"edge": [(n, n + 1)]}, insert={"edge": [(n, n + 2)]})
        it.assert_exact()


def test_a_closed_engine_holds_nothing_but_what_was_handed_out() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    rows = it.engine.rows("path")
    it.engine.close()
    assert len(set(rows)) == 210
    assert it.engine.memory() == {"texts": 0}


def test_rows_handed_out_do_not_follow_later_changes() -> None:
    it = Driver(BASE)
    it.engine.insert("edge", CHAIN)
    inserted, _ = it.engine.propagate()["edge"]
    it.engine.accept()
    whole = it.engine.rows("edge")
    it.engine.delete("edge", CHAIN[:10])
    _, deleted = it.engine.propagate()["edge"]
    it.engine.accept()
    it.insert("edge", *[(i, -i) for i in range(30)])
    it.delete("edge", *CHAIN)
    assert set(inserted) == set(whole) == set(CHAIN)
    assert set(deleted) == set(CHAIN[:10])


def test_rows_of_a_change_that_was_undone_can_still_be_read() -> None:
    it = Driver(BASE)
    it.insert("edge", *CHAIN)
    it.engine.delete("edge", [(0, 1)])
    it.engine.insert("edge", [(50, 51)])
    deltas = it.engine.propagate()
    it.engine.rollback()
    assert set(deltas["edge"][0]) == {(50, 51)}
    assert set(deltas["edge"][1]) == {(0, 1)}
    it.insert("edge", (60, 61))
    assert set(deltas["path"][1]) == {(0, i) for i in range(1, 21)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_key_of_a_view_holds_however_it_is_kept(strategy: str) -> None:
    with upshot.connect() as db:
        db.define(
            ".decl e(x: number, y: number) .decl v(x: number, y: number) key(x) v(X, Y) :- e(X, Y), Y > 0."
            f" .view v strategy={strategy}"
        )
        with db.transaction() as tx:
            tx.insert("e", [(1, 2), (2, 0), (2, 3)])
        for more in ([(1, 7)], [(5, 1), (5, 2)]):
            with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
                tx.insert("e", more)
            assert caught.value.code == "key-violation"
        with db.transaction() as tx:
            tx.delete("e", [(1, 2)])
            tx.insert("e", [(1, 7)])
        assert set(db.rows("v")) == {(1, 7), (2, 3)}
