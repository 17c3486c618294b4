"""A transaction that says what is to be so in the end happens only if it is."""

from __future__ import annotations

import pytest

import upshot

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(X, Y) :- edge(X, Y).
path(X, Z) :- path(X, Y), edge(Y, Z).
.deny loop(X) :- path(X, X).
"""


def filled(more: str = "") -> upshot.Database:
    db = upshot.connect()
    db.define(PROGRAM + more)
    with db.transaction() as tx:
        tx.insert("edge", [(1, 2), (2, 3)])
    return db


Expected = dict[str, list[tuple[int, int]]]


def change(db: upshot.Database, edge: tuple[int, int], **expected: Expected) -> None:
    with db.transaction() as tx:
        tx.expect(**expected)
        tx.insert("edge", [edge])


@pytest.mark.parametrize("more", ["", ".view path materialized=false events=none"])
def test_what_is_expected_and_comes_true_is_committed(more: str) -> None:
    db = filled(more)
    with db.transaction() as tx:
        tx.expect(insert={"path": [(2, 3)], "edge": [(3, 4)]}, delete={"path": [(1, 3)], "edge": [(9, 9)]})
        tx.delete("edge", [(1, 2)])
        tx.insert("edge", [(3, 4)])
    assert tx.version == 3


@pytest.mark.parametrize("more", ["", ".view path materialized=false events=none"])
@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"insert": {"path": [(1, 4)]}}, "row `path(1, 4)` would not exist"),
        ({"delete": {"path": [(1, 3)]}}, "row `path(1, 3)` would still exist"),
        (
            {"insert": {"edge": [(2, 3)]}, "delete": {"edge": [(1, 2)]}},
            "row `edge(1, 2)` would still exist",
        ),
    ],
)
def test_what_is_expected_and_does_not_come_true_undoes_everything(
    more: str, expected: dict[str, Expected], words: str
) -> None:
    db = filled(more)
    with pytest.raises(upshot.DataError) as raised:
        change(db, (1, 5), **expected)
    assert raised.value.code == "not-as-expected"
    assert raised.value.message == words
    assert (db.version, set(db.rows("edge"))) == (2, {(1, 2), (2, 3)})
    db.verify()


def test_a_violated_constraint_is_told_before_what_was_expected() -> None:
    db = filled()
    with pytest.raises(upshot.ConstraintError):
        change(db, (3, 1), insert={"path": [(7, 7)]})


def test_what_rules_do_counts() -> None:
    db = filled(".rule undo(X) when path(X, 9) do delete edge(X, 9).")
    with pytest.raises(upshot.DataError, match=r"row `edge\(3, 9\)` would not exist"):
        change(db, (3, 9), insert={"edge": [(3, 9)]})


def test_expecting_is_for_an_open_transaction_and_for_rows_that_fit() -> None:
    db = filled()
    with db.transaction() as tx:
        with pytest.raises(upshot.DataError, match="wrong-arity"):
            tx.expect(insert={"path": [(1,)]})
        with pytest.raises(upshot.UsageError, match="nosuch"):
            tx.expect(insert={"nosuch": [(1,)]})
    with pytest.raises(upshot.UsageError):
        tx.expect(insert={"path": [(1, 2)]})


@pytest.mark.parametrize("more", ["", ".view path materialized=false events=none"])
def test_a_realization_is_applied_to_a_view_whether_or_not_it_is_stored(more: str) -> None:
    db = filled(more)
    ways = list(db.realize(delete={"path": [(1, 3)]}))
    db.apply(ways[0])
    assert (1, 3) not in set(db.query("path(X, Y)"))


def test_a_search_can_be_followed_a_moment_at_a_time_and_gives_the_same() -> None:
    db = filled()
    found, search = [], db.realize(delete={"path": [(1, 3)]})
    while search.status == "more":
        if (way := search.advance(0)) is not None:
            found.append(way.text())
    assert found == [each.text() for each in db.realize(delete={"path": [(1, 3)]})]
    assert (search.status, search.reason, search.version) == ("all", "these are all 2", 2)
    assert search.advance() is None
    search = db.realize(delete={"path": [(1, 3)]}, frozen=["edge"])
    while search.status == "more":
        assert search.advance(0) is None
    assert search.status == "only through frozen"


def test_of_realizations_with_equally_many_side_effects_the_cheapest_comes_first() -> None:
    db = upshot.connect()
    db.define(
        ".decl a(x: number) .decl b(x: number) .decl c(x: number) .decl v(x: number) v(X) :- a(X). v(X) :- b(X), c(X)."
    )
    ways = db.realize({"v": [(1,)]}, side_effect_free_first=True)
    assert [way.cost for way in ways] == [1, 2]
