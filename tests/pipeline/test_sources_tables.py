"""Snapshots of Parquet, CSV and catalog tables: staged, replayed from the copy, compared when they change."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.followers import EDGE, EVERY, Follower
from upshot.core.errors import DataError
from upshot.core.schema import Column, Schema
from upshot.core.types import NUMBER, SYMBOL

EVENT = Schema("event", (Column("day", NUMBER), Column("name", SYMBOL), Column("n", NUMBER.optional())))


def edges(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"y": [y for _, y in rows], "x": [x for x, _ in rows]})


def test_a_parquet_table_is_followed_from_snapshot_to_snapshot(spark: Any, tmp_path: Path) -> None:
    table, staging = tmp_path / "table", tmp_path / "staging"
    table.mkdir()
    pq.write_table(edges((1, 2), (2, 3)), table / "a.parquet")
    follower = Follower(spark, staging, EDGE, "parquet", table)
    planned = follower.look()
    # What the table is by the time of the replay does not matter.
    pq.write_table(edges((7, 7)), table / "a.parquet")
    follower.reopen()
    step = follower.read(planned)
    assert step.replaced == {(1, 2), (2, 3)}
    follower.take(planned, step)
    assert not list(staging.glob("0*"))  # consumed copies go
    follower.step()
    assert follower.rows == {(7, 7)}
    assert follower.step() is None
    (table / "_temporary").mkdir()
    (table / "a.parquet").unlink()
    assert follower.step() is None  # a job is at work
    (table / "_temporary").rmdir()
    with pytest.raises(DataError, match="is now empty"):
        follower.look()
    follower.config.options["on_missing"] = "ignore"
    follower.reopen()
    follower.step()
    assert follower.rows == set()


def test_folders_are_columns_and_files_of_other_columns_are_refused(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    for day, name in (("007", "a"), ("8", "b"), ("x", "c")):
        (table / f"day={day}").mkdir(parents=True)
        pq.write_table(
            pa.table({"name": [name], "n": pa.array([None], pa.int64())}), table / f"day={day}" / "p.parquet"
        )
    # A file written later has narrower numbers, which is no reason to misread either.
    pq.write_table(pa.table({"n": pa.array([3], pa.int8()), "name": ["d"]}), table / "day=8" / "q.parquet")
    follower = Follower(spark, tmp_path / "staging", EVENT, "parquet", table)
    step = follower.step()
    assert step is not None
    assert step.replaced == {(7, "a", None), (8, "b", None), (8, "d", 3)}
    ((row, reason, place),) = step.bad
    assert row == '{"day":"x","name":"c","n":null}'
    assert reason.startswith("column `day`: x is not a number")
    assert place == str(table / "day=x" / "p.parquet")
    pq.write_table(pa.table({"name": ["e"], "n": [1], "more": [1]}), table / "day=8" / "r.parquet")
    with pytest.raises(DataError, match=r"has `more`, which .* has not"):
        follower.look()
    follower.config.options["extra_columns"] = "ignore"
    follower.reopen()
    follower.step()
    assert (8, "e", 1) in follower.rows


def test_typed_columns_are_taken_only_without_loss(spark: Any, tmp_path: Path) -> None:
    moment = dt.datetime(2026, 1, 31, 10, 0, 0, 1)
    table = pa.table(
        {
            "i": pa.array([1.0, 1.5, 2.0**63, None, -(2.0**63)]),
            "u": pa.array([2**64 - 2, 1, 1, None, 2**64 - 1], pa.uint64()),
            "f": pa.array([2**53, 2**53 + 1, 1, None, 1], pa.int64()),
            "s": ["ü", "b", "c", "d", None],
            "b": [True, None, None, None, None],
            "d": pa.array([dt.datetime(2026, 1, 31), moment, None, None, None], pa.timestamp("us")),
            "t": pa.array([moment, None, None, None, None], pa.timestamp("us")),
            "p": pa.array(
                [Decimal("1.5000"), Decimal("1.0050"), Decimal("123456789.0000"), None, None], pa.decimal128(20, 4)
            ),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    step = Follower(spark, tmp_path / "staging", EVERY, "parquet", tmp_path / "t.parquet").step()
    assert step is not None
    assert step.replaced == {
        (1, 2**64 - 2, 2.0**53, "ü", True, dt.date(2026, 1, 31), moment.replace(tzinfo=dt.UTC), Decimal("1.50")),
        (None, None, None, "d", None, None, None, None),
    }
    wrong = [[part.split("`")[1] for part in reason.split("; ")] for _, reason, _ in step.bad]
    assert sorted(wrong) == [["i", "f", "d", "p"], ["i", "p"], ["i", "u", "s"]]


def test_csv_files_are_read_by_their_headers(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / "a.csv").write_text(
        "s,i,u,f,b,d,t,p\n"
        '"a ""b"", c",-1,18446744073709551614,1e3,true,2026-01-31,2026-01-31T10:00:00+0530,1.10\n'
        '"",,,,,,,\n'
        "x,1.0,-1,1d,yes,2026-02-30,2026-01-31T10:00:00.1234567Z,1.005\n"
        "too,few\n"
        'y,,,-inf,0,0001-01-01,"2026-01-31 10:00:00,5",+7\n',
        encoding="utf-8",
    )
    (table / "b.csv").write_text("\ufeffp,t,d,b,f,u,i,s\n.5,2026-01-31,,,nan,,,ü\n", encoding="utf-8")
    step = Follower(spark, tmp_path / "staging", EVERY, "csv", table).step()
    assert step is not None
    assert step.replaced is not None
    (nan,) = [row for row in step.replaced if row[3] == "ü"]
    assert math.isnan(nan[2])
    midnight, ten = dt.datetime(2026, 1, 31, tzinfo=dt.UTC), dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC)
    assert nan[6:] == (midnight, Decimal("0.50"))
    assert step.replaced - {nan} == {
        (-1, 2**64 - 2, 1000.0, 'a "b", c', True, dt.date(2026, 1, 31), ten - dt.timedelta(hours=5.5), Decimal("1.10")),
        (None, None, None, "", None, None, None, None),
        (None, None, -math.inf, "y", False, dt.date(1, 1, 1), ten + dt.timedelta(seconds=0.5), Decimal("7.00")),
    }
    malformed, wrong = sorted(step.bad)
    assert malformed[:2] == ("too,few", "the row does not have 8 fields")
    assert [part.partition("`: ")[0][-1:] for part in wrong[1].split("; ")] == ["i", "u", "f", "b", "d", "t", "p"]
    assert wrong[2] == str(table / "a.csv")
    (table / "c.csv").write_text("i,u\n1,2\n")
    with pytest.raises(DataError, match=r"c\.csv` has no column `f`, `s`"):
        Follower(spark, tmp_path / "other", EVERY, "csv", table).look()


def test_a_catalog_table_is_compared_by_its_rows(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame([(1, 2)], "x int, y int").createOrReplaceTempView("edges_by_hand")
    follower = Follower(spark, tmp_path / "staging", EDGE, "table", table="edges_by_hand")
    follower.step()
    assert follower.rows == {(1, 2)}
    spark.createDataFrame([(1, 2)], "x bigint, y int").createOrReplaceTempView("edges_by_hand")
    spark.createDataFrame([(3, 4), (1, 2)], "x int, y int").createOrReplaceTempView("edges_by_hand")
    follower.step()
    assert follower.rows == {(1, 2), (3, 4)}
    assert follower.step() is None
    with pytest.raises(DataError, match="cannot be read"):
        Follower(spark, tmp_path / "none", EDGE, "table", table="no_such_table").look()
