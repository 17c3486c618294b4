"""Rows with NULL in views that nobody stores are found like others."""

from __future__ import annotations

import pytest

import upshot

PROGRAM = """
.decl edge(x: number?, y: symbol?)
.decl near(x: number?, y: symbol?)  .view near materialized=false
.decl odd(x: number?)  .view odd materialized=false
near(X, Y) :- edge(X, Y).
odd(X) :- near(X, _), is_null(X).
odd(X) :- near(X, "b").
"""
ROWS = [(1, None), (None, "b"), (None, None), (2, "b"), (3, "c")]


@pytest.fixture
def db() -> upshot.Database:
    made = upshot.connect()
    made.define(PROGRAM)
    with made.transaction() as tx:
        tx.insert("edge", ROWS)
    return made


def test_membership_finds_null_in_views_that_are_not_stored(db: upshot.Database) -> None:
    engine = db._state.engine
    assert [row for row in ROWS if not engine.contains("near", row)] == []
    assert engine.contains_all("near", ROWS)
    for row in [(2, None), (None, "c"), (4, None)]:
        assert not engine.contains("near", row)
    assert engine.contains("odd", (None,))
    assert not engine.contains("odd", (1,))


def test_such_rows_are_explained_and_the_rest_is_not(db: upshot.Database) -> None:
    assert db.why("near", (None, None)).height == 1
    assert db.why("odd", (None,)).height == 2
    with pytest.raises(upshot.DataError, match="exists"):
        db.why_not("near", (1, None))
    assert db.why_not("near", (2, None)).failing == 1
    db.verify()


def test_a_request_sees_rows_with_null_of_what_is_staged(db: upshot.Database) -> None:
    (way,) = db.realize(delete={"near": [(1, None)]})
    assert way.delete == {"edge": ((1, None),)}
    assert next(db.realize({"near": [(1, None)]})).size == 0
