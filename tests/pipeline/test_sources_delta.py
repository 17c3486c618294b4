"""Delta tables by their change data feed, read by Spark and by `deltalake`: the same answers."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.pipeline.followers import EDGE, STOCK, Follower
from upshot.core.errors import DataError
from upshot.core.schema import Column, Schema
from upshot.core.types import NUMBER

FEED = {"delta.enableChangeDataFeed": "true"}
NUMBERS = Schema("edge", (Column("x", NUMBER),))


def edges(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"x": pa.array([x for x, _ in rows], pa.int64()), "y": pa.array([y for _, y in rows], pa.int64())})


def rows_of(path: Path) -> set[tuple[int, int]]:
    return {(row["x"], row["y"]) for row in DeltaTable(path).to_pyarrow_table().to_pylist()}


def test_a_table_is_read_once_and_then_followed_by_its_feed(
    spark: Any, support: str, tmp_path: Path, seed: int
) -> None:
    """Random appends, deletions, updates, overwrites and compactions, several versions at a time."""
    path = tmp_path / "table"
    draw = random.Random(seed)
    some = lambda: [(draw.randrange(6), draw.randrange(6)) for _ in range(draw.randrange(1, 6))]  # noqa: E731
    write_deltalake(path, edges(*some()), configuration=FEED)
    follower = Follower(spark, tmp_path / "staging", EDGE, "delta", path, support=support)
    first = follower.step()
    assert first is not None
    assert first.replaced == rows_of(path)
    for _ in range(4):
        for _ in range(draw.randrange(1, 4)):
            match draw.choice(["append", "delete", "update", "overwrite", "optimize"]):
                case "append":
                    write_deltalake(path, edges(*some()), mode="append")
                case "delete":
                    DeltaTable(path).delete(f"x = {draw.randrange(6)}")
                case "update":
                    DeltaTable(path).update({"y": f"{draw.randrange(6)}"}, predicate=f"x = {draw.randrange(6)}")
                case "overwrite":
                    write_deltalake(path, edges(*some(), *some()), mode="overwrite")
                case "optimize":
                    DeltaTable(path).optimize.compact()
        step = follower.step()
        assert step is None or step.replaced is None
        assert follower.rows == rows_of(path)
    assert follower.step() is None
    assert not (tmp_path / "staging").exists() or not list((tmp_path / "staging").iterdir())


def test_a_planned_range_is_replayed_exactly(spark: Any, support: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, edges((1, 1)), configuration=FEED)
    follower = Follower(spark, tmp_path / "staging", EDGE, "delta", path, support=support)
    follower.step()
    write_deltalake(path, edges((2, 2)), mode="append")
    planned = follower.look()
    write_deltalake(path, edges((3, 3)), mode="overwrite")
    follower.reopen()
    step = follower.read(planned)
    assert (step.inserted, step.deleted) == ({(2, 2)}, set())
    follower.take(planned, step)
    follower.step()
    assert follower.rows == {(3, 3)}


def test_one_of_two_equal_rows_can_go_without_the_relation_losing_it(spark: Any, support: str, tmp_path: Path) -> None:
    """Rows that differ only in a column the relation does not have are equal to it."""
    path = tmp_path / "table"
    write_deltalake(path, edges((1, 1), (1, 2), (2, 1)), configuration=FEED)
    more = {"support": support, "extra_columns": "ignore"}
    follower = Follower(spark, tmp_path / "staging", NUMBERS, "delta", path, **more)
    follower.step()
    DeltaTable(path).delete("y = 1")
    step = follower.step()
    assert step is not None
    assert (step.deleted, follower.rows) == ({(2,)}, {(1,)})


def test_a_table_without_feed_is_compared_and_says_so(spark: Any, support: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, edges((1, 1)))
    follower = Follower(spark, tmp_path / "staging", EDGE, "delta", path, support=support)
    follower.step()
    write_deltalake(path, edges((2, 2)), mode="append")
    step = follower.step()
    assert step is not None
    assert step.replaced == {(1, 1), (2, 2)}
    assert "no change data feed" in step.notes[0]
    # Switched on later, the feed does not reach back to what was missed.
    write_deltalake(path, edges((3, 3)), mode="append")
    DeltaTable(path).alter.set_table_properties(FEED)
    write_deltalake(path, edges((4, 4)), mode="append")
    step = follower.step()
    assert step is not None
    assert follower.rows == {(1, 1), (2, 2), (3, 3), (4, 4)}
    write_deltalake(path, edges((5, 5)), mode="append")
    step = follower.step()
    assert step is not None
    assert (step.inserted, step.replaced, step.notes) == ({(5, 5)}, None, ())


def test_a_table_with_a_key_is_followed_by_updates(spark: Any, support: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = pa.table({"item": ["a", "b"], "n": [1, 1], "note": pa.array([None, "x"], pa.string())})
    write_deltalake(path, table, configuration=FEED)
    follower = Follower(spark, tmp_path / "staging", STOCK, "delta", path, support=support)
    follower.step()
    DeltaTable(path).update({"n": "n + 1"}, predicate="item = 'a'")
    DeltaTable(path).update({"n": "n + 1"}, predicate="item = 'a'")
    step = follower.step()
    assert step is not None
    # (a, 2) came and went between two looks; deleting what was never there is no change.
    assert step.inserted == {("a", 3, None)}
    assert ("a", 1, None) in step.deleted
    assert follower.rows == {("a", 3, None), ("b", 1, "x")}


def test_a_row_that_a_later_version_corrects_is_no_bad_row(spark: Any, support: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, edges((1, 1)), configuration=FEED)
    follower = Follower(spark, tmp_path / "staging", EDGE, "delta", path, support=support)
    follower.step()
    empty = pa.table({"x": pa.array([2, 3, 3], pa.int64()), "y": pa.array([None, None, None], pa.int64())})
    write_deltalake(path, empty, mode="append")
    assert len(follower.read(follower.look()).bad) == 3  # and the batch is refused
    DeltaTable(path).update({"y": "2"}, predicate="x = 2")
    step = follower.read(follower.look())
    assert step.inserted == {(2, 2)}
    assert [row for row, _, _ in step.bad] == ['{"x":3,"y":null}'] * 2
    follower.take(follower.look(), step)
    # Set aside before, they are not set aside once more when they go.
    DeltaTable(path).delete("x = 3")
    step = follower.step()
    assert step is not None
    assert (step.bad, follower.rows) == ([], {(1, 1), (2, 2)})


def test_tables_that_are_gone_replaced_or_vacuumed_are_errors(spark: Any, support: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    follower = Follower(spark, tmp_path / "staging", EDGE, "delta", path, support=support)
    with pytest.raises(DataError, match="no Delta table at"):
        follower.look()
    write_deltalake(path, edges((1, 1)), configuration=FEED)
    write_deltalake(path, edges((2, 2)), mode="overwrite")
    follower.step()
    DeltaTable(path).delete("x = 2")
    write_deltalake(path, edges((3, 3)), mode="append")
    planned = follower.look()
    for lost in ("00000000000000000002.json", "00000000000000000000.json"):
        (path / "_delta_log" / lost).unlink()
    follower.reopen()
    with pytest.raises(DataError) as found:
        follower.read(planned)
    assert found.value.code == "source-expired"
    shutil.rmtree(path)
    write_deltalake(path, edges((1, 1)), configuration=FEED)
    with pytest.raises(DataError, match="was replaced by another table"):
        follower.look()


def test_columns_are_checked_before_anything_is_read(spark: Any, support: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"x": [1], "z": [2]}), configuration=FEED)
    follower = Follower(spark, tmp_path / "staging", EDGE, "delta", path, support=support)
    with pytest.raises(DataError, match="has no column `y`") as found:
        follower.source.check(spark, None)
    assert found.value.help == "it has `x`, `z`: rename the column there, or the one of `edge` in the program"
    assert not (tmp_path / "staging").exists()


@pytest.mark.slow
def test_a_process_that_used_deltalake_ends_as_it_should(tmp_path: Path) -> None:
    """deltalake 1.6.6 was seen to abort at exit."""
    program = (
        "import sys, pyarrow as pa; from deltalake import DeltaTable, QueryBuilder, write_deltalake\n"
        "path = sys.argv[1]; write_deltalake(path, pa.table({'x': [1]}), mode='append', "
        "configuration={'delta.enableChangeDataFeed': 'true'})\n"
        "table = DeltaTable(path); pa.table(table.load_cdf()); print(table.version())\n"
        "pa.table(QueryBuilder().register('t', table).execute('select * from t'))\n"
    )
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "t")], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
