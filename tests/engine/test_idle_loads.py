"""Views that are computed anew and turn out empty."""

from __future__ import annotations

import upshot

ROWS = [(number,) for number in range(100)]


def changed(db: upshot.Database, *, insert: dict[str, list[tuple[int]]], delete: dict[str, list[tuple[int]]]) -> None:
    with db.transaction() as tx:
        for name, rows in delete.items():
            tx.delete(name, rows)
        for name, rows in insert.items():
            tx.insert(name, rows)


def test_a_view_that_was_computed_anew_and_stayed_empty_has_room_for_the_next_row() -> None:
    db = upshot.connect()
    db.define("""
        .decl a(x: number)  .decl b(x: number)  .decl e(x: number, y: number)  .decl v(x: number)
        v(X) :- a(X), b(X).
        v(Y) :- v(X), e(X, Y).
    """)
    changed(db, insert={"a": ROWS, "b": [(1,)]}, delete={})
    changed(db, insert={}, delete={"a": ROWS, "b": [(1,)]})
    changed(db, insert={"a": ROWS}, delete={})
    changed(db, insert={"b": [(1,)]}, delete={})
    assert db.rows("v") == [(1,)]
