"""Best rows of groups: what a change touches, what it reports, how it ends when there is no best."""

from __future__ import annotations

import pytest

import upshot

DIST = """
.decl edge(x: number, y: number, w: number)
.decl dist(x: number, d: min number)
dist(0, 0).
dist(Y, D + W) :- dist(X, D), edge(X, Y, W).
.view dist policy=strict
"""


def _database(text: str, edges: list[tuple[int, ...]]) -> upshot.Database:
    db = upshot.connect()
    db.define(text)
    with db.transaction() as tx:
        tx.insert("edge", edges)
    return db


def test_rows_that_support_each_other_go_together() -> None:
    db = _database(DIST, [(0, 1, 5), (1, 2, 0), (2, 1, 0)])
    with db.transaction() as tx:
        tx.delete("edge", [(0, 1, 5)])
    assert set(tx.changes["dist"].deleted) == {(1, 5), (2, 5)}
    assert set(db.rows("dist")) == {(0, 0)}


def test_a_row_that_a_worse_one_started_goes_with_it() -> None:
    text = """
    .decl node(x: number)  .decl edge(x: number, y: number, w: number)
    .decl late(x: number, d: max number)
    late(X, 0) :- node(X).
    late(Y, max(D, W)) :- late(X, D), edge(X, Y, W).
    .view late policy=strict
    """
    db = upshot.connect()
    db.define(text)
    with db.transaction() as tx:
        tx.insert("node", [(1,)])
        tx.insert("edge", [(1, 1, 7)])
    assert set(db.rows("late")) == {(1, 7)}
    with db.transaction() as tx:
        tx.delete("node", [(1,)])
    assert set(tx.changes["late"].deleted) == {(1, 7)}


def test_an_edge_that_no_shortest_path_takes_costs_next_to_nothing() -> None:
    chain = [(n, n + 1, 1) for n in range(2000)]
    db = _database(DIST, [*chain, (0, 1000, 5000)])
    with db.transaction() as tx:
        tx.delete("edge", [(0, 1000, 5000)])
    assert not tx.changes["dist"].deleted
    assert tx.stats.probed + tx.stats.derived < 10
    with db.transaction() as tx:
        tx.insert("edge", [(0, 1000, 5000)])
    assert tx.stats.probed + tx.stats.derived < 10


def test_a_rederived_value_that_is_the_old_one_reports_no_change() -> None:
    db = _database(DIST, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)])
    with db.transaction() as tx:
        tx.delete("edge", [(1, 3, 1)])
    assert not tx.changes["dist"].inserted
    assert not tx.changes["dist"].deleted


def test_a_negative_cycle_ends_with_the_limit_and_changes_nothing() -> None:
    db = upshot.connect(max_rounds=200)
    db.define(DIST)
    with db.transaction() as tx:
        tx.insert("edge", [(0, 1, 5), (1, 2, 1)])
    with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
        tx.insert("edge", [(2, 1, -3)])
    assert caught.value.code == "recursion-limit"
    assert set(db.rows("dist")) == {(0, 0), (1, 5), (2, 6)}
    db.verify()


def test_text_is_compared_by_its_characters_also_after_codes_were_reclaimed() -> None:
    db = upshot.connect()
    db.define(
        ".decl pair(x: symbol, y: symbol)  .decl least(x: symbol, y: min symbol)  least(X, Y) :- pair(X, Y)."
        " .view least policy=strict"
    )
    for number in range(6):
        rows = [(f"g{n % 7}", f"{(n * 7919) % 6007:05d}-{number}") for n in range(6000)]
        with db.transaction() as tx:
            tx.replace("pair", rows)
        best = {group: min(y for x, y in rows if x == group) for group in {x for x, _ in rows}}
        assert set(db.rows("least")) == set(best.items())


def test_rules_and_lattice_of_a_view_change_while_it_has_rows() -> None:
    db = _database(DIST, [(0, 1, 5), (1, 2, 1), (0, 2, 9)])
    done = db.define("dist(0, 0).  dist(Y, D + W) :- dist(X, D), edge(X, Y, W).  dist(Y, 3) :- edge(0, Y, _).")
    assert set(db.rows("dist")) == {(0, 0), (1, 3), (2, 3)}
    assert set(done.changes["dist"].inserted) == {(1, 3), (2, 3)}
    done = db.define(".decl dist(x: number, d: max number)  dist(Y, W) :- edge(_, Y, W).")
    assert set(db.rows("dist")) == {(1, 5), (2, 9)}
    assert set(done.changes["dist"].deleted) == {(0, 0), (1, 3), (2, 3)}
    db.verify()


def test_best_rows_survive_a_restart(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with upshot.connect(tmp_path / "db") as db:
        db.define(DIST)
        with db.transaction() as tx:
            tx.insert("edge", [(0, 1, 5), (1, 2, 1), (0, 2, 9)])
        db.snapshot()
    with upshot.connect(tmp_path / "db") as db:
        with db.transaction() as tx:
            tx.delete("edge", [(1, 2, 1)])
        assert set(tx.changes["dist"].inserted) == {(2, 9)}
        db.verify()


@pytest.mark.parametrize("option", ["strategy=counting", "strategy=bf", "strategy=rod", "materialized=false"])
def test_a_strategy_that_cannot_keep_best_rows_is_refused(option: str) -> None:
    with pytest.raises(upshot.Error) as caught:
        upshot.connect().define(DIST.replace("policy=strict", option))
    assert caught.value.code == "strategy-not-applicable"


def test_a_row_is_explained_by_the_path_that_gives_it() -> None:
    db = _database(DIST, [(0, 1, 5), (1, 2, 1), (2, 1, 0), (0, 2, 9)])
    assert "edge(1, 2, 1)" in str(db.why("dist", (2, 6)))
    assert "edge(0, 1, 5)" in str(db.why("dist", (2, 6)))


def test_a_request_that_reaches_best_rows_is_refused_by_name() -> None:
    with pytest.raises(upshot.UsageError) as caught:
        _database(DIST, [(0, 1, 5)]).realize(insert={"dist": [(1, 9)]})
    assert caught.value.code == "best-rows-in-request"


def test_a_refused_request_names_the_view_that_the_user_wrote() -> None:
    db = upshot.connect()
    db.define(
        """
        .decl owns(x: symbol, y: symbol, n: unsigned) key(x, y)
        .decl controls(x: symbol, y: symbol)
        controls(X, X) :- owns(X, _, _).
        controls(X, Y) :- controls(X, X), owns(_, Y, _), sum N : { controls(X, Z), owns(Z, Y, N) } > 50.
        """
    )
    with pytest.raises(upshot.UsageError, match="`controls`, which counts or sums in its own recursion") as caught:
        db.realize(insert={"controls": [("a", "b")]})
    assert caught.value.code == "best-rows-in-request"


def test_another_view_of_the_same_table_is_realized_beside_best_rows() -> None:
    db = _database(DIST, [(0, 1, 5)])
    db.define(".decl near(x: number, y: number)  near(X, Y) :- edge(X, Y, W), W < 3.")
    (way, *_) = db.realize(insert={"near": [(0, 1)]})
    assert (way.lines(), way.conditions) == (["+edge(0, 1, ?1)"], ("?1 < 3",))
    assert "dist" in way.by_trial, "which row is best depends on the value"
    db.apply(way, {"?1": 2})
    assert (1, 2) in db.rows("dist")
    db.define(".deny far(X) :- dist(X, D), D > 9.")
    with pytest.raises(upshot.UsageError) as caught:
        db.realize(insert={"near": [(1, 2)]})
    assert caught.value.code == "best-rows-in-request", "the constraint depends on best rows"
