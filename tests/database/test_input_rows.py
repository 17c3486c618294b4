from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import upshot

ALL_TYPES = """
.decl all(n: number, u: unsigned, f: float, s: symbol, b: boolean, d: date, t: timestamp, m: decimal(10,2), o: number?)
"""
NOW = dt.datetime(2026, 1, 31, 10, 30, 0, 5, tzinfo=dt.UTC)
ROW = (1, 2, 1.5, "x", True, dt.date(2026, 1, 31), NOW, Decimal("1.50"), None)


def inserted(db: upshot.Database, name: str, rows: Any) -> upshot.Rows:
    with db.transaction() as tx:
        tx.insert(name, rows)
    return tx.changes[name].inserted


def refused(db: upshot.Database, name: str, rows: Any) -> upshot.DataError:
    with pytest.raises(upshot.DataError) as error:
        inserted(db, name, rows)
    assert db.rows(name) == set()
    return error.value


class Edge(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 2), (3, 4)],
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        {(1, 2), (3, 4)},
        [{"x": 1, "y": 2}, {"y": 4, "x": 3}],
        [Edge(1, 2), Edge(3, 4)],
        [(1, 2), {"x": 3, "y": 4}],
        iter([(1, 2), (3, 4)]),
        np.array([[1, 2], [3, 4]]),
        [np.array([1, 2]), np.array([3, 4])],
        pd.DataFrame({"y": [2, 4], "x": [1, 3]}),
        pd.DataFrame([(1, 2), (3, 4)]),
        pl.DataFrame({"x": [1, 3], "y": [2, 4]}),
        pl.LazyFrame({"x": [1, 3], "y": [2, 4]}),
        pa.table({"x": [1, 3], "y": [2, 4]}),
        pa.table({"x": pa.array([1, 3], pa.int8()), "y": pa.array([2.0, 4.0])}),
        pa.record_batch({"x": [1, 3], "y": [2, 4]}),
        pa.table({"x": [1, 3], "y": [2, 4]}).to_reader(),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_come_in_many_shapes(paths: upshot.Database, rows: Any) -> None:
    assert inserted(paths, "edge", rows) == {(1, 2), (3, 4)}


def test_a_generator_may_query_while_it_is_consumed(paths: upshot.Database) -> None:
    inserted(paths, "edge", [(1, 2), (2, 3)])

    def reversed_paths() -> Iterator[tuple[int, int]]:
        for x, y in paths.query("path(X, Y)"):
            yield y, x

    with paths.transaction() as tx:
        tx.insert("edge", reversed_paths())
    assert tx.changes["edge"].inserted == {(2, 1), (3, 2), (3, 1)}


def test_a_result_can_be_inserted_again(paths: upshot.Database) -> None:
    inserted(paths, "edge", [(1, 2), (2, 3)])
    assert inserted(paths, "edge", paths.rows("path")) == {(1, 3)}


def test_every_type_goes_in_as_tuples_and_as_tables_and_comes_out_again(db: upshot.Database) -> None:
    db.define(ALL_TYPES)
    assert inserted(db, "all", [ROW]) == {ROW}
    table = db.rows("all").to_arrow()
    frame = db.rows("all").to_pandas()
    for given in (table, pl.from_arrow(table), frame):
        with db.transaction() as tx:
            tx.replace("all", [])
        assert db.rows("all") == set()
        assert inserted(db, "all", given) == {ROW}


def test_nan_in_pandas_is_null_where_null_may_be_and_nan_where_it_may_not(db: upshot.Database) -> None:
    db.define(".decl f(x: float)  .decl g(x: float?)  .decl n(x: number?)")
    [(value,)] = inserted(db, "f", pd.DataFrame({"x": [math.nan]}))
    assert math.isnan(value)
    assert inserted(db, "g", pd.DataFrame({"x": [math.nan]})) == {(None,)}
    assert inserted(db, "n", pd.DataFrame({"x": [1.0, math.nan]})) == {(1,), (None,)}


def test_times_without_a_zone_in_tables_are_utc(db: upshot.Database) -> None:
    db.define(".decl t(x: timestamp)")
    frame = pd.DataFrame({"x": pd.to_datetime(["2026-01-31 10:30:00.000005"])})
    assert inserted(db, "t", frame) == {(NOW,)}


@pytest.mark.parametrize("rows", [[1, 2], ["ab"], [None], (1, 2)])
def test_scalars_are_not_rows(paths: upshot.Database, rows: Any) -> None:
    error = refused(paths, "edge", rows)
    assert error.code == "not-rows"
    assert "[(x, y)]" in error.help


def test_a_scalar_is_not_a_row_of_a_unary_relation(db: upshot.Database) -> None:
    db.define(".decl one(x: number)")
    assert refused(db, "one", [7]).help.endswith("[(x,)]")


@pytest.mark.parametrize("rows", ["ab", {"x": 1, "y": 2}, 7, None])
def test_one_value_is_not_a_list_of_rows(paths: upshot.Database, rows: Any) -> None:
    assert refused(paths, "edge", rows).code == "not-rows"


def test_a_row_of_the_wrong_length_is_named(paths: upshot.Database) -> None:
    error = refused(paths, "edge", [(1, 2), (1, 2, 3)])
    assert error.code == "wrong-arity"
    assert "row 2" in error.message


def test_an_unknown_column_of_a_dict_gets_a_suggestion(stock: upshot.Database) -> None:
    error = refused(stock, "quantity", [{"itm": "a", "n": 1}])
    assert error.code == "unknown-column"
    assert error.help == "did you mean `item`?"
    assert refused(stock, "quantity", [{"item": "a", "n": 1, "m": 2}]).code == "unknown-column"


def test_a_missing_column_of_a_dict_is_named(stock: upshot.Database) -> None:
    error = refused(stock, "quantity", [{"item": "a", "n": 1}, {"item": "a"}])
    assert error.code == "missing-column"
    assert "`n`" in error.message
    assert "row 2" in error.message


def test_columns_of_a_table_must_be_those_of_the_relation(stock: upshot.Database) -> None:
    assert refused(stock, "quantity", pd.DataFrame({"item": ["a"]})).code == "missing-column"
    wide = pl.DataFrame({"item": ["a"], "n": [1], "extra": [2]})
    error = refused(stock, "quantity", wide)
    assert error.code == "unknown-column"
    assert "omit `extra`" in error.help


def test_columns_of_the_wrong_type_are_refused_without_loss(stock: upshot.Database) -> None:
    for column in (["1"], [1.5], [2**63], [True]):
        error = refused(stock, "quantity", pd.DataFrame({"item": ["a"], "n": column}))
        assert error.code == "wrong-type"
        assert "`n`" in error.message
    mixed = pd.DataFrame({"item": ["a", 1], "n": [1, 2]})
    assert refused(stock, "quantity", mixed).code == "wrong-type"


def test_null_in_a_required_column_of_a_table_is_refused(stock: upshot.Database) -> None:
    error = refused(stock, "quantity", pa.table({"item": pa.array(["a", None]), "n": [1, 2]}))
    assert error.code == "null-in-required-column"


def test_zero_arity_relations_hold_one_row_or_none(db: upshot.Database) -> None:
    db.define(".decl on()  .decl lit(x: number)  lit(1) :- on().")
    assert inserted(db, "on", [()]) == {()}
    assert db.rows("lit") == {(1,)}
    with db.transaction() as tx:
        tx.delete("on", [()])
    assert tx.changes["lit"].deleted == {(1,)}
