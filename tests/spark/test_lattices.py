"""Views that keep best rows, on Spark: in the driver while they fit, refused by name beyond it."""

from __future__ import annotations

from typing import Any

import pytest

import upshot
from tests.properties.lattice_programs import Row, lattice_case
from tests.properties.settings import seed_of
from upshot.check import check
from upshot.engine.naive import evaluate
from upshot.syntax import parse

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [0, *(pytest.param(more, marks=pytest.mark.deep) for more in (1, 2))])
def test_changes_are_exact(spark: Any, number: int) -> None:
    case = lattice_case(seed_of("spark lattices", number))
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(case.text)
        held: dict[str, set[Row]] = {"edge": set(), "node": set(), "closed": set()}
        before = {view: set(db.rows(view)) for view in case.views}
        for change in case.changes[:4]:
            with db.transaction() as tx:
                for name, (inserted, deleted) in change.items():
                    held[name] = (held[name] - deleted) | inserted
                    tx.delete(name, sorted(deleted))
                    tx.insert(name, sorted(inserted))
            found = evaluate(check(parse(case.text)), held)
            for view in case.views:
                assert set(tx.changes[view].inserted) == found[view] - before[view]
                assert set(tx.changes[view].deleted) == before[view] - found[view]
                before[view] = found[view]
        db.verify()


def test_what_the_driver_cannot_hold_is_refused_by_name(spark: Any) -> None:
    spark.conf.set("upshot.driver.memory", "0")
    try:
        with upshot.connect(spark=spark, engine="spark") as db:
            with pytest.raises(upshot.Error) as caught:
                db.define(".decl e(x: number, y: number)  .decl best(x: number, y: min number)  best(X, Y) :- e(X, Y).")
            assert caught.value.code == "lattice-beyond-driver"
    finally:
        spark.conf.unset("upshot.driver.memory")


def test_counts_and_sums_that_grow_are_maintained_in_the_driver(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define("""
        .decl owns(a: symbol, b: symbol, share: unsigned)
        .decl controls(a: symbol, b: symbol)
        .decl through(a: symbol, b: symbol, c: symbol)
        through(A, B, A) :- owns(A, B, _).
        through(A, B, C) :- controls(A, C), owns(C, B, _).
        controls(A, B) :- through(A, B, _), A != B, sum N : { owns(C, B, N), through(A, B, C) } > 50.
        """)
        with db.transaction() as tx:
            tx.insert("owns", [("a", "b", 60), ("a", "c", 30), ("b", "c", 25), ("c", "d", 51)])
        assert set(tx.changes["controls"].inserted) == {("a", "b"), ("a", "c"), ("a", "d"), ("c", "d")}
        with db.transaction() as tx:
            tx.delete("owns", [("b", "c", 25)])
        assert set(tx.changes["controls"].deleted) == {("a", "c"), ("a", "d")}
        db.verify()
