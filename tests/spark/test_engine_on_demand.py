"""Views that nobody stores, on Spark: in the driver while that holds what they read, and by rounds of joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.engine.test_optimizations import SILENT
from tests.spark.engine_driver import IN_FILES
from upshot.core.errors import DataError
from upshot.database.database import Database
from upshot.engine.limits import Limits
from upshot.engine.spark.engine import SparkEngine
from upshot.strategies.strategy import on_demand

pytestmark = pytest.mark.slow

BY_ROUNDS = {"driver": 0}
"""The driver may hold no relation whole."""
WAYS = {"in the driver": {}, "by rounds": BY_ROUNDS, "by rounds in files": {**BY_ROUNDS, "small": IN_FILES}}
COMBINED = [
    *((strategy, "in the driver") for strategy in on_demand()),
    ("rod", "by rounds"),
    pytest.param("epf", "by rounds in files", marks=pytest.mark.deep),
]
"""A view on demand takes some dozens of rounds, each a job: not every strategy in every way."""

ways = pytest.mark.parametrize(
    "way", ["in the driver", "by rounds", pytest.param("by rounds in files", marks=pytest.mark.deep)]
)

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.decl tc(x: symbol, y: symbol)
tc(X, Y) :- edge(X, Y).
tc(X, Y) :- tc(X, W), edge(W, Y).
"""
EDGES = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("d", "e1"), ("d", "e2")]


def database(spark: Any, text: str, **settings: Any) -> Database:
    db = Database(lambda: SparkEngine(spark, **settings))
    db.define(text)
    return db


def committed(db: Any, *, insert: dict[str, Any] | None = None, delete: dict[str, Any] | None = None) -> Any:
    with db.transaction() as tx:
        for name, rows in (delete or {}).items():
            tx.delete(name, rows)
        for name, rows in (insert or {}).items():
            tx.insert(name, rows)
    return tx


@pytest.mark.parametrize(("strategy", "way"), COMBINED)
def test_a_deleted_edge_takes_only_what_it_alone_gave(spark: Any, strategy: str, way: str) -> None:
    with database(spark, f"{CLOSURE}.view tc strategy={strategy}", **WAYS[way]) as db:
        committed(db, insert={"edge": EDGES})
        tx = committed(db, delete={"edge": [("b", "d")]})
        assert set(tx.changes["tc"].deleted) == {("b", "d"), ("b", "e1"), ("b", "e2")}
        assert not tx.changes["tc"].inserted
        assert tx.stats.stored == 0
        assert tx.stats.asked > 0
        assert tx.stats.answered > 0
        assert (tx.stats.jobs == 0) == (way == "in the driver")
        if strategy == "epf":
            # tc(b, d), tc(b, e1), tc(b, e2), and tc(a, d), which another way still gives.
            assert (tx.stats.potential, tx.stats.questions) == (4, 4)


@ways
def test_a_view_without_events_reports_nothing_and_keeps_its_key(spark: Any, way: str) -> None:
    """Neither with a transaction nor with a definition, beside a view of its component that reports."""
    options = ".view first strategy=epf\n.view second strategy=epf events=none\n"
    text = SILENT.replace("second(x: number, y: number)", "second(x: number, y: number) key(x, y)") + options
    with database(spark, text, **WAYS[way]) as db:
        tx = committed(db, insert={"edge": [(1, 2), (2, 3)]})
        assert set(tx.changes["first"].inserted) == set(db.rows("second")) == {(1, 2), (2, 3), (1, 3)}
        made = db.add_rule("first(X, X) :- edge(X, _).")
        assert len(made.changes["first"].inserted) == 2
        assert "second" not in tx.changes
        assert "second" not in made.changes
        with pytest.raises(upshot.ConstraintError, match="key"):
            db.define(".decl second(x: number, y: number) key(x)\nsecond(X, Y) :- first(X, Y).\n" + options)


def test_changes_go_as_the_wave_passes_by_rounds_too(spark: Any) -> None:
    depth, rows = 6, 8
    lines = [".decl edge(x: number, y: number)", ".decl v0(x: number, y: number)", "v0(X, Y) :- edge(X, Y)."]
    for n in range(1, depth):
        # Two rules each, so that the view stays a node of the network.
        lines += [f".decl v{n}(x: number, y: number)", f"v{n}(X, Y) :- v{n - 1}(X, Y). v{n}(X, Y) :- v{n - 1}(Y, X)."]
    silent = [f".view v{n} strategy=differencing events=none" for n in range(depth - 1)]
    text = "\n".join([*lines, *silent, f".view v{depth - 1} strategy=differencing"])
    peaks = []
    for way in WAYS:
        with database(spark, text, **WAYS[way]) as db:
            tx = committed(db, insert={"edge": [(n, n) for n in range(rows)]})
            assert set(tx.changes[f"v{depth - 1}"].inserted) == {(n, n) for n in range(rows)}
            assert tx.stats.stored == 0
            peaks.append(tx.stats.peak)
    assert rows <= peaks[0] < depth * rows
    assert peaks == [peaks[0]] * len(WAYS)


@pytest.mark.parametrize("way", ["in the driver", "by rounds"])
def test_rows_sizes_membership_and_queries_come_from_the_definition(spark: Any, way: str) -> None:
    with database(spark, f"{CLOSURE}.view tc strategy=epf", **WAYS[way]) as db:
        committed(db, insert={"edge": EDGES})
        assert len(db.rows("tc")) == 13
        assert db.query('tc("b", Y), edge(Y, _)').sorted() == [("d",)]
        engine = db._state.engine
        assert engine.size("tc") == 13
        assert engine.contains("tc", ("a", "e2"))
        assert not engine.contains_all("tc", [("a", "e2"), ("b", "c")])


NULLS = """
.decl a(x: number?, y: symbol?)
.decl b(x: number?, y: symbol?)
.decl yes()
.decl p(x: number?, y: symbol?)
.decl none()
.decl n(y: symbol?, c: number)
.view p strategy={0}
.view none strategy={0}
p(X, Y) :- a(X, Y), !b(1, "s").
p(X, Y) :- b(X, Y).
none() :- yes(), !p(2, "t").
n(Y, C) :- p(_, Y), C = count : {{ p(_, Y) }}.
"""


@pytest.mark.parametrize(("strategy", "way"), COMBINED)
def test_null_is_null_and_a_relation_without_columns_is_true_or_not(spark: Any, strategy: str, way: str) -> None:
    with database(spark, NULLS.format(strategy), **WAYS[way]) as db:
        first = committed(db, insert={"a": [(None, None), (1, None)], "b": [(None, None)], "yes": [()]})
        assert set(first.changes["p"].inserted) == {(None, None), (1, None)}
        assert set(first.changes["none"].inserted) == {()}
        assert set(first.changes["n"].inserted) == {(None, 0)}
        second = committed(db, delete={"a": [(None, None)]}, insert={"b": [(2, "t")]})
        assert (set(second.changes["p"].inserted), set(second.changes["p"].deleted)) == ({(2, "t")}, set())
        assert set(second.changes["none"].deleted) == {()}
        third = committed(db, delete={"b": [(None, None)]}, insert={"b": [(1, "s")]})
        assert (set(third.changes["p"].inserted), set(third.changes["p"].deleted)) == (
            {(1, "s")},
            {(None, None), (1, None)},
        )
        assert set(db.rows("n")) == {("s", 1), ("t", 1)}


PROJECTION = ".decl q(x: number, y: number) .decl p(x: number) p(X) :- q(X, Y), Y > 0.\n"


@ways
def test_a_nervous_view_tells_again_what_holds_and_asks_for_nothing(spark: Any, way: str) -> None:
    with database(spark, f"{PROJECTION}.view p strategy=differencing semantics=nervous", **WAYS[way]) as db:
        committed(db, insert={"q": [(1, 1)]})
        tx = committed(db, insert={"q": [(1, 2), (2, 2), (3, 0)]})
        assert set(tx.changes["p"].inserted) == {(1,), (2,)}
        assert (tx.stats.asked, tx.stats.answered, tx.stats.stored) == (0, 0, 0)
        tx = committed(db, insert={"q": [(2, 5)]}, delete={"q": [(1, 2), (2, 2)]})
        assert (set(tx.changes["p"].inserted), set(tx.changes["p"].deleted)) == (set(), {(1,)})
        tx = committed(db, insert={"q": [(4, 0), (5, 0), (6, -1)]}, delete={"q": [(3, 0)]})
        assert (tx.stats.components, tx.stats.screened) == (0, 4), "no literal matches these"
        assert set(db.rows("p")) == {(1,), (2,)}


def test_a_view_is_stored_and_no_longer_and_again(spark: Any) -> None:
    with database(spark, f"{CLOSURE}.view tc strategy=maintenance", **BY_ROUNDS) as db:
        committed(db, insert={"edge": EDGES})
        for options, stored in (
            ("strategy=rod", 0),
            ("strategy=rod materialized=true", 13),
            ("strategy=epf", 0),
            ("strategy=maintenance", 13),
        ):
            made = db.define(f".view tc {options}")
            assert not made.changes["tc"], options
            assert made.stats.stored == stored
            assert len(db.rows("tc")) == 13
        made = db.define(f'{CLOSURE}.view tc strategy=rod  tc("z", X) :- edge("a", X).')
        assert set(made.changes["tc"].inserted) == {("z", "b"), ("z", "c"), ("z", "d"), ("z", "e1"), ("z", "e2")}
        assert not made.changes["tc"].deleted
        assert made.stats.stored == 0


def test_a_copy_follows_and_views_above_rest_on_the_definition(spark: Any) -> None:
    text = (
        CLOSURE
        + ".view tc strategy=rod\n.decl far(x: symbol, n: number)\nfar(X, N) :- edge(X, _), N = count : { tc(X, _) }."
    )
    with database(spark, text) as db:
        committed(db, insert={"edge": EDGES})
        tx = committed(db, delete={"edge": [("d", "e1")]})
        assert tx.stats.stored == 4
        assert set(db.rows("far")) == {("a", 4), ("b", 2), ("c", 2), ("d", 1)}
        assert "all rounds in the driver" in str(db.explain("tc"))
        db.verify()


def test_a_key_of_an_unstored_view_is_watched(spark: Any) -> None:
    text = ".decl a(x: number, y: number) .decl v(x: number, y: number) key(x) .view v strategy=epf v(X, Y) :- a(X, Y)."
    with database(spark, text) as db:
        committed(db, insert={"a": [(1, 1), (2, 2)]})
        with pytest.raises(upshot.Error):
            committed(db, insert={"a": [(2, 3)]})
        assert set(db.rows("v")) == {(1, 1), (2, 2)}
        committed(db, insert={"a": [(2, 3)]}, delete={"a": [(2, 2)]})


@pytest.mark.parametrize("way", ["in the driver", "by rounds"])
def test_an_overflow_is_told_as_such_and_changes_nothing(spark: Any, way: str) -> None:
    text = ".decl a(x: number) .decl v(x: number) .view v strategy=rod v(Y) :- a(X), Y = X * 4611686018427387904."
    with database(spark, text, **WAYS[way]) as db:
        committed(db, insert={"a": [(1,)]})
        with pytest.raises(DataError, match="64-bit range"):
            committed(db, insert={"a": [(2,)]})
        assert set(db.rows("v")) == {(4611686018427387904,)}


@pytest.mark.parametrize("way", ["in the driver", "by rounds"])
def test_a_recursion_that_does_not_end_meets_its_limit(spark: Any, way: str) -> None:
    text = ".decl a(x: number) .decl v(x: number) .view v strategy=rod v(X) :- a(X). v(Y) :- v(X), Y = X + 1."
    with database(spark, text, limits=Limits(max_rounds=4), **WAYS[way]) as db:
        with pytest.raises(upshot.Error, match="still growing"):
            committed(db, insert={"a": [(1,)]})
        assert not db.query("a(X)")


def test_what_outgrows_the_driver_goes_by_rounds(spark: Any) -> None:
    spark.conf.set("upshot.driver.memory", "1k")
    try:
        with database(spark, f"{CLOSURE}.view tc strategy=epf") as db:
            committed(db, insert={"edge": EDGES[:2]})
            assert set(db.rows("tc")) == {("a", "b"), ("b", "d"), ("a", "d")}
            assert "on Spark: the driver may hold 1.0 KiB, which was not enough" in str(db.explain("tc"))
    finally:
        spark.conf.unset("upshot.driver.memory")


def test_a_database_that_moves_to_spark_takes_no_view_along(spark: Any) -> None:
    with upshot.connect(spark=spark, memory="1MiB") as db:
        db.define(f"{CLOSURE}.view tc strategy=epf")
        committed(db, insert={"edge": EDGES})
        assert "engine local" in str(db.explain())
        many = [(f"x{i}", f"y{i}") for i in range(30_000)]
        tx = committed(db, insert={"edge": many}, delete={"edge": [("b", "d")]})
        assert "engine spark" in str(db.explain())
        assert set(tx.changes["tc"].deleted) == {("b", "d"), ("b", "e1"), ("b", "e2")}
        assert len(tx.changes["tc"].inserted) == 30_000
        assert tx.stats.stored == 0
        assert db.query('tc("a", "d")')


def test_a_store_gives_the_relations_back_and_never_held_the_view(spark: Any, tmp_path: Path) -> None:
    text = f'{CLOSURE}.view tc strategy=epf\n.decl far(x: symbol)\nfar(X) :- tc(X, "e1").'
    with upshot.connect(tmp_path / "db", spark=spark, engine="spark") as db:
        db.define(text)
        committed(db, insert={"edge": EDGES})
        db.snapshot()
        committed(db, delete={"edge": [("c", "d")]})
    with upshot.connect(tmp_path / "db", spark=spark, engine="spark") as db:
        assert set(db.rows("far")) == {("a",), ("b",), ("d",)}
        tx = committed(db, delete={"edge": [("b", "d")]})
        assert set(tx.changes["far"].deleted) == {("a",), ("b",)}
        assert len(db.rows("tc")) == 4
