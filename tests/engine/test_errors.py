"""Errors in the middle of a change: they name the rule, and after the rollback nothing has happened."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tests.engine.driver import Driver, plan_of
from tests.engine.kernels import both_forms, kernel
from tests.properties.strategies import STRATEGIES
from upshot.core.errors import DataError, EngineError, Error, LimitError, OverflowError_, UsageError

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)

FAILING: list[tuple[str, str, str, Any, Any]] = [
    # what fails, its type, the code, a value that is fine, one that is not
    ("Y = X * X", "number", "overflow", 3, 2**33),
    ("Y = X + 1", "number", "overflow", 3, 2**63 - 1),
    ("Y = X - 2", "number", "overflow", 3, -(2**63)),
    ("Y = -X", "number", "overflow", 3, -(2**63)),
    ("Y = X ^ 40", "number", "overflow", 2, 3),
    ("Y = 10 / X", "number", "division-by-zero", 3, 0),
    ("Y = X / -1", "number", "overflow", 3, -(2**63)),
    ("Y = 10 % X", "number", "division-by-zero", 3, 0),
    ("Y = 2 ^ X", "number", "negative-exponent", 3, -1),
    ("Y = X - 5u", "unsigned", "overflow", 7, 3),
    ("Y = X + 1u", "unsigned", "overflow", 7, 2**64 - 1),
    ("Y = X / 0u", "unsigned", "division-by-zero", None, 3),
    ("Y = X * X", "decimal(18,0)", "overflow", Decimal(3), Decimal(10**10)),
    ("Y = X + X", "decimal(18,2)", "overflow", Decimal("1.50"), Decimal(10**16 - 1)),
]


def program(failing: str, type: str, strategy: str) -> str:
    return f"""
    .decl r(x: {type})
    .decl p(x: {type})
    .decl above(x: {type})
    .decl n(n: number)
    .view p strategy={strategy}
    .view above strategy={strategy}
    above(X) :- r(X).
    n(N) :- N = count : {{ r(_) }}.
    p(Y) :- r(X), {failing}.
    """


@every_strategy
@pytest.mark.parametrize(
    ("failing", "type", "code", "good", "bad"), FAILING, ids=[f"{failing} {code}" for failing, _, code, _, _ in FAILING]
)
def test_a_value_that_cannot_be_computed_ends_the_change(
    failing: str, type: str, code: str, good: Any, bad: Any, strategy: str
) -> None:
    it = Driver(program(failing, type, strategy))
    if good is not None:
        it.insert("r", (good,))
    before = it.state()
    it.engine.insert("r", [(bad,)])
    with pytest.raises(DataError) as caught:
        it.engine.propagate()
    it.engine.rollback()
    error = caught.value
    assert error.code == code
    assert isinstance(error, OverflowError_) == (code == "overflow")
    assert error.span is not None
    assert error.span.source.text[error.span.start : error.span.end] == f"p(Y) :- r(X), {failing}."
    assert error.help
    assert it.state() == before
    if good is not None:
        it.delete("r", (good,))
        it.insert("r", (good,))
    it.assert_exact()


@both_forms
def test_the_message_names_the_rule(form: str) -> None:
    with kernel(form):
        it = Driver(".decl r(x: number) .decl p(x: number, y: number) p(X, Y) :- r(X), Y = 6 / X.")
        it.engine.insert("r", [(0,)])
        with pytest.raises(DataError, match=r"`p\(X, Y\)`"):
            it.engine.propagate()
        it.engine.rollback()


@pytest.mark.parametrize(
    ("text", "value", "code"),
    [
        ("Y = strlen(X), Z = to_number(X)", "7a", "not-a-number"),
        ("Z = to_number(X)", "1_000", "not-a-number"),
        ("Z = to_number(X)", "7 x", "not-a-number"),
        ("Z = to_number(X)", "\N{ARABIC-INDIC DIGIT SEVEN}", "not-a-number"),
        ("Z = to_number(X)", "9223372036854775808", "overflow"),
        ('match(X, "a"), Z = 1', "(", "bad-pattern"),
        ('match(X, "a"), Z = 1', "a" * 2000, "bad-pattern"),
    ],
)
def test_text_that_cannot_be_read_ends_the_change(text: str, value: str, code: str) -> None:
    it = Driver(f".decl r(x: symbol) .decl p(x: number) p(Z) :- r(X), {text}.")
    it.insert("r", ("7",))
    before = it.state()
    it.engine.insert("r", [(value,)])
    with pytest.raises(DataError) as caught:
        it.engine.propagate()
    it.engine.rollback()
    assert caught.value.code == code
    assert caught.value.span is not None
    assert it.state() == before


@pytest.mark.parametrize(
    ("type", "fine", "much"),
    [("number", 1, 2**62), ("unsigned", 1, 2**63), ("decimal(18,2)", Decimal(1), Decimal(9 * 10**15))],
)
def test_a_sum_that_leaves_its_range_ends_the_change(type: str, fine: Any, much: Any) -> None:
    it = Driver(f".decl r(i: number, x: {type}) .decl s(x: {type}) s(S) :- S = sum X : {{ r(_, X) }}.")
    it.insert("r", (0, fine), (1, much))
    before = it.state()
    it.engine.insert("r", [(2, much)])
    with pytest.raises(OverflowError_) as caught:
        it.engine.propagate()
    it.engine.rollback()
    assert caught.value.code == "overflow"
    assert caught.value.span is not None
    assert it.state() == before
    it.change(delete={"r": [(1, much)]}, insert={"r": [(2, much)]})
    it.assert_exact()


# ---- undoing a change that broke off anywhere --------------------------------------------------


class Broken(Exception):
    pass


CLOSURES = """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
.decl odd(x: number)
.decl even(x: number)
.decl out(x: number, n: number)
.decl apart(x: number)
closure(X, Y) :- edge(X, Y).
closure(X, Y) :- edge(X, Z), closure(Z, Y).
even(0) :- edge(_, _).
odd(Y) :- even(X), edge(X, Y).
even(Y) :- odd(X), edge(X, Y).
out(X, N) :- edge(X, _), N = count : { closure(X, _) }.
apart(X) :- edge(X, _), !closure(X, X).
"""
RING = [(i, (i + 1) % 7) for i in range(7)]


@both_forms
@pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute", "production"])
def test_a_change_that_breaks_off_in_any_round_of_any_stage_can_be_undone(strategy: str, form: str) -> None:
    options = "\n".join(f".view {view} strategy={strategy}" for view in ("closure", "odd", "even"))
    with kernel(form):
        it = Driver(CLOSURES + options)
        it.insert("edge", *RING, (3, 3), (2, 9), (9, 4))
        before = it.state()
        stages: set[str] = set()
        for number in range(1, 100):
            breaker = _Breaker(number)
            it.engine._runner.trace = breaker
            it.engine.delete("edge", [(2, 3), (0, 1)])
            it.engine.insert("edge", [(2, 5), (11, 0)])
            try:
                it.engine.propagate()
            except Broken:
                it.engine.rollback()
                stages.add(breaker.stage)
                assert it.state() == before
                continue
            it.engine.accept()
            break
        it.engine._runner.trace = None
        it.assert_exact()
        assert number > 4
        assert stages >= ({"delete", "rederive", "insert"} if strategy == "maintenance" else {"insert"})


class _Breaker:
    """Raises at the end of the round with this number, whatever the stage."""

    def __init__(self, number: int) -> None:
        self.left, self.stage = number, ""

    def __call__(self, stage: str) -> None:
        self.left -= 1
        self.stage = stage
        if self.left == 0:
            raise Broken


@every_strategy
def test_views_already_brought_up_to_date_are_undone_with_the_rest(strategy: str) -> None:
    it = Driver(program("Y = 100 / X", "number", strategy) + ".decl q(x: number) q(X) :- p(X), !above(X).")
    it.insert("r", (1,), (10,))
    before = it.state()
    for change in ([(5,), (0,)], [(0,)], [(10,), (0,)]):
        it.engine.delete("r", [(1,)])
        it.engine.insert("r", change)
        with pytest.raises(DataError):
            it.engine.propagate()
        it.engine.rollback()
        assert it.state() == before
    it.change(delete={"r": [(1,)]}, insert={"r": [(5,)]})
    it.assert_exact()


def test_a_rollback_before_propagation_undoes_the_statements() -> None:
    it = Driver(CLOSURES)
    it.insert("edge", *RING)
    before = it.state()
    it.engine.insert("edge", [(8, 9)])
    it.engine.delete("edge", RING)
    it.engine.replace("edge", [(1, 1)])
    it.engine.rollback()
    assert it.state() == before
    it.engine.rollback()
    it.delete("edge", (6, 0))
    it.assert_exact()


def test_a_propagated_change_can_still_be_undone() -> None:
    it = Driver(CLOSURES)
    it.insert("edge", *RING)
    before = it.state()
    for _ in range(3):
        it.engine.delete("edge", RING[:3])
        it.engine.insert("edge", [(2, 2)])
        deltas = it.engine.propagate()
        assert len(deltas["closure"][1]) > 0
        it.engine.rollback()
        assert it.state() == before
    assert it.delete("edge", RING[0])["closure"][1]
    it.assert_exact()


def test_a_statement_that_fails_applies_nothing_and_the_others_stay() -> None:
    it = Driver(".decl r(x: number, t: symbol) .decl p(x: number) p(X) :- r(X, _).")
    it.engine.insert("r", [(1, "a")])
    for rows in ([(2, "b"), (3, 4)], [(2, "b"), (2**63, "c")], [(2, "b"), (None, "c")], [(2, "b", 1)]):
        with pytest.raises(DataError):
            it.engine.insert("r", rows)
        with pytest.raises(DataError):
            it.engine.delete("r", [(1, "a"), *rows])
        with pytest.raises(DataError):
            it.engine.replace("r", rows)
    it.commit()
    assert it.rows("r") == {(1, "a")}
    assert it.rows("p") == {(1,)}


def test_upsert_without_a_key_is_refused() -> None:
    it = Driver(".decl r(x: number)")
    with pytest.raises(UsageError) as caught:
        it.engine.upsert("r", [(1,)])
    assert caught.value.code == "no-key"
    assert "key(x)" in caught.value.help


# ---- limits -----------------------------------------------------------------------------------

ENDLESS = ".decl start(x: number) .decl n(x: number) n(X) :- start(X). n(Y) :- n(X), Y = X + 1."


@both_forms
def test_recursion_without_end_stops_at_the_limit_and_names_the_view(form: str) -> None:
    with kernel(form):
        it = Driver(ENDLESS, max_rounds=200)
        before = it.state()
        it.engine.insert("start", [(1,)])
        with pytest.raises(LimitError) as caught:
            it.engine.propagate()
        it.engine.rollback()
        assert caught.value.code == "recursion-limit"
        assert "`n`" in caught.value.message
        assert "200 rounds" in caught.value.message
        assert "max_rounds" in caught.value.help
        assert it.state() == before


def test_the_limit_bounds_changes_as_well_as_loads() -> None:
    it = Driver(CLOSURES, max_rounds=20)
    it.insert("edge", *[(i, i + 1) for i in range(12)])
    before = it.state()
    it.engine.insert("edge", [(i, i + 1) for i in range(12, 40)])
    with pytest.raises(EngineError, match="closure"):
        it.engine.propagate()
    it.engine.rollback()
    assert it.state() == before
    it.delete("edge", (4, 5))
    it.assert_exact()


def test_of_mutually_recursive_views_the_one_that_grows_is_named() -> None:
    text = """
    .decl start(x: number) .decl few(x: number) .decl many(x: number, y: number)
    few(X) :- start(X). few(X) :- many(X, 0). many(X, Y) :- few(X), Y = 1. many(X, Z) :- many(X, Y), Z = Y + 1.
    """
    it = Driver(text, max_rounds=50)
    it.engine.insert("start", [(1,), (2,)])
    with pytest.raises(LimitError, match="`many`"):
        it.engine.propagate()
    it.engine.rollback()


def test_recursion_that_overflows_says_so() -> None:
    text = ".decl start(x: number) .decl n(x: number) n(X) :- start(X). n(Y) :- n(X), Y = X * 2."
    it = Driver(text)
    it.engine.insert("start", [(1,)])
    with pytest.raises(OverflowError_, match=r"`n\(Y\)`"):
        it.engine.propagate()
    it.engine.rollback()
    assert it.rows("n") == set()


# ---- definitions that fail ----------------------------------------------------------------------


def test_a_definition_that_fails_leaves_the_old_program_at_work() -> None:
    first = ".decl r(x: number) .decl p(x: number) p(X) :- r(X), X > 1."
    it = Driver(first)
    it.insert("r", (0,), (1,), (2,))
    before = it.state()
    worse = plan_of(first.replace("X > 1", "X > 0") + ".decl q(x: number) q(Y) :- r(X), Y = 1 / X.")
    for _ in range(3):
        it.engine.install(worse, frozenset({"p"}))
        with pytest.raises(Error):
            it.engine.propagate()
        it.engine.rollback()
        assert it.state() == before
    it.change(insert={"r": [(3,)]}, delete={"r": [(2,)]})
    it.assert_exact()
    it.delete("r", (0,))
    it.install(first + ".decl q(x: number) q(Y) :- r(X), Y = 1 / X.")
    it.assert_exact()


def test_dates_and_times_are_ordered_not_added() -> None:
    it = Driver(
        '.decl e(d: date, t: timestamp) .decl late(d: date) late(D) :- e(D, T), T > timestamp("2026-01-01T00:00:00Z").'
    )
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    it.insert("e", (dt.date(2026, 1, 1), noon), (dt.date(2025, 1, 1), noon - dt.timedelta(days=2)))
    assert it.rows("late") == {(dt.date(2026, 1, 1),)}
