"""Tables of Spark's catalog as sources and sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.pipeline.lake import CLOSURE, Lake, refused
from upshot.pipeline.batch.positions import SnapshotPosition, TablePosition
from upshot.pipeline.batch.record import recorded_in

PIPELINE = """\
[pipeline]
name = "tables"
program = "closure.dl"
engine = "local"
state = "state"

[source.edge]
format = "table"
table = "{schema}.edge"

[sink.path]
format = "table"
table = "{schema}.path"
changes_table = "{schema}.path_changes"
partition_by = ["x"]
"""


@pytest.fixture
def schema(spark: Any, tmp_path: Path) -> Iterator[str]:
    name = "s" + tmp_path.name.replace("-", "_")[:60]
    spark.sql(f"create schema {name}")
    spark.sql(f"use {name}")
    yield name
    spark.sql("use default")
    spark.sql(f"drop schema {name} cascade")


@pytest.fixture
def lake(spark: Any, schema: str, tmp_path: Path, support: str) -> Lake:
    if support != "spark":
        pytest.skip("tables of the catalog are Spark's")
    return Lake(tmp_path, CLOSURE, PIPELINE.format(schema=schema), spark)


def position(lake: Lake) -> Any:
    with upshot.connect(lake.state / "store") as database:
        last = recorded_in(database.last_meta())
    assert last is not None
    return last.positions["edge"]


def rows(spark: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(table).collect())


def test_a_delta_table_of_the_catalog_is_followed_by_its_feed_into_another_one(
    spark: Any, schema: str, lake: Lake
) -> None:
    properties = "tblproperties (delta.enableChangeDataFeed = true)"
    spark.sql(f"create table {schema}.edge (x bigint, y bigint) using delta {properties}")
    spark.sql("insert into edge values (1, 2), (2, 3)")
    lake.run()
    assert rows(spark, f"{schema}.path") == [(1, 2), (1, 3), (2, 3)]
    spark.sql("delete from edge where x = 2")
    assert lake.run().batches == 1
    assert isinstance(position(lake), TablePosition)
    assert rows(spark, f"{schema}.path") == [(1, 2)]
    assert sum(change for _, _, change, _ in rows(spark, f"{schema}.path_changes")) == 1
    details = spark.sql(f"describe detail {schema}.path").first()
    assert (details["format"], details["partitionColumns"]) == ("delta", ["x"])


def test_a_table_of_another_format_is_compared(spark: Any, schema: str, lake: Lake) -> None:
    spark.sql(f"create table {schema}.edge (x bigint, y bigint) using parquet")
    spark.sql("insert into edge values (1, 2)")
    lake.run()
    assert isinstance(position(lake), SnapshotPosition)
    assert rows(spark, f"{schema}.path") == [(1, 2)]


def test_a_table_that_is_there_already_is_never_touched(spark: Any, schema: str, lake: Lake) -> None:
    spark.sql(f"create table {schema}.edge (x bigint, y bigint) using delta")
    spark.sql(f"create table {schema}.path (x bigint, y bigint) using parquet")
    assert refused(lake).code == "sink-occupied"


def test_a_partition_column_that_the_view_does_not_have_is_named(spark: Any, schema: str, lake: Lake) -> None:
    spark.sql(f"create table {schema}.edge (x bigint, y bigint) using delta")
    lake.pipeline = lake.pipeline.replace('["x"]', '["day"]')
    lake.write()
    found = refused(lake)
    assert (found.code, "`day`" in found.message) == ("sink-columns", True)
