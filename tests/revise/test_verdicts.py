"""What a search says of itself is proven like what it finds; what it is asked is refused where it says two things."""

from __future__ import annotations

import pytest

import upshot
from tests.revise.test_goldens import database, shown
from upshot.core.errors import UsageError
from upshot.engine.local.kernel.machine import MACHINE

VIEW = ".decl a(x: number) .decl b(x: number) .decl v(x: number) v(X) :- a(X)."
SUMMED = """
    .decl p(i: symbol, v: {0}) .decl q(i: symbol, v: {0}) .decl s(i: symbol, v: {0})
    q(I, V) :- p(I, V){1}.
    s(I, S) :- q(I, _), S = sum V : {{ q(I, V) }}.
"""
COUNTED = ".decl a(x: number) .decl n(c: number) n(C) :- C = count : { a(_) }."
DENIED = VIEW + " .deny lost(X) :- b(X), !a(X)."


def test_a_way_through_what_is_frozen_counts_only_if_the_rules_of_the_database_let_it_pass() -> None:
    db = database(VIEW + " .rule never(X) on insert a(X) do delete a(X).")
    answer = db.realize({"v": [(1,)]}, frozen=["a"])
    assert list(answer) == []
    assert (answer.status, answer.reason) == ("none exists", "none exists: row `v(1)` would not exist")


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


# ---- what no rows can bring about -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "wanted", "reason"),
    [
        (COUNTED, ("n", (-1,)), "`n(-1)` cannot be derived"),
        (
            SUMMED.format("number", ", V <= 10").replace("sum", "max"),
            ("s", ("x", 12)),
            '`s("x", 12)` cannot be derived',
        ),
        (
            ".decl p(i: symbol, v: number) .decl s(i: symbol, v: number) s(I, V) :- p(I, _), V = sum 2 : { p(I, _) }.",
            ("s", ("x", 5)),
            '`s("x", 5)` cannot be derived',
        ),
        (
            ".decl p(i: symbol, v: number) .decl m(i: symbol, v: number) m(I, V) :- p(I, _), V = min X : { p(I, X) }. "
            ".deny dear(I, V) :- p(I, V), V > 10.",
            ("m", ("x", 20)),
            "the constraint `dear` would be violated beyond repair",
        ),
        (
            ".decl e(g: symbol, x: number) key(g) .decl n(g: symbol, c: number) "
            "n(G, C) :- e(G, _), C = count : { e(G, _) }.",
            ("n", ("x", 2)),
            '`n("x", 2)` cannot be derived',
        ),
        (
            ".decl e(g: symbol, x: boolean) .decl n(g: symbol, c: number) n(G, C) :- e(G, _), C = count : { e(G, _) }.",
            ("n", ("x", 3)),
            '`n("x", 3)` cannot be derived',
        ),
    ],
)
def test_what_no_number_of_rows_brings_about_does_not_exist(
    program: str, wanted: tuple[str, tuple[object, ...]], reason: str
) -> None:
    answer = database(program).realize({wanted[0]: [wanted[1]]})
    assert list(answer) == []
    assert (answer.status, answer.reason) == ("none exists", f"none exists: {reason}")


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (SUMMED.format("number", ", V > 2"), ("s", ("x", 2))),
        (SUMMED.format("number", ", V < 0"), ("s", ("x", 5))),
        (COUNTED, ("n", (5,))),
        (COUNTED + " .deny many(N) :- n(N), N > 3.", ("n", (5,))),
        (
            ".decl p(i: symbol, v: number) .decl m(v: number) m(S) :- S = sum V : { p(_, V) }. "
            ".deny much(S) :- m(S), S > 10.",
            ("m", (20,)),
        ),
    ],
)
def test_where_more_rows_than_new_values_might_do_a_bound_ends_the_search(
    program: str, wanted: tuple[str, tuple[object, ...]]
) -> None:
    answer = database(program).realize({wanted[0]: [wanted[1]]})
    assert list(answer) == []
    assert answer.status == "bounds reached"


@pytest.mark.parametrize("frozen", ["p", "+p"])
def test_a_mean_of_a_group_that_stays_empty_is_only_through_frozen(frozen: str) -> None:
    program = ".decl g(i: symbol) .decl p(i: symbol, v: number) .decl m(i: symbol, v: float)"
    program += " m(I, V) :- g(I), V = mean X : { p(I, X) }."
    answer = database(program, g=[("x",)]).realize({"m": [("x", 3.0)]}, frozen=[frozen])
    assert list(answer) == []
    assert answer.status == "only through frozen"


# ---- what was left out, and what was not ------------------------------------------------------------------------


def test_a_sum_of_unsigned_numbers_that_is_to_be_0_has_one_way() -> None:
    answer = database(SUMMED.format("unsigned", ""), p=[("x", 3)]).realize({"s": [("x", 0)]})
    assert shown(answer) == [{'-p("x", 3u)', '+p("x", 0u)'}]
    assert answer.status == "bounds reached"


def test_the_values_of_a_sum_that_were_tried_are_said_once() -> None:
    answer = database(SUMMED.format("number", "")).realize({"s": [("x", 7)]})
    assert shown(answer) == [{'+p("x", 7)'}]
    assert answer.reason == "1 found within the values of `p.v` that were tried: a sum can use other values"


def test_a_sum_that_is_not_asked_about_leaves_nothing_out() -> None:
    program = SUMMED.format("number", "") + " .decl e(x: number, y: number) .decl w(x: number) .decl z(x: number)"
    program += " w(X) :- e(X, _). z(X) :- e(_, X)."
    answer = database(program).realize({"w": [(1,)], "z": [(2,)]})
    assert {"+e(1, 2)"} in shown(answer)
    assert answer.status == "all"


EITHER = ".decl a(x: number) .decl b(x: number) .decl t() t() :- a(1). "


def test_changes_that_contain_a_smaller_way_are_not_left_out() -> None:
    answer = database(EITHER + "t() :- a(1), b(1).").realize({"t": [()]}, bounds=upshot.Bounds(size=1))
    assert (shown(answer), answer.status) == ([{"+a(1)"}], "all")


def test_changes_that_are_too_many_are_left_out() -> None:
    answer = database(EITHER + "t() :- a(2), b(1).").realize({"t": [()]}, bounds=upshot.Bounds(size=1))
    assert (shown(answer), answer.reason) == ([{"+a(1)"}], "1 found within 1 change")
    none = database(EITHER).realize({"t": [()], "b": [(7,)]}, bounds=upshot.Bounds(size=1))
    assert (shown(none), none.reason) == ([], "none found within 1 change")
    rows = database(EITHER).realize({"b": [(7,), (8,)]}, bounds=upshot.Bounds(size=1))
    assert (shown(rows), rows.reason) == ([], "none found within 1 change")


@pytest.mark.parametrize("test", ["X > 5, X < 4", "X > 5, X < 6", "X = 5, X > 7"])
def test_comparisons_that_no_value_meets_are_no_bound(test: str) -> None:
    answer = database(f".decl a(x: number) .decl t() t() :- a(X), {test}.").realize({"t": [()]})
    assert list(answer) == []
    assert (answer.status, answer.reason) == ("none exists", "none exists: `t()` cannot be derived")


def test_a_change_beyond_a_limit_of_the_engine_is_left_out() -> None:
    db = upshot.connect(max_rounds=50)
    db.define(".decl a(x: number) .decl b(x: number) .decl n(x: number) .decl v(x: number)")
    db.define("n(X) :- a(X). n(X + 1) :- n(X), X < 1000. v(X) :- a(X). v(X) :- b(X).")
    answer = db.realize({"v": [(1,)]})
    assert shown(answer) == [{"+b(1)"}]
    assert answer.status == "bounds reached"
    assert "`n` was still growing after 50 rounds" in answer.reason


def test_the_time_that_is_given_still_ends_a_search() -> None:
    answer = database(VIEW).realize({"v": [(1,)]}, bounds=upshot.Bounds(seconds=0))
    assert list(answer) == []
    assert answer.reason == "none found within 0 seconds"


def test_time_that_went_into_machine_code_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    found = database(VIEW).realize({"v": [(1,)]}, bounds=upshot.Bounds(seconds=0))
    monkeypatch.setattr(MACHINE, "seconds_waited", MACHINE.seconds_waited + 8)
    assert list(found) == []
    assert found.reason == (
        "none found within 0 seconds; compiling the engine, which is done once, took 8 seconds: repeat the request"
    )
    small = database(VIEW).realize({"v": [(1,), (2,)]}, bounds=upshot.Bounds(size=1))
    assert (list(small), small.reason) == ([], "none found within 1 change")
