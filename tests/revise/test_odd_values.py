"""Values that are easily forgotten: those that are computed before they are folded, the ends of types, NaN."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

import upshot
from upshot import Bounds

Rows = dict[str, list[tuple[object, ...]]]


def found(
    program: str, insert: Rows | None = None, delete: Rows | None = None, **bounds: int
) -> tuple[dict[str, tuple[str, ...]], str]:
    """The realizations with their conditions, and whether these are all."""
    with upshot.connect() as db:
        db.define(program)
        ways = db.realize(insert, delete, bounds=Bounds(**bounds))
        return {" ".join(way.lines()): way.conditions for way in ways}, ways.status


FOLDED = """
.decl e(y: number)
.decl w(x: number)
.decl m(n: number)
.decl v(k: number)
w(X) :- e(Y), {}.
m(N) :- N = {} X : {{ w(X) }}.
v(1) :- m(N), {}.
e({}).
"""


@pytest.mark.parametrize(
    ("equation", "function", "asked", "stored", "way", "conditions"),
    [
        ("X = 2*Y", "min", "N < 20", 50, "+e(?1)", ("?1 < 10",)),
        ("X = 2*Y + 1", "max", "N > 10, N < 20", 1, "+e(?1)", ("?1 >= 5", "?1 <= 9")),
        ("X = Y, Y > 1", "min", "N < 5", 7, "+e(?1)", ("?1 > 1", "?1 < 5")),
    ],
)
def test_new_values_are_found_for_what_is_computed_before_it_is_folded(
    equation: str, function: str, asked: str, stored: int, way: str, conditions: tuple[str, ...]
) -> None:
    ways, status = found(FOLDED.format(equation, function, asked, stored), {"v": [(1,)]})
    assert set(ways[way]) == set(conditions)
    assert status in ("all", "bounds reached")


def test_a_row_that_is_computed_comes_to_an_empty_group() -> None:
    program = FOLDED.format("X = Y, Y > 1", "min", "N != 0", 7).replace("e(7).", "")
    assert found(program, {"v": [(1,)]}) == ({"+e(?1)": ("?1 > 1",)}, "all")


def test_values_that_cannot_be_worked_back_are_not_called_impossible() -> None:
    program = """
    .decl e(x: symbol)
    .decl m(n: number)
    .decl v(k: number)
    m(N) :- N = max L : { e(X), L = strlen(X) }.
    v(1) :- m(N), N > 3, N < 6.
    e("ab").
    """
    ways, status = found(program, {"v": [(1,)]})
    assert ways or status == "bounds reached"


ONE = """
.decl e(x: {})
.decl v(k: number)
v(1) :- e(X), X {}.
"""


@pytest.mark.parametrize("bound", ["> 1e+18", "< -1e+18", "> 1e+308"])
def test_new_values_lie_beyond_floats_that_are_further_apart_than_one(bound: str) -> None:
    assert found(ONE.format("float", bound), {"v": [(1,)]}) == ({"+e(?1)": (f"?1 {bound}",)}, "all")


@pytest.mark.parametrize(
    ("type", "bound"),
    [
        ("timestamp", '> timestamp("9999-01-01T00:00:00Z")'),
        ("timestamp", '< timestamp("0001-06-01T00:00:00Z")'),
        ("date", '> date("9999-12-29")'),
        ("date", '< date("0001-01-03")'),
    ],
)
def test_new_values_may_be_the_first_and_the_last_of_their_type(type: str, bound: str) -> None:
    assert found(ONE.format(type, bound), {"v": [(1,)]}) == ({"+e(?1)": (f"?1 {bound}",)}, "all")


def test_a_mean_is_shown_as_a_division_that_keeps_fractions() -> None:
    program = """
    .decl e(x: number)
    .decl t(x: float)
    .decl v(k: number)
    t(S) :- S = mean X : { e(X) }.
    v(1) :- t(S), S > 10.0.
    e(1).
    """
    with upshot.connect() as db:
        db.define(program)
        texts = [way.text() for way in db.realize({"v": [(1,)]})]
    assert any("+t((?1 + 1) / 2.0)" in text for text in texts)


NANS = """
.decl e(x: float)
.decl f(x: float)
.decl v(x: float)
.decl both(x: float)
.decl other(x: float)
.decl twice(x: float)
.decl pair(x: float, y: float)
v(X) :- e(X).
both(X) :- e(X), f(X).
other(X) :- e(X), !f(X).
twice(X) :- pair(X, X).
"""


@pytest.mark.parametrize(
    ("stored", "insert", "delete", "changes"),
    [
        ("", "v", "", ["+e((0.0 / 0.0))"]),
        ("e", "", "v", ["-e((0.0 / 0.0))"]),
        ("e", "both", "", ["+f((0.0 / 0.0))"]),
        ("ef", "other", "", ["-f((0.0 / 0.0))"]),
        ("", "twice", "", ["+pair((0.0 / 0.0), (0.0 / 0.0))"]),
    ],
)
def test_nan_equals_itself_in_what_is_asked_for(stored: str, insert: str, delete: str, changes: list[str]) -> None:
    with upshot.connect() as db:
        db.define(NANS)
        with db.transaction() as transaction:
            for name in stored:
                transaction.insert(name, [(float("nan"),)])
        row = [(float("nan"),)]
        ways = db.realize({insert: row} if insert else None, {delete: row} if delete else None)
        found = list(ways)
    assert [way.lines() for way in found] == [changes]
    assert ways.status == "all"
    assert f"// goal: {'+' if insert else '-'}{insert or delete}((0.0 / 0.0))" in found[0].text()


@pytest.mark.parametrize(
    ("computed", "bound", "conditions"),
    [("Y - 1", 5, ("?1 >= 1u", "?1 < 6u")), ("(Y - 3) + 10", 15, ("?1 >= 3u", "?1 < 8u"))],
)
def test_what_is_computed_of_unsigned_numbers_is_not_below_0(
    computed: str, bound: int, conditions: tuple[str, ...]
) -> None:
    program = f"""
    .decl e(y: unsigned)
    .decl w(x: unsigned)
    .decl v(k: number)
    w(X) :- e(Y), X = {computed}.
    v(1) :- w(X), X < {bound}.
    """
    assert found(program, {"v": [(1,)]}) == ({"+e(?1)": conditions}, "all")


def test_values_that_were_made_up_are_not_told_as_what_stands_in_the_way() -> None:
    program = """
    .decl e(a: number, b: number)
    .decl v(a: number, b: number) key(a)
    .decl u(a: number)
    v(A, B) :- e(A, B).
    u(A) :- v(A, B), v(A, C), B < C.
    """
    with upshot.connect() as db:
        db.define(program)
        ways = db.realize({"u": [(1,)]})
        assert list(ways) == []
    assert ways.reason == "none exists: `u(1)` cannot be derived"


def test_a_new_value_that_meets_the_row_of_a_key_is_worked_out_from_that_row() -> None:
    program = """
    .decl b(x: number)
    .decl e(k: number, x: number) key(k)
    .decl v(x: number)
    .decl w(x: number)
    .decl p()
    .decl r()
    v(X) :- b(X), e(1, Y), X = Y - 1.
    w(X) :- e(1, X), X = 9.
    p() :- v(X).
    r() :- w(X).
    b(0).
    """
    with upshot.connect() as db:
        db.define(program)
        ways = db.realize({"p": [()], "r": [()]})
        filled = [way.filled({each.name: 8 for each in way.placeholders})[0] for way in ways]
    assert (filled, ways.status) == ([{"b": [(8,)], "e": [(1, 9)]}], "all")


def test_constants_are_tried_in_columns_of_their_type_only() -> None:
    program = """
        .decl paid(amount: decimal(6,2), on: date, open: boolean, rate: float)
        .decl late()
        late() :- paid(A, D, true, R), A > decimal("1.00"), date_plus_days(D, 1) > date("2026-02-01"), R < 9.5.
    """
    day = datetime.date(2026, 3, 1)
    given = (1, True, 2.5, "x", Decimal("1.255"), Decimal("7.50"), day, datetime.datetime(2026, 1, 1))
    with upshot.connect() as db:
        db.define(program)
        ways = list(db.realize({"late": [()]}, bounds=Bounds(new_constants=0, constants=given)))
    amounts, rates = (Decimal("2.50"), Decimal("7.50")), (1.0, 1.255, 2.5, 7.5)
    assert {way.insert["paid"] for way in ways} == {((a, day, True, r),) for a in amounts for r in rates}
