"""What a search is given and cannot take is refused at once, with what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import upshot
from tests.revise.test_requests import database

PROGRAM = """
.decl base(i: symbol, n: number) key(i)
.decl other(i: symbol)
.decl v(i: symbol, n: number)
v(I, N) :- base(I, N).
.decl w(i: symbol)
w(I) :- other(I), base(I, N), N > 3.
.deny odd(I) :- other(I), !base(I, _).
base("a", 1).
"""


def realizing(*args: Any, **options: Any) -> Callable[[upshot.Database], object]:
    return lambda db: db.realize(*args, **options)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (realizing(insert=[("v", 1)]), "`insert` is a dict of rows by relation"),
        (realizing("v(1)"), "not `'v(1)'`"),
        (realizing(delete=3), "`delete` is a dict of rows by relation, not `3`"),
        (realizing({"w": [("a",)]}, frozen=3), "`frozen` is a list of base relations, not `3`"),
        (realizing({"w": [("a",)]}, frozen=[3]), "`frozen` names base relations, and `3` is no name"),
        (realizing({"w": [("a",)]}, cost=[1]), "`cost` is a dict of prices"),
        (realizing({"w": [("a",)]}, cost={3: 1}), "`cost` names base relations"),
        (realizing({"w": [("a",)]}, cost={"base": "x"}), "the cost of `base` is not a non-negative number"),
        (realizing({"w": [("a",)]}, bounds=3), "`bounds` are given as `upshot.Bounds`"),
        (realizing({"w": [("a",)]}, limit="x"), "`limit` is a positive number"),
        (lambda db: db.repairs({"base": [("a", 2)]}), "`constraint` is the name of a constraint"),
        (lambda db: db.apply(next(db.realize({"other": [("a",)]})), 3), "`values` is a dict of values by placeholder"),
        (lambda db: db.apply(next(db.realize({"other": [("a",)]})), {1: 2}), "`values` is a dict"),
        (lambda db: db.why_not("w", ("a",)).text(fixes="x"), "`fixes` must be a non-negative integer"),
        (lambda db: db.why_not("w", ("a",)).text(fixes=-1), "`fixes` must be a non-negative integer"),
        (lambda db: db.why_not("w", ("a",)).json(seconds="x"), "`seconds` must be a non-negative number"),
        (lambda db: db.why_not("w", ("a",)).fixes(frozen=3), "`frozen` is a list"),
        (lambda db: db.why_not("w", ("a",)).fixes(bounds=3), "`bounds` are given as"),
        (lambda db: db.why_not("w", ("a",)).fixes("x"), "`limit` is a positive number"),
    ],
)
def test_a_wrong_argument_is_refused_with_its_cure(wrong: Callable[[upshot.Database], object], said: str) -> None:
    with pytest.raises(upshot.UsageError) as refused:
        wrong(database(PROGRAM))
    assert said in refused.value.message
    assert (refused.value.code, bool(refused.value.help)) == ("wrong-argument", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": "x"},
        {"seconds": None},
        {"seconds": -1},
        {"seconds": float("nan")},
        {"seconds": True},
        {"seconds": 10**400},
        {"rounds": None},
        {"rounds": -1},
        {"rounds": 1.5},
        {"size": -1},
        {"size": "x"},
        {"new_constants": "x"},
        {"new_constants": -1},
        {"constants": 5},
        {"constants": "abc"},
        {"constants": None},
        {"constants": [object()]},
    ],
)
def test_bounds_are_looked_at_when_they_are_made(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(upshot.UsageError, match=f"`{name}` of the bounds must be a") as refused:
        upshot.Bounds(**wrong)
    assert (refused.value.code, "upshot.Bounds(" in refused.value.help) == ("wrong-argument", True)


def test_bounds_take_any_list_of_constants() -> None:
    assert upshot.Bounds(constants=["x", 1]).constants == ("x", 1)
    assert upshot.Bounds(constants={7}) == upshot.Bounds(constants=(7,))


def test_asking_for_nothing_is_refused_and_repairing_nothing_is_not() -> None:
    db = database(PROGRAM)
    for nothing in ({}, {"insert": {"v": []}}, {"insert": {}, "delete": {}}):
        with pytest.raises(upshot.UsageError, match="the request is empty") as refused:
            db.realize(**nothing)  # type: ignore[arg-type]
        assert (refused.value.code, "{" in refused.value.help) == ("empty-request", True)
    assert [way.lines() for way in db.repairs()] == [[]]


def test_rows_that_share_a_key_contradict_each_other_by_that_key() -> None:
    with pytest.raises(upshot.UsageError) as refused:
        database(PROGRAM).realize({"base": [("a", 2), ("a", 3)]})
    assert refused.value.code == "request-contradicts"
    assert refused.value.message == (
        '`base("a", 2)` and `base("a", 3)` cannot both hold: they share the key (i) of `base`'
    )


def test_only_base_relations_are_offered_for_an_unknown_name() -> None:
    with pytest.raises(upshot.UsageError) as refused:
        database(PROGRAM).realize({"w": [("a",)]}, frozen=["zzz"])
    assert refused.value.help == "the relations are `base`, `other`"
    with pytest.raises(upshot.UsageError, match="did you mean `base`"):
        database(PROGRAM).realize({"w": [("a",)]}, cost={"+bsae": 2})


def test_repairs_are_of_transactions_and_those_change_base_relations() -> None:
    with pytest.raises(upshot.UsageError, match=r"`db\.realize`") as refused:
        database(PROGRAM).repairs(insert={"v": [("b", 1)]})
    assert refused.value.code == "not-a-base-relation"


def test_a_placeholder_looks_like_its_name() -> None:
    way = next(database(PROGRAM).realize({"w": [("b",)]}, bounds=upshot.Bounds(size=2)))
    assert repr(dict(way.insert)) == "{'base': (('b', ?1),), 'other': (('b',),)}"


def test_while_the_search_goes_on_the_reason_says_so() -> None:
    found = database(PROGRAM).realize({"w": [("b",)]}, limit=1)
    assert next(found).size == 2
    assert (found.status, found.reason) == ("more", "the search has not ended: there may be more")


def test_one_of_a_kind_is_told_in_the_singular() -> None:
    found = database(PROGRAM).realize({"w": [("b",)]}, bounds=upshot.Bounds(size=1))
    assert (list(found), found.reason) == ([], "none found within 1 change")
    assert "1 attempt>" in repr(database(PROGRAM).why_not("w", ("b",)))


@pytest.mark.parametrize(
    ("relation", "pattern", "words"),
    [
        ("q", 'q("a")', '"a" is not a value of type `number`'),
        ("q", "q(1.5)", "1.5 is not a value of type `number`"),
        ("q", "q(true)", "true is not a value of type `number`"),
        ("q", "q(null)", "null is in no column without `?`"),
        ("u", 'u("a", _)', '"a" is not a value of type `unsigned`'),
        ("u", 'u(_, "a")', '"a" is not a value of type `float`'),
    ],
)
def test_a_pattern_with_a_constant_of_another_type_is_refused_at_once(relation: str, pattern: str, words: str) -> None:
    db = upshot.connect()
    db.define(".decl q(x: number)  .decl u(x: unsigned, y: float)")
    with pytest.raises(upshot.UsageError) as caught:
        db.realize(delete={relation: pattern})
    assert caught.value.code == "wrong-argument"
    assert words in caught.value.message


def test_null_in_a_pattern_names_the_rows_with_null() -> None:
    db = upshot.connect()
    db.define(".decl n(x: number?)  .decl v(y: number, x: number?)  v(1, X) :- n(X).")
    with db.transaction() as tx:
        tx.insert("n", [(None,), (1,)])
    for relation, pattern in (("n", "n(null)"), ("v", "v(_, null)")):
        (way, *_) = db.realize(delete={relation: pattern})
        assert {name: set(rows) for name, rows in way.delete.items()} == {"n": {(None,)}}
