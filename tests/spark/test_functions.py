"""Functions of users on Spark: in jobs as Arrow functions, and in the driver."""

from __future__ import annotations

from typing import Any

import pytest

import upshot

pytestmark = pytest.mark.slow

TEXT = """
.functor double(x: number): number pure
.decl n(x: number)
.decl d(x: number, y: number)
d(X, @double(X)) :- n(X), @double(X) < 100.
.decl chain(x: number)
chain(1) :- n(1).
chain(@double(X)) :- chain(X), X < 20.
"""


def test_changes_are_those_of_the_local_engine(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.function("double", lambda x: 2 * x)
        db.define(TEXT)
        with db.transaction() as tx:
            tx.insert("n", [(1,), (2,), (60,)])
        assert set(tx.changes["d"].inserted) == {(1, 2), (2, 4)}
        assert set(db.rows("chain")) == {(1,), (2,), (4,), (8,), (16,), (32,)}
        with db.transaction() as tx:
            tx.delete("n", [(1,)])
        assert set(tx.changes["d"].deleted) == {(1, 2)}
        assert not list(db.rows("chain"))
        assert set(db.query("n(X), Y = @double(X)")) == {(2, 4), (60, 120)}
        db.verify()


def test_other_code_changes_what_was_computed_with_it(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.function("double", lambda x: 2 * x)
        db.define(TEXT)
        with db.transaction() as tx:
            tx.insert("n", [(1,), (2,)])
        done = db.function("double", lambda x: 3 * x)
        assert done is not None
        assert set(done.changes["d"].inserted) == {(1, 3), (2, 6)}
        assert set(done.changes["d"].deleted) == {(1, 2), (2, 4)}
        assert set(db.rows("chain")) == {(1,), (3,), (9,), (27,)}
        with pytest.raises(upshot.Error) as caught:
            db.function("double", lambda x: 5 // (x - 2))
        assert caught.value.code == "function-failed"
        with db.transaction() as tx:
            tx.insert("n", [(3,)])
        assert set(tx.changes["d"].inserted) == {(3, 9)}
        db.verify()


def test_a_function_that_raises_ends_the_transaction_at_its_place(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.function("double", lambda x: 1 // (x - 7))
        db.define(TEXT)
        with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
            tx.insert("n", [(7,)])
        assert caught.value.code == "function-failed"
        assert caught.value.span is not None
        assert not list(db.rows("n"))


def test_a_stateful_function_in_a_job_is_refused_by_name(spark: Any) -> None:
    with upshot.connect(spark=spark, engine="spark") as db:
        db.function("double", lambda x: 2 * x)
        with pytest.raises(upshot.Error) as caught:
            db.define(TEXT.replace("pure", "stateful") + "n(1).")
        assert caught.value.code == "stateful-on-spark"


def test_folds_are_those_of_the_local_engine(spark: Any) -> None:
    text = """
    .functor longest(x: symbol): symbol fold
    .functor total(x: number): number fold
    .decl word(g: number, t: symbol)
    .decl long(g: number, t: symbol, n: number)
    long(G, M, N) :- word(G, _), M = @longest T : { word(G, T) }, N = @total strlen(T) : { word(G, T) }.
    """
    with upshot.connect(spark=spark, engine="spark") as db:
        db.function("longest", upshot.Fold("", lambda state, t: max(state, t, key=lambda each: (len(each), each))))
        db.function("total", upshot.Fold(0, lambda state, v: state + v, lambda state, v: state - v))
        db.define(text)
        with db.transaction() as tx:
            tx.insert("word", [(1, "a"), (1, "abc"), (2, "zz")])
        assert set(tx.changes["long"].inserted) == {(1, "abc", 4), (2, "zz", 2)}
        with db.transaction() as tx:
            tx.delete("word", [(1, "abc")])
        assert set(tx.changes["long"].inserted) == {(1, "a", 1)}
        assert set(tx.changes["long"].deleted) == {(1, "abc", 4)}
        db.verify()


def test_ranges_and_alternatives_are_those_of_the_local_engine(spark: Any) -> None:
    text = """
    .decl r(a: number, b: number)
    .decl p(x: number)
    .decl n(a: number, n: number)
    p(X) :- r(A, B), X = range(A, B, 2).
    n(A, N) :- r(A, _), N = count : { r(A, X) ; p(X), X > A }.
    """
    with upshot.connect(spark=spark, engine="spark") as db:
        db.define(text)
        with db.transaction() as tx:
            tx.insert("r", [(1, 6), (4, 5)])
        assert set(tx.changes["p"].inserted) == {(1,), (3,), (5,), (4,)}
        assert set(db.rows("n")) == {(1, 4), (4, 1)}
        with db.transaction() as tx:
            tx.delete("r", [(1, 6)])
        assert set(tx.changes["p"].deleted) == {(1,), (3,), (5,)}
        db.verify()
