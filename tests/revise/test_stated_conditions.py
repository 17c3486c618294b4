"""Values for placeholders that do not meet what a realization states, and those that do."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import upshot
from tests.revise.test_goldens import database

WHEN = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("type", "test", "condition", "outside", "inside"),
    [
        ("date", 'X >= date("2026-03-01")', '?1 >= date("2026-03-01")', dt.date(2026, 2, 20), dt.date(2026, 3, 1)),
        ("timestamp", 'X > timestamp("2026-03-01T00:00:00Z")', "?1 > timestamp", WHEN, WHEN + dt.timedelta(seconds=1)),
        ("number", "X > 3", "?1 > 3", 3, 4),
        ("unsigned", "X > 3u", "?1 > 3u", 3, 4),
        ("float", "X > 0.5", "?1 > 0.5", 0.25, 1),
        ("decimal(6, 2)", 'X > decimal("1.25")', "?1 > decimal", Decimal("1.25"), Decimal("1.26")),
        ("symbol", 'X > "b"', '?1 > "b"', "a", "c"),
        ("symbol", 'contains("?1", X)', 'contains("?1", ?1)', "?2", "a?1"),
        ("symbol", "strlen(X) > 2", "strlen(?1) > 2", "ab", "abc"),
        ("number", "X % 7 = 5, X > 20", "?1 % 7 = 5", 27, 26),
        ("float", "X * 2.0 > 3.0", "?1 * 2.0 > 3.0", 1.5, 1.75),
    ],
)
def test_a_value_that_does_not_meet_a_condition_is_refused_with_that_condition(
    type: str, test: str, condition: str, outside: Any, inside: Any
) -> None:
    db = database(f".decl e(x: {type}) .decl p() p() :- e(X), {test}.")
    (way,) = db.realize({"p": [()]})
    with pytest.raises(upshot.DataError) as refused:
        db.apply(way, {"?1": outside})
    assert refused.value.code == "condition-not-met"
    assert condition in refused.value.message
    db.apply(way, {"?1": inside})
    assert db.rows("p") == [()]


def test_the_error_names_values_condition_and_cure() -> None:
    db = database(".decl e(x: number, y: number) .decl p() p() :- e(X, Y), X > Y + 2.")
    (way,) = db.realize({"p": [()]})
    with pytest.raises(upshot.DataError) as refused:
        db.apply(way, {"1": 4, "2": 2})
    assert refused.value.message == (
        f"`?1 = 4` and `?2 = 2` do not meet the condition `{way.conditions[0]}` of this realization"
    )
    assert refused.value.help.endswith("repeat `db.realize` with this one among the `constants` of its bounds")
    db.apply(way, {"1": 5, "2": 2})


def test_a_value_outside_of_what_is_stated_is_proven_and_refused_by_its_condition() -> None:
    program = """
        .decl a(x: number)  .decl ok(x: number)  .decl p()
        p() :- a(X), X > 3.
        .deny unapproved(X) :- a(X), X > 10, !ok(X).
    """
    db = database(program)
    (small,) = db.realize({"p": [()]})
    assert (small.lines(), small.conditions) == (["+a(?1)"], ("?1 > 3", "?1 <= 10"))
    with pytest.raises(upshot.DataError, match=r"`\?1 = 11` does not meet the condition `\?1 <= 10`") as refused:
        db.apply(small, {"?1": 11})
    assert refused.value.code == "condition-not-met"
    with db.transaction() as tx:
        tx.insert("ok", [(100,)])
    db.apply(small, {"?1": 100})
    assert db.rows("p") == [()], "conditions are enough, and not necessary: what is given is proven"


GUARDED = """
    .decl a(x: number)  .decl b(x: number)  .decl p(k: number)
    p(1) :- a(X), !b(X).
"""


def test_values_that_are_at_fault_are_told_apart_from_a_database_that_moved_on() -> None:
    db = database(GUARDED, b=[(4,)])
    way = next(each for each in db.realize({"p": [(1,)]}) if each.placeholders)
    with db.transaction() as tx:
        tx.insert("b", [(5,)])
    with pytest.raises(upshot.DataError, match=r"with these values this is not a realization: row `p.1.` would"):
        db.apply(way, {"?1": 4})
    with db.transaction() as tx:
        tx.insert("b", [(way.tried["?1"],)])
    with pytest.raises(upshot.DataError, match="this is no longer a realization"):
        db.apply(way, {"?1": 4})


def test_values_of_a_wrong_type_are_still_refused_as_such() -> None:
    db = database(".decl e(x: number) .decl p() p() :- e(X), X > 3.")
    (way,) = db.realize({"p": [()]})
    for wrong in ("a", True, 1.5, dt.date(2026, 1, 1), None):
        with pytest.raises(upshot.DataError) as refused:
            db.apply(way, {"?1": wrong})
        assert refused.value.code in ("wrong-type", "null-in-required-column")


@pytest.mark.parametrize(
    ("rule", "stored", "condition"),
    [
        ("q(Z) :- one(Z), a(Y), X = Y * 2, !b(X).", 3, ("?1 != 0", "?1 != 1")),
        ("q(Z) :- one(Z), a(Y), X = Y * 2, !b(X).", 400, ("!b(?1 * 2)",)),
        ("q(Z) :- one(Z), a(Y). .deny d(Y) :- a(Y), b(X), Y <= X.", 400, ("?1 > 399",)),
    ],
    ids=["few", "many", "bounds"],
)
def test_a_new_value_that_may_meet_many_stored_rows_is_kept_apart_from_all(
    rule: str, stored: int, condition: tuple[str, ...]
) -> None:
    with upshot.connect() as db:
        db.define(f".decl a(x: number) .decl b(x: number) .decl q(x: number) .decl one(x: number) one(1). {rule}")
        with db.transaction() as tx:
            tx.insert("b", [(each,) for each in range(stored)])
        answer = db.realize(insert={"q": [(1,)]}, bounds=upshot.Bounds(seconds=300))
        (way,) = answer
        assert (way.lines(), way.conditions, answer.status) == (["+a(?1)"], condition, "all")
        with pytest.raises(upshot.DataError, match=r"not a realization|no longer a realization|does not meet"):
            db.apply(way, {"?1": 1})
        db.apply(way, {"?1": 500})


def test_a_value_with_which_a_part_would_do_and_the_whole_does_not_is_excluded() -> None:
    rules = """
        .decl a(x: number) .decl b(x: number) .decl e(x: number, y: number)
        .decl v(x: number) .decl w(x: number) .decl p() .decl r(x: number)
        v(X) :- b(X).
        v(Z) :- b(X), b(Y), !a(X), Z = X - 1.
        w(X) :- b(X), !a(X), X != 2, X <= 2.
        p() :- v(X), X <= 2, X != 2.
        p() :- e(2, X), a(Y), X >= 5, Y >= 5.
        r(K) :- e(K, X), !w(X), X < 5.
        r(K) :- e(K, X), X = 2.
        .deny d(X) :- w(X).
        a(3). a(5). e(2, 4).
    """
    with upshot.connect() as db:
        db.define(rules)
        ways = list(db.realize({"p": [()]}, bounds=upshot.Bounds(new_constants=2, size=3, rounds=200, seconds=300)))
        (way,) = (each for each in ways if each.insert.keys() == {"a", "b"})
        assert way.conditions == ("?1 < 2",)


def test_amounts_that_a_rule_keeps_out_of_a_sum_are_excluded() -> None:
    rules = """
        .decl emp(i: number, p: number)  .decl few(p: number)  .decl s(s: number)
        few(P) :- emp(_, P), P <= 100.
        s(S) :- S = sum P : { few(P) }.
    """
    answer = database(rules).realize({"s": [(150,)]}, bounds=upshot.Bounds(new_constants=3), limit=1)
    (way,) = answer
    assert {"?2 <= 100", "?3 <= 100", "?2 + ?3 = 150"} <= {*way.conditions}, way.conditions


@pytest.mark.parametrize(
    ("rules", "conditions"),
    [
        ("p() :- a(X), e(Y), !a(Z), Z = Y - 1.", ("?1 != ?2 - 1",)),
        ("v(Z) :- e(Y), a(X), X > 4, Z = Y - 1.  p() :- v(X), !a(X).", ("?1 > 4", "?1 != ?2 - 1")),
        ("v(X) :- a(X).  p() :- a(X), e(Y), !v(Z), Z = Y - 1.", ("?1 != ?2 - 1",)),
    ],
)
def test_a_computed_row_that_must_be_absent_is_no_inserted_one(rules: str, conditions: tuple[str, ...]) -> None:
    db = database(f".decl a(x: number)  .decl e(x: number)  .decl v(x: number)  .decl p()  {rules}")
    (way,) = db.realize({"p": [()]})
    assert way.conditions == conditions
    with pytest.raises(upshot.DataError) as refused:
        db.apply(way, {"?1": 5, "?2": 6})
    assert refused.value.code == "condition-not-met"
    db.apply(way, {"?1": 5, "?2": 8})
    assert db.rows("p") == [()]


WITH_OTHERS = """
    .decl b(x: number)  .decl e(y: number)  .decl f(x: number)  .decl v(x: number)  .decl w(x: number)
    .decl p()  .decl q()
    p() :- e(Y), Y != 3.  q() :- e(3).
    v(X) :- b(X), e(Y), X > Y.
    b(5).  f(1).
"""


@pytest.mark.parametrize(
    ("rules", "delete", "refused", "taken"),
    [
        ("w(X) :- v(X).  .deny d(X) :- w(X), X != 8.  b(8).", None, 4, 6),
        ("w(X) :- f(X), e(Y), X < Y.  .deny d(X, Z) :- w(X), v(Z).", None, 4, 9),
        (".deny d(X) :- b(X), !v(X).  e(3).", "q", 5, 4),
        ("w(X) :- b(X), !v(X).  .deny d(X) :- w(X).  e(3).", "q", 5, 4),
    ],
    ids=["a view above", "two such rows", "negated", "a view above a negation"],
)
def test_conditions_keep_rows_out_that_follow_with_other_values_only(
    rules: str, delete: str | None, refused: int, taken: int
) -> None:
    db = database(WITH_OTHERS + rules)
    (way,) = db.realize({"p": [()]}, {delete: [()]} if delete else None)
    with pytest.raises(upshot.DataError) as error:
        db.apply(way, {"?1": refused})
    assert error.value.code == "condition-not-met"
    db.apply(way, {"?1": taken})
    assert db.rows("p") == [()]
