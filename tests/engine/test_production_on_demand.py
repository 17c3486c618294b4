"""Views by production rules that are not stored: `start` rules fill tables that go again after the answer."""

from __future__ import annotations

import pytest

from tests.engine.driver import Driver
from tests.goldens.follower import NOTHING, Follower
from upshot.core.errors import OverflowError_
from upshot.engine.local.queries.on_demand import StartedViews

UNSTORED = "production materialized=false"
TRAINS = """
.decl train(x: symbol, y: symbol) .decl station(x: symbol) .decl route(x: symbol, y: symbol)
.decl unconnected(x: symbol, y: symbol) .decl reached(x: symbol, n: number)
route(X, Y) :- train(X, Y).
route(X, Y) :- route(X, Z), route(Z, Y).
unconnected(X, Y) :- station(X), station(Y), !route(X, Y).
reached(X, N) :- station(X), N = count : { route(X, _) }.
"""
ROWS = {"train": [("a", "b"), ("b", "c"), ("c", "a")], "station": [("a",), ("b",), ("c",), ("d",)]}


def options(strategy: str) -> str:
    return "".join(f".view {view} strategy={strategy}\n" for view in ("route", "unconnected", "reached"))


def test_changes_are_exact_and_no_row_is_stored() -> None:
    it = Follower(TRAINS, UNSTORED, ROWS)
    assert it.work.stored == 0
    it.change(delete={"train": [("c", "a")]})
    it.change(insert={"train": [("c", "d")], "station": [("e",)]}, delete={"train": [("a", "b")]})
    assert it.work.stored == 0
    it.db.verify()


def test_rows_come_from_start_rules_and_bound_queries_from_magic_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Driver(TRAINS + options(UNSTORED))
    it.change(insert=ROWS)
    started: list[str] = []
    compute = StartedViews._computed

    def noted(self: StartedViews, view: str, work: object) -> object:
        started.append(view)
        return compute(self, view, work)  # type: ignore[arg-type]

    monkeypatch.setattr(StartedViews, "_computed", noted)
    it.assert_exact()
    assert started == ["route", "unconnected", "reached"]
    started.clear()
    assert it.query("unconnected(X, _)") == {(name,) for name in "abcd"}
    assert started == ["unconnected"]
    assert it.query('route("a", Y)') == {("a",), ("b",), ("c",)}
    assert it.query("route(X, X)") == {("a",), ("b",), ("c",)}
    assert started == ["unconnected"]


def test_the_state_before_an_open_change_is_still_what_readers_see() -> None:
    it = Driver(TRAINS + options(UNSTORED))
    it.change(insert=ROWS)
    before = it.state()
    it.engine.delete("train", [("c", "a")])
    assert it.state() == before
    it.engine.propagate()
    assert it.state() == before
    it.engine.rollback()
    assert it.state() == before


def test_tables_of_an_answer_go_even_if_it_fails() -> None:
    text = f"""
    .decl n(x: number) .decl square(x: number) .view square strategy={UNSTORED}
    square(Y) :- n(X), Y = X * X.
    """
    it = Driver(text)
    it.insert("n", (3,))
    assert it.rows("square") == {(9,)}
    it.engine.insert("n", [(2**40,)])
    with pytest.raises(OverflowError_):
        it.engine.propagate()
    it.engine.rollback()
    assert it.rows("square") == {(9,)}


def test_a_stored_view_becomes_unstored_and_stored_again() -> None:
    it = Driver(TRAINS + options("production"))
    it.change(insert=ROWS)
    held = it.state()
    assert all(change == NOTHING for change in it.install(TRAINS + options(UNSTORED)).values())
    assert it.state() == held
    assert it.engine.work.stored == 0
    it.delete("train", ("b", "c"))
    it.assert_exact()
    again = it.install(TRAINS + options("production"), recompute={"route", "unconnected", "reached"})
    assert all(change == NOTHING for change in again.values())
    it.assert_exact()


def test_the_choice_says_how_rows_and_changes_are_computed() -> None:
    it = Driver(TRAINS + options(UNSTORED))
    choice = it.plan.strategies["route"]
    assert choice.strategy == "production"
    assert "materialized=false" in choice.reasons[0]
    assert "`start` rules" in choice.reasons[1]
    assert "`epf`" in choice.reasons[1]
