"""Statements on Spark: net effects in order, keys, rows in every form they come in."""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.driver import Driver, plain
from tests.engine.test_keys import STOCK
from tests.spark.engine_driver import IN_FILES, SparkDriver
from upshot.core.errors import DataError, UsageError
from upshot.core.types import FLOAT, NUMBER, SYMBOL

sizes = pytest.mark.parametrize("small", [IN_FILES, 1000], ids=["in files", "in the driver"])


@sizes
def test_statements_in_any_order_mean_what_they_mean_locally(spark: Any, small: int) -> None:
    """The same random statements on both engines: the same rows, changes, and conflicts."""
    text = """
    .decl r(k: symbol?, v: number, t: number) key(k) key(v, t) .decl f(x: float?)
    .decl p(v: number) .decl q(x: float?) p(V) :- r(_, V, _). q(X) :- f(X), X > 0.
    """
    rng = random.Random(small)
    some: Any = (None, "a", "b", "ü")
    floats = (None, 0.0, -0.0, 1.5, float("nan"))
    local = Driver(text)
    with SparkDriver(spark, text, small=small) as it:
        for _ in range(4 if small == IN_FILES else 12):
            for _ in range(rng.randint(1, 4)):
                verb = rng.choice(["insert", "insert", "delete", "upsert", "upsert", "replace"])
                rows = [(rng.choice(some), rng.randint(0, 2), rng.randint(0, 2)) for _ in range(rng.randint(0, 4))]
                others = [(rng.choice(floats),) for _ in range(rng.randint(0, 3))]
                for engine in (local.engine, it.engine):
                    getattr(engine, verb)("r", rows)
                    if verb != "upsert":
                        getattr(engine, verb)("f", others)
            found = [engine.propagate() for engine in (local.engine, it.engine)]
            wanted, got = ({n: (plain(a), plain(b)) for n, (a, b) in deltas.items()} for deltas in found)
            assert got == wanted
            pairs, expected = it.engine.key_conflicts("r"), local.engine.key_conflicts("r")
            # Of three rows that share a key, either engine may show any two.
            assert shared(pairs) == shared(expected)
            assert it.rows("r") == local.rows("r")
            end = "rollback" if expected else "accept"
            for engine in (local.engine, it.engine):
                getattr(engine, end)()
            assert it.state() == local.state()
            assert it.engine.size("r") == len(it.rows("r"))


def shared(pairs: Any) -> set[Any]:
    """The keys of `r` that two rows have in common."""
    keys = ((0,), (1, 2))
    agree = [(key, one, other) for one, other in pairs for key in keys if all(one[i] == other[i] for i in key)]
    assert all(one != other for _, one, other in agree)
    return {(key, *(one[i] for i in key)) for key, one, _ in agree}


@sizes
def test_upserts_and_conflicts_by_key(spark: Any, small: int) -> None:
    with SparkDriver(spark, STOCK, small=small) as it:
        assert it.upsert("stock", ("a", 1, 1), ("a", 1, 2), ("a", 1, 9))["stock"] == ({("a", 1, 9)}, set())
        assert it.upsert("stock", ("a", 1, 3)) == {
            "stock": ({("a", 1, 3)}, {("a", 1, 9)}),
            "low": ({("a",)}, set()),
        }
        assert it.upsert("stock", ("a", 1, 3)) == {}
        it.insert("stock", *[(f"i{i}", 1, i) for i in range(6)])
        it.engine.insert("stock", [("i1", 1, 7), ("c", 1, 1), ("c", 1, 2), ("d", 1, 2)])
        it.engine.delete("stock", [("i2", 1, 2)])
        it.engine.insert("stock", [("i2", 1, 9)])
        it.engine.propagate()
        found = {frozenset(pair) for pair in it.engine.key_conflicts("stock")}
        assert found == {frozenset({("i1", 1, 1), ("i1", 1, 7)}), frozenset({("c", 1, 1), ("c", 1, 2)})}
        assert len(it.engine.key_conflicts("stock", most=1)) == 1
        it.engine.rollback()
        assert it.engine.contains("stock", ("i1", 1, 1))
        assert it.engine.contains_all("low", [("a",), ("i1",)])
        assert not it.engine.contains_all("low", [("a",), ("i5",)])
        with pytest.raises(UsageError, match="has no key"):
            it.engine.upsert("low", [("a",)])


COUNTED = """
.decl a(x: number, y: number) .decl c(x: number)
.decl degree(x: number, n: number) key(x)
degree(X, N) :- c(X), N = count : { a(X, _) }.
"""


@sizes
def test_a_key_of_a_counted_view_compares_rows_without_their_number_of_derivations(spark: Any, small: int) -> None:
    with SparkDriver(spark, COUNTED, small=small) as it:
        it.insert("c", (1,), (2,))
        it.engine.insert("a", [(1, 1), (2, 1), (2, 2)])
        it.engine.propagate()
        assert not it.engine.key_conflicts("degree")


TYPES = """
.decl t(n: number, u: unsigned?, f: float, s: symbol?, b: boolean, d: date, m: timestamp, c: decimal(10,2))
.decl n(x: number?) .decl u(x: unsigned) .decl k(a: number, b: number) key(a)
"""
ROWS = [
    (1, 2**63 + 5, -0.0, "grüße", True, dt.date(1, 1, 1), dt.datetime(1700, 1, 2, 3, tzinfo=dt.UTC), Decimal("-0.25")),
    (-(2**63), None, float("nan"), None, False, dt.date(2026, 2, 1), dt.datetime(1, 1, 31, tzinfo=dt.UTC), Decimal(7)),
    (2, 0, 1.5, "", False, dt.date(9999, 12, 31), dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC), Decimal("1.50")),
]  # fmt: skip


@sizes
def test_rows_of_every_type_come_as_tuples_arrow_and_frames_and_go_the_same_ways(spark: Any, small: int) -> None:
    names = ["n", "u", "f", "s", "b", "d", "m", "c"]
    with SparkDriver(spark, TYPES, small=small) as it:
        assert it.insert("t", *ROWS)["t"] == (plain(ROWS), set())
        arrow = it.engine.rows("t").to_arrow()
        frame = it.engine.rows("t").to_spark(spark)
        assert frame.columns == names
        assert it.replace("t") == {"t": (set(), plain(ROWS))}
        it.engine.insert("t", arrow)
        assert it.commit()["t"] == (plain(ROWS), set())
        it.engine.delete("t", frame)
        assert it.commit()["t"] == (set(), plain(ROWS))
        # Under numbered names, and every row twice.
        it.engine.insert("t", frame.unionAll(frame).toDF(*(f"c{i}" for i in range(8))))
        it.commit()
        assert it.rows("t") == plain(ROWS)
        assert it.query("t(1, U, _, S, _, D, M, C)") == [ROWS[0][1:2] + ROWS[0][3:4] + ROWS[0][5:]]


def test_a_frame_that_does_not_fit_is_refused_as_a_table_is(spark: Any) -> None:
    local = Driver(TYPES)
    with SparkDriver(spark, TYPES) as it:
        it.insert("n", (1,))
        for value, type, relation, code in (
            ("7", "int", "n", None), ("7", "string", "n", "wrong-type"), ("7", "decimal(5,1)", "n", "wrong-type"),
            ("-9223372036854775808", "bigint", "n", "reserved-value"), ("-1", "bigint", "u", "number-out-of-range"),
            ("18446744073709551615", "decimal(20,0)", "u", None), ("7", "decimal(5,0)", "n", None),
        ):  # fmt: skip
            frame = spark.sql(f"select cast('{value}' as {type}) as x")
            if code is None:
                it.engine.insert(relation, frame)
                it.engine.rollback()
                continue
            with pytest.raises(DataError) as caught:
                it.engine.insert(relation, frame)
            with pytest.raises(DataError) as known:
                local.engine.insert(relation, frame.toArrow())
            assert caught.value.code == known.value.code == code
        with pytest.raises(DataError) as caught:
            it.engine.insert("k", spark.sql("select 1 as a, cast(null as bigint) as b"))
        assert (caught.value.code, "`b`" in caught.value.message) == ("null-in-required-column", True)
        with pytest.raises(DataError) as caught:
            it.engine.insert("k", spark.sql("select 1 as a, 2 as z"))
        assert caught.value.code == "unknown-column"
        with pytest.raises(DataError) as caught:
            it.engine.upsert("k", spark.sql("select 1 as a, id as b from range(2)"))
        assert caught.value.code == "ambiguous-upsert"
        it.engine.upsert("k", spark.sql("select 1 as a, 5 as b"))
        assert it.commit() == {"k": ({(1, 5)}, set())}
        assert it.rows("n") == {(1,)}


@pytest.mark.parametrize("as_arrow", [False, True])
def test_misfits_are_said_in_the_words_of_the_local_engine(spark: Any, as_arrow: bool) -> None:
    local = Driver(TYPES)
    wrong: list[tuple[str, list[Any], Any]] = [
        ("n", [(1,), (-(2**63),)], pa.int64()), ("n", [("x",)], pa.string()), ("n", [(2**63,)], pa.uint64()),
        ("k", [(1, None)], pa.int64()), ("n", [(1, 2)], pa.int64()),
    ]  # fmt: skip
    with SparkDriver(spark, TYPES) as it:
        for name, rows, type in wrong:
            given: Any = rows
            if as_arrow:
                columns = [pa.array(column, type) for column in zip(*rows, strict=True)]
                given = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
            said = []
            for engine in (local.engine, it.engine):
                with pytest.raises(DataError) as caught:
                    engine.insert(name, given)
                said.append((caught.value.code, caught.value.message, caught.value.help))
            assert said[0] == said[1]
        assert it.commit() == {}
        assert it.work.jobs == 0


LOOKED_UP = """
.decl stock(item: number, n: number) key(item) .decl limit(item: number, n: number)
.decl uses(item: number, part: number)
.decl low(item: number) .decl needs(item: number, part: number) .decl at_risk(item: number)
.decl free(item: number) .decl total(n: number) .decl share(item: number, n: number)
low(I) :- stock(I, Q), limit(I, N), Q < N.
needs(I, P) :- uses(I, P).
needs(I, P) :- needs(I, Q), uses(Q, P).
at_risk(I) :- needs(I, P), low(P).
free(I) :- limit(I, _), !uses(I, _).
total(N) :- N = count : { low(I) }.
share(I, 100 / N) :- limit(I, N).
"""
ITEMS = 40


def _loaded(it: Driver) -> None:
    it.change(
        insert={
            "stock": [(item, 10) for item in range(ITEMS)],
            "limit": [(item, 5) for item in range(ITEMS)],
            "uses": [(item, item + 1) for item in range(ITEMS)],
        }
    )


def test_rows_in_files_are_looked_up_beside_the_first_round_while_statements_have_an_effect(spark: Any) -> None:
    text = """
    .decl stock(item: number, n: number) key(item) .decl limit(item: number, n: number)
    .decl low(item: number) .decl short(item: number, n: number)
    low(I) :- stock(I, Q), limit(I, N), Q < N.
    short(I, N) :- low(I), limit(I, N).
    """
    rows = {"stock": [(item, 10) for item in range(ITEMS)], "limit": [(item, 5) for item in range(ITEMS)]}
    with SparkDriver(spark, text, small=20) as it:
        it.change(insert=rows)
        took = []
        for old in ([(3, 10)], [(30, 10)], [(7, 10), (8, 1)], [(9, 10)], [(11, 10)]):
            it.change(insert={"stock": [(old[0][0], 1)]}, delete={"stock": old})
            it.assert_exact()
            took.append(it.work.jobs)
    # At first what is there, `low`, and `short`; then the first two together. One row is not there: all is done again,
    # and what is there is looked up first, in the next commit too.
    assert took == [3, 2, 1 + 3, 3, 2]


def test_a_statement_without_effect_after_those_that_had_one_changes_nothing(spark: Any) -> None:
    with SparkDriver(spark, LOOKED_UP, small=20) as it:
        _loaded(it)
        it.change(insert={"stock": [(3, 1)]}, delete={"stock": [(3, 10)]})
        assert it.change(insert={"stock": [(5, 10)]}, delete={"stock": [(9, 1)]}) == {}
        it.assert_exact()
        both = it.change(insert={"stock": [(5, 10), (50, 1)], "limit": [(50, 2)]}, delete={"stock": [(6, 3), (7, 10)]})
        assert both["stock"] == ({(50, 1)}, {(7, 10)})
        it.assert_exact()


def test_a_row_that_is_not_there_is_not_deleted_from_rules_that_would_fail_for_it(spark: Any) -> None:
    with SparkDriver(spark, LOOKED_UP, small=20) as it:
        _loaded(it)
        it.insert("limit", (50, 2))
        assert it.delete("limit", (51, 0)) == {}
        it.assert_exact()


def test_key_conflicts_of_rows_in_files_are_found_beside_the_first_round(spark: Any) -> None:
    with SparkDriver(spark, LOOKED_UP, small=20) as it:
        _loaded(it)
        it.change(insert={"stock": [(3, 1)]}, delete={"stock": [(3, 10)]})
        it.engine.insert("stock", [(4, 1)])
        it.engine.propagate()
        assert it.engine.key_conflicts("stock") == [((4, 1), (4, 10))]
        it.engine.rollback()
        it.assert_exact()


@pytest.mark.parametrize("driver", [None, 0], ids=["recursion in the driver", "by rounds"])
def test_random_statements_with_and_without_effect_are_exact(spark: Any, driver: int | None) -> None:
    rng, local = random.Random(driver), Driver(LOOKED_UP)
    with SparkDriver(spark, LOOKED_UP, small=20, driver=driver) as it:
        for each in (local, it):
            _loaded(each)
        for _ in range(8):
            rows = {name: sorted(local.rows(name)) for name in ("stock", "limit", "uses")}
            took = {name: rng.sample(known, 2) for name, known in rows.items()}
            new = {"stock": (rng.randrange(100), 1), "limit": (rng.randrange(100), 7), "uses": (rng.randrange(40), 41)}
            put = {name: [row] for name, row in new.items()}
            if rng.random() < 0.4:
                put["limit"].append(rng.choice(rows["limit"]))
                took["uses"].append((99, 99))
            wanted, got = (each.change(insert=put, delete=took) for each in (local, it))
            assert got == wanted
            assert it.state() == local.state()


def test_lookups_that_name_the_ranges_of_their_keys_find_the_same_rows(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = pytest.importorskip("upshot.engine.spark.storage.pieces")
    between, applied = pieces.between, []

    def counted(frame: Any, ranges: Any) -> Any:
        applied.extend(ranges)
        return between(frame, ranges)

    monkeypatch.setattr(pieces, "LARGE", 0)
    monkeypatch.setattr(pieces, "between", counted)
    test_statements_in_any_order_mean_what_they_mean_locally(spark, IN_FILES)
    test_upserts_and_conflicts_by_key(spark, IN_FILES)
    assert {0, 1, 2} <= set(applied), "columns of text and of integers"


def test_ranges_are_those_of_integers_and_text_without_null() -> None:
    pieces = pytest.importorskip("upshot.engine.spark.storage.pieces")
    types = (NUMBER, SYMBOL, replace(NUMBER, nullable=True), FLOAT)
    rows = pieces.LocalPiece.of([(3, "é", None, 1.0), (-1, "z", 2, math.nan)], types)
    assert rows.ranges() == {0: (-1, 3), 1: ("z", "é")}
    assert pieces.nothing(types).ranges() == {}
