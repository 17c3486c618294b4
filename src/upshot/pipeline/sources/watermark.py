"""A table of PostgreSQL to which rows are only added, with a column that grows: what is new is copied in pieces."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, WatermarkPosition
from upshot.pipeline.sources.batch import SourceBatch
from upshot.pipeline.sources.fitting import REASON, bad_rows
from upshot.pipeline.sources.jdbc import Connection, jdbc_rows, joined, literal_text, quoted, whole_query
from upshot.pipeline.sources.journal import Journal, other_source, torn_state
from upshot.spark.lake_path import AnyPath, LakePath, delete_path
from upshot.spark.location import exact_path, spark_path
from upshot.spark.net_effect import CLASS
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from upshot.pipeline.config.config import SourceConfig


class AppendedRows:
    """The journal has one entry per piece with the largest watermark in it; a piece has all rows above the one before.

    Rows that are committed later with a smaller watermark are never seen: the column has to grow in the order of
    commits.
    """

    def __init__(self, config: SourceConfig, schema: Schema, staging: AnyPath, journal: Journal) -> None:
        self.relation = schema.name
        self._schema, self._staging = schema, staging
        self._connection = Connection(config)
        self._query = whole_query(config)
        self._column = str(config.options["watermark"])
        self._ignore_extra = config.options.get("extra_columns") == "ignore"
        self._journal = journal

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        consumed = self._count(start)
        if len(self._journal.entries) > consumed:
            # Copied for a batch that was refused, and perhaps corrected since.
            self._journal.cut(consumed)
        largest = self._largest(spark)
        reached = self._journal.entries[-1]["value"] if self._journal.entries else None
        if largest is not None and self._is_new(spark, largest, reached):
            number = len(self._journal.entries)
            # On a lake a driver that was given up may still be writing: nobody writes where another one does.
            name = f"{number:08}-{uuid.uuid4().hex[:8]}" if isinstance(self._staging, LakePath) else f"{number:08}"
            self._between(spark, reached, largest).write.mode("overwrite").parquet(spark_path(self._staging / name))
            self._journal.append([{"value": largest, "folder": name}])
        count = len(self._journal.entries)
        return WatermarkPosition(count, self._journal.entries[-1]["value"] if count else "")

    def _largest(self, spark: SparkSession) -> str | None:
        name = quoted(self._column)
        words = joined(f"select max({name})::text as largest, bool_or({name} is null) as nulls from", self._query, "r")
        largest, nulls = self._connection.one(spark, words)
        if nulls:
            raise DataError(
                f"the watermark `{self._column}` of `{self.relation}` is NULL in some rows, which would never be read",
                code="null-watermark",
                help="use a column that is never NULL, or omit `watermark`",
            )
        return None if largest is None else str(largest)

    def _is_new(self, spark: SparkSession, largest: str, reached: str | None) -> bool:
        """Test whether the table goes beyond the copied rows; one that ends before them was truncated or replaced."""
        if reached is None or largest == reached:
            return reached is None
        name = quoted(self._column)
        words = joined(f"select max({name}) > {literal_text(reached)} as more from", self._query, "r")
        (more,) = self._connection.one(spark, words)
        if not more:
            raise DataError(
                f"the watermark `{self._column}` of `{self.relation}` went back from {reached} to {largest}",
                code="source-rewritten",
                help="rows were deleted or replaced: omit `watermark` to compare the whole table",
            )
        return True

    def _between(self, spark: SparkSession, above: str | None, up_to: str) -> DataFrame:
        name = quoted(self._column)
        parts = [f"{name} <= {literal_text(up_to)}"] + (
            [f"{name} > {literal_text(above)}"] if above is not None else []
        )
        query = joined("select * from", self._query, "r where", " and ".join(parts))
        return jdbc_rows(self._connection.read(spark, query), self._schema, ignore_extra=self._ignore_extra)

    def _count(self, position: Position | None) -> int:
        if position is None:
            return 0
        if not isinstance(position, WatermarkPosition):
            raise other_source(self.relation)
        known = self._journal.entries
        if position.count > len(known) or (position.count and known[position.count - 1]["value"] != position.value):
            raise torn_state(f"the staged rows of `{self.relation}` do not match the checkpoint")
        return position.count

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        folders = [self._folder(number) for number in range(self._count(start), self._count(end))]
        if not folders:
            return SourceBatch(self._schema)
        gone = [folder.name for folder in folders if not folder.exists()]
        if gone:
            raise torn_state(f"the staged rows `{gone[0]}` of `{self.relation}` are missing")
        rows = spark.read.parquet(*[exact_path(folder) for folder in folders])
        good = rows.where(F.col(REASON).isNull()).select(*column_names(self._schema.arity))
        net = good.withColumn(CLASS, F.lit("insert"))
        return SourceBatch(self._schema, net=net, bad=bad_rows(rows), shared=rows)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        largest = self._largest(spark)
        none = self._connection.read(spark, joined("select * from", self._query, "r where false"))
        jdbc_rows(none, self._schema, ignore_extra=self._ignore_extra)
        return (f"rows up to `{self._column}` = {largest}, read once each" if largest else "no rows yet",)

    def trim(self, committed: Position) -> None:
        for number in range(self._count(committed)):
            delete_path(self._folder(number))

    def _folder(self, number: int) -> AnyPath:
        # States of older versions of Upshot do not name the folder.
        return self._staging / str(self._journal.entries[number].get("folder", f"{number:08}"))
