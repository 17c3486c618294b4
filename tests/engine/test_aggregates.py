"""Aggregates follow random changes of their groups exactly: every function, every type it takes."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from tests.engine.driver import Driver
from tests.properties.settings import base_seed
from upshot.engine.local.components.aggregates import AggregateView

DAY = dt.date(2026, 1, 1)
INSTANT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
VALUES: dict[str, list[Any]] = {
    "number": [0, 1, -1, 7, 2**40, -(2**40)],
    "unsigned": [0, 1, 7, 2**61, 2**61 + 1],
    "float": [0.0, -0.0, 0.1, 0.2, 0.3, -0.1, 1e16, 1.0, -1e16, 1e308, 5e-324, math.inf, -math.inf, math.nan],
    "symbol": ["", "a", "b", "Z", "é", "🦀", "\uffff", "aa"],
    "boolean": [True, False],
    "date": [DAY + dt.timedelta(days=i) for i in range(-2, 3)],
    "timestamp": [INSTANT + dt.timedelta(microseconds=i) for i in range(-2, 3)],
    "decimal(10,2)": [Decimal("0.00"), Decimal("0.01"), Decimal("-1.50"), Decimal("99999999.99")],
}
SUMS = ("number", "unsigned", "float", "decimal(10,2)")
MEANS = ("number", "unsigned", "float")
ORDERED = ("number", "unsigned", "float", "symbol", "date", "timestamp", "decimal(10,2)")
CASES = [
    *((function, type) for type in ORDERED for function in ("min", "max")),
    *(("sum", type) for type in SUMS),
    *(("mean", type) for type in MEANS),
    *(("count", type) for type in ("number", "symbol", "boolean")),
]


def program(function: str, type: str, *, nullable: bool) -> str:
    """The aggregate per group, for groups asked from outside, and over all rows."""
    result = {"count": "number", "mean": "float"}.get(function, type)
    if function == "sum" and type.startswith("decimal"):
        result = "decimal(18,2)"
    target = "" if function == "count" else " X"
    value = type + "?" * nullable
    return f"""
    .decl r(g: number, i: number, x: {value})
    .decl wanted(g: number)
    .decl each(g: number, v: {result})
    .decl asked(g: number, v: {result})
    .decl all(v: {result})
    .decl some(v: {result})
    each(G, V) :- r(G, _, _), V = {function}{target} : {{ r(G, _, X) }}.
    asked(G, V) :- wanted(G), V = {function}{target} : {{ r(G, I, X), I > 0 }}.
    all(V) :- V = {function}{target} : {{ r(_, _, X) }}.
    some(V) :- each(G, V), wanted(G).
    """


def follow(it: Driver, values: Sequence[Any], seed: int, steps: int = 12) -> None:
    """Random transactions, some undone; after each the views are what the oracle says and the deltas what changed."""
    rng = random.Random(seed)
    before = it.expected()
    for _ in range(steps):
        held = sorted(it.rows("r"), key=repr)
        gone = [row for row in held if rng.random() < rng.choice((0.1, 0.5, 1.0))]
        come = [(rng.randint(0, 2), rng.randint(0, 3), rng.choice(values)) for _ in range(rng.randint(0, 4))]
        for name, rows in (("r", gone), ("wanted", [(rng.randint(0, 2),)])):
            it.engine.delete(name, rows)
        it.engine.insert("r", come)
        it.engine.insert("wanted", [(rng.randint(0, 3),) for _ in range(rng.randint(0, 2))])
        if rng.random() < 0.25:
            it.engine.propagate()
            it.engine.rollback()
        else:
            deltas = it.commit()
            after = it.expected()
            for view, rows in after.items():
                assert deltas.get(view, (set(), set())) == (rows - before[view], before[view] - rows)
            before = after
        it.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
@pytest.mark.parametrize(("function", "type"), CASES, ids=[f"{function}-{type}" for function, type in CASES])
def test_an_aggregate_follows_random_changes(function: str, type: str, nullable: bool) -> None:
    values = VALUES[type] + [None] * nullable
    for seed in range(3):
        follow(Driver(program(function, type, nullable=nullable)), values, seed)


def test_sums_of_floats_do_not_depend_on_the_order_of_changes() -> None:
    text = ".decl r(i: number, x: float) .decl s(x: float) .decl m(x: float)\n"
    text += "s(S) :- S = sum X : { r(_, X) }. m(S) :- S = mean X : { r(_, X) }."
    values = [0.1, 1e16, 0.2, -1e16, 0.3, 1e308, 1e308, -1e308, -1e308]
    rng = random.Random(3)
    for _ in range(20):
        order = [*enumerate(values)]
        rng.shuffle(order)
        it = Driver(text)
        for row in order:
            it.insert("r", row)
        assert it.rows("s") == {(math.fsum([0.1, 0.2, 0.3]),)}
        assert it.rows("m") == {(math.fsum([0.1, 0.2, 0.3]) / 9,)}


def test_infinities_and_nan_come_and_go() -> None:
    it = Driver(".decl r(x: float) .decl s(x: float) s(S) :- S = sum X : { r(X) }.")
    steps: list[tuple[str, float, float]] = [
        ("+", 1.5, 1.5),
        ("+", math.inf, math.inf),
        ("+", -math.inf, math.nan),
        ("-", math.inf, -math.inf),
        ("+", math.nan, math.nan),
        ("-", -math.inf, math.nan),
        ("-", math.nan, 1.5),
        ("-", 1.5, 0.0),
    ]
    for sign, value, total in steps:
        (it.insert if sign == "+" else it.delete)("r", (value,))
        ((found,),) = it.rows("s")
        assert found == total or (math.isnan(found) and math.isnan(total))


def test_the_next_extreme_is_found_when_the_extreme_goes() -> None:
    it = Driver(
        """
        .decl r(g: number, x: number) .decl low(g: number, x: number) .decl high(g: number, x: number)
        low(G, V) :- r(G, _), V = min X : { r(G, X) }.
        high(G, V) :- r(G, _), V = max X : { r(G, X) }.
        """
    )
    it.insert("r", *[(g, x) for g in (1, 2) for x in range(10)])
    for x in range(9):
        assert it.delete("r", (1, x))["low"] == ({(1, x + 1)}, {(1, x)})
    assert it.delete("r", (1, 9)) == {
        "r": (set(), {(1, 9)}),
        "low": (set(), {(1, 9)}),
        "high": (set(), {(1, 9)}),
    }
    changes = it.change(delete={"r": [(2, 0), (2, 9)]}, insert={"r": [(2, -5), (2, 5), (1, 3)]})
    assert changes["low"] == ({(2, -5), (1, 3)}, {(2, 0)})
    assert changes["high"] == ({(2, 8), (1, 3)}, {(2, 9)})


@pytest.mark.parametrize("type", ["number", "symbol", "float", "number?"])
def test_extremes_of_a_large_group_follow_random_changes_and_rollbacks(type: str) -> None:
    """Groups with more rows than leaders: values that recur, deletions from both ends, insertions beyond them."""
    draw = random.Random(base_seed())
    make = {"symbol": str, "float": lambda x: x / 4}.get(type, int)
    it = Driver(
        f"""
        .decl r(i: number, x: {type}) .decl low(x: {type.rstrip("?")}) .decl high(x: {type.rstrip("?")})
        low(V) :- r(_, _), V = min X : {{ r(_, X) }}.
        high(V) :- r(_, _), V = max X : {{ r(_, X) }}.
        """
    )
    rows = {(i, make(draw.randrange(400))) for i in range(1000)}
    it.insert("r", *rows)
    for step in range(120):
        if len(rows) <= 20:
            break
        ends = sorted(rows, key=lambda row: row[1])
        gone = draw.choice((ends[:20], ends[-20:], draw.sample(ends, 5)))
        come = {(1000 * (step + 1) + k, make(draw.randrange(-5, 410))) for k in range(draw.choice((0, 3, 18)))}
        rows = (rows - set(gone)) | come
        if step % 4 == 0:
            it.engine.delete("r", gone)
            it.engine.propagate()
            it.engine.rollback()
        it.change(delete={"r": gone}, insert={"r": list(come)})
        assert it.rows("low") == {(min(x for _, x in rows),)}
        assert it.rows("high") == {(max(x for _, x in rows),)}


def test_deleting_extremes_of_a_large_group_reads_its_rows_once_for_many_deletions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = []
    usual = AggregateView._rows_of
    monkeypatch.setattr(AggregateView, "_rows_of", lambda *args: read.append(args[1]) or usual(*args))
    it = Driver(".decl r(x: number) .decl high(x: number) high(V) :- r(_), V = max X : { r(X) }.")
    it.insert("r", *[(x,) for x in range(10_000)])
    for x in range(300):
        assert it.delete("r", (9_999 - x,))["high"] == ({(9_998 - x,)}, {(9_999 - x,)})
    assert len(read) <= 4


def test_only_touched_groups_are_looked_at() -> None:
    it = Driver(
        ".decl r(g: number, x: number) .decl s(g: number, x: number) s(G, V) :- r(G, _), V = sum X : { r(G, X) }."
    )
    it.insert("r", *[(g, x) for g in range(300) for x in range(3)])
    deltas = it.change(insert={"r": [(5, 100), (7, 1)]}, delete={"r": [(9, 2)]})
    assert deltas["s"] == ({(5, 103), (9, 1)}, {(5, 3), (9, 3)})
    for name, work in it.work.views.items():
        assert work.derived <= 8, name


def test_an_aggregate_over_a_recursive_view_and_a_view_over_the_aggregate() -> None:
    it = Driver(
        """
        .decl edge(x: number, y: number) .decl path(x: number, y: number)
        .decl reach(x: number, n: number) .decl most(n: number) .decl hub(x: number)
        path(X, Y) :- edge(X, Y). path(X, Y) :- edge(X, Z), path(Z, Y).
        reach(X, N) :- edge(X, _), N = count : { path(X, _) }.
        most(N) :- N = max M : { reach(_, M) }.
        hub(X) :- reach(X, N), most(N).
        """
    )
    rng = random.Random(11)
    for _ in range(20):
        rows = [(rng.randint(0, 8), rng.randint(0, 8)) for _ in range(3)]
        it.change(insert={"edge": rows}, delete={"edge": [(rng.randint(0, 8), rng.randint(0, 8)) for _ in range(6)]})
        it.assert_exact()


def test_constant_targets_and_several_aggregates_in_one_rule() -> None:
    it = Driver(
        """
        .decl r(g: number, x: number) .decl s(g: number, a: number, b: number, c: number) .decl t(n: number)
        s(G, A, B, C) :- r(G, _), A = sum 2 : { r(G, _) }, B = count : { r(_, G) }, C = max 7 : { r(G, _) }.
        t(N) :- N = count : { r(X, Y), r(Y, X) }.
        """
    )
    rng = random.Random(5)
    for _ in range(15):
        some = [(rng.randint(0, 3), rng.randint(0, 3)) for _ in range(4)]
        it.change(insert={"r": some[:2]}, delete={"r": some[2:]})
        it.assert_exact()


@pytest.mark.parametrize("width", [1, 5, 17, 18, 20])
def test_groups_of_many_columns_are_told_apart(width: int) -> None:
    columns = ", ".join(f"c{i}: number" for i in range(width))
    names = ", ".join(f"X{i}" for i in range(width))
    it = Driver(
        f".decl r({columns}, v: number) .decl m({columns}, v: number)\n"
        f"m({names}, V) :- r({names}, _), V = min X : {{ r({names}, X) }}."
    )
    here, there = (0,) * width, (0,) * (width - 1) + (1,)
    it.insert("r", (*here, 1), (*here, 5), (*there, -3), (*there, 9))
    it.delete("r", (*here, 1))
    it.assert_exact()


def test_a_group_of_nothing_but_null_has_a_count_and_no_extreme() -> None:
    it = Driver(
        """
        .decl r(g: number, i: number, x: number?) .decl n(g: number, n: number) .decl m(g: number, x: number)
        .decl s(g: number, x: number)
        n(G, N) :- r(G, _, _), N = count : { r(G, _, _) }.
        m(G, N) :- r(G, _, _), N = min X : { r(G, _, X) }.
        s(G, N) :- r(G, _, _), N = sum X : { r(G, _, X) }.
        """
    )
    it.insert("r", (1, 1, None), (1, 2, None))
    assert (it.rows("n"), it.rows("m"), it.rows("s")) == ({(1, 2)}, set(), {(1, 0)})
    it.insert("r", (1, 3, 4))
    assert it.rows("m") == {(1, 4)}
    it.delete("r", (1, 3, 4), (1, 1, None))
    assert (it.rows("n"), it.rows("m"), it.rows("s")) == ({(1, 1)}, set(), {(1, 0)})
    it.delete("r", (1, 2, None))
    assert (it.rows("n"), it.rows("m"), it.rows("s")) == (set(), set(), set())
    it.insert("r", (1, 1, 9), (1, 2, None))
    assert (it.rows("n"), it.rows("m"), it.rows("s")) == ({(1, 2)}, {(1, 9)}, {(1, 9)})
