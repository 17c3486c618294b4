"""Micro-batches of other streams: each is applied once, whatever is handed over again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.pipeline.lake import CLOSURE

KEYED = ".decl price(item: symbol, cents: number) key(item)\n"


@pytest.fixture
def db() -> Any:
    with upshot.connect() as database:
        database.define(CLOSURE)
        yield database


def changes(spark: Any, *rows: tuple[int, int, int]) -> Any:
    return spark.createDataFrame(list(rows), "x long, y long, _change int")


def test_the_same_batch_twice_changes_nothing(spark: Any, db: Any) -> None:
    frame = changes(spark, (1, 2, 1), (2, 3, 1))
    first = db.apply_batch(frame, 0, relation="edge")
    assert (first.applied, first.version) == (True, 2)
    assert first.changes["path"].inserted.sorted() == [(1, 2), (1, 3), (2, 3)]
    again = db.apply_batch(changes(spark, (9, 9, 1)), 0, relation="edge")
    assert (again.applied, again.version, again.changes) == (False, 2, None)
    db.apply_batch(changes(spark, (1, 2, -1), (1, 3, 1)), 1, relation="edge")
    assert db.rows("edge").sorted() == [(1, 3), (2, 3)]


def test_a_durable_database_knows_the_last_batch_of_every_stream(spark: Any, tmp_path: Path) -> None:
    with upshot.connect(tmp_path, keep=2) as database:
        database.define(CLOSURE)
        database.apply_batch(changes(spark, (1, 2, 1)), 7, relation="edge", stream="a")
        database.apply_batch(changes(spark, (2, 3, 1)), 3, relation="edge", stream="b")
        for number in range(4, 12):
            database.apply_batch(changes(spark, (number, -number, 1)), number, relation="edge", stream="b")
        database.snapshot()
        database.compact()
        assert len(list(database.history(database.version - 2))) == 2
    with upshot.connect(tmp_path) as again:
        assert not again.apply_batch(changes(spark, (5, 5, 1)), 7, relation="edge", stream="a").applied
        assert not again.apply_batch(changes(spark, (5, 5, 1)), 11, relation="edge", stream="b").applied
        assert again.apply_batch(changes(spark, (5, 5, 1)), 8, relation="edge", stream="a").applied


def test_a_batch_with_a_smaller_number_is_refused(spark: Any, db: Any) -> None:
    db.apply_batch(changes(spark, (1, 2, 1)), 4, relation="edge")
    with pytest.raises(upshot.DataError) as refused:
        db.apply_batch(changes(spark, (1, 2, 1)), 0, relation="edge")
    assert refused.value.code == "batch-out-of-order"
    db.apply_batch(changes(spark, (3, 4, 1)), 0, relation="edge", stream="edges, from the start")
    assert len(db.rows("edge")) == 2


def test_rows_without_a_mark_are_inserted_or_take_the_place_of_those_with_their_key(spark: Any, db: Any) -> None:
    db.apply_batch(spark.createDataFrame([(2, 1), (2, 1)], "y long, x long"), 0, relation="edge")
    assert db.rows("edge").sorted() == [(1, 2)]
    db.define(KEYED)
    for number, cents in enumerate((3, 4)):
        db.apply_batch(spark.createDataFrame([("a", cents)], "item string, cents long"), number, relation="price")
    assert db.rows("price").sorted() == [("a", 4)]


def test_a_change_data_feed_is_applied_in_the_order_of_its_versions(spark: Any, db: Any) -> None:
    db.define(KEYED)
    feed = [
        ("a", 1, "insert", 1),
        ("a", 1, "update_preimage", 2),
        ("a", 2, "update_postimage", 2),
        ("b", 5, "insert", 2),
        ("b", 5, "delete", 3),
    ]
    columns = "item string, cents long, _change_type string, _commit_version long"
    db.apply_batch(spark.createDataFrame(feed, columns), 0, relation="price")
    assert db.rows("price").sorted() == [("a", 2)]


def test_a_row_of_which_nobody_can_tell_what_happens_fails_the_batch(spark: Any, db: Any) -> None:
    with pytest.raises(upshot.Error, match="_change cannot be 7"):
        db.apply_batch(changes(spark, (1, 2, 7)), 0, relation="edge")
    assert (db.version, len(db.rows("edge"))) == (1, 0)
    assert db.apply_batch(changes(spark, (1, 2, 1)), 0, relation="edge").applied


def test_a_stream_of_spark_goes_on_after_a_batch_that_was_handed_over_twice(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with upshot.connect(tmp_path / "db") as database:
        database.define(CLOSURE)

        def run() -> None:
            read = spark.readStream.schema("x long, y long").json(str(tmp_path / "in"))
            writer = read.writeStream.foreachBatch(lambda f, number: database.apply_batch(f, number, relation="edge"))
            query = writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start()
            query.awaitTermination()

        (tmp_path / "in" / "1.json").write_text('{"x": 1, "y": 2}\n')
        run()
        # As if the process had ended before Spark noted that the batch is done.
        shutil.rmtree(tmp_path / "check" / "commits")
        (tmp_path / "in" / "2.json").write_text('{"x": 2, "y": 3}\n')
        run()
        assert database.rows("path").sorted() == [(1, 2), (1, 3), (2, 3)]
        assert database.version == 3
