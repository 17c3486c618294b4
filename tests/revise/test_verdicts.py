"""What a search says of itself is proven like what it finds; what it is asked is refused where it says two things."""

from __future__ import annotations

import pytest

from tests.revise.test_goldens import database, shown
from upshot.core.errors import UsageError

VIEW = ".decl a(x: number) .decl b(x: number) .decl v(x: number) v(X) :- a(X)."
DENIED = VIEW + " .deny lost(X) :- b(X), !a(X)."


def test_a_way_through_what_is_frozen_counts_only_if_the_rules_of_the_database_let_it_pass() -> None:
    db = database(VIEW + " .rule never(X) on insert a(X) do delete a(X).")
    answer = db.realize({"v": [(1,)]}, frozen=["a"])
    assert list(answer) == []
    assert (answer.status, answer.reason) == ("none exists", "none exists: `v(1)` would not be there")


def test_a_later_way_through_what_is_frozen_counts() -> None:
    db = database(VIEW + " v(X) :- b(X). .rule never(X) on insert a(X) do delete a(X).")
    answer = db.realize({"v": [(1,)]}, frozen=["a", "b"])
    assert list(answer) == []
    assert answer.status == "only through frozen"


def test_repairs_refuse_a_constraint_that_is_not_there_whatever_else_they_are_given() -> None:
    with pytest.raises(UsageError) as caught:
        database(DENIED).repairs("nonsense", insert={"b": [(1,)]})
    assert caught.value.code == "unknown-relation"


def test_repairs_are_of_a_constraint_or_of_rows() -> None:
    with pytest.raises(UsageError) as caught:
        database(DENIED).repairs("lost", insert={"b": [(1,)]})
    assert caught.value.code == "wrong-argument"
    assert shown(database(DENIED).repairs(insert={"b": [(1,)]})) == [{"+a(1)", "+b(1)"}]


def test_prices_add_up_to_the_same_in_every_order() -> None:
    db = database(".decl a(x: number) .decl b(x: number) .decl c(x: number) .decl t() t() :- a(1), b(1), c(1).")
    (way,) = db.realize({"t": [()]}, cost={"a": 0.1, "b": 0.2, "c": 0.3})
    assert way.cost == 0.6
    (plain,) = db.realize({"t": [()]})
    assert repr(plain.cost) == "3"
