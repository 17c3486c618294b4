"""A table or view of Spark's catalog: by its change data feed if it is a Delta table, else by comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, SnapshotPosition
from upshot.pipeline.sources.delta import DeltaSource
from upshot.pipeline.sources.reading.fitting import SourceBatch, table_rows
from upshot.pipeline.sources.reading.listing import missing
from upshot.pipeline.sources.reading.staged import SnapshotSource, SnapshotTable
from upshot.spark.delta import delta_location
from upshot.spark.lake_path import AnyPath, located

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from upshot.pipeline.config.config import SourceConfig
    from upshot.pipeline.sources import PipelineSource


class CatalogSource:
    """The format of the table is looked up when it is first read. A state in which the table was compared continues to
    compare it."""

    def __init__(self, config: SourceConfig, schema: Schema, staging: AnyPath, delta: str) -> None:
        self.relation = schema.name
        self._config, self._schema, self._staging, self._delta = config, schema, staging, delta
        self._table = str(config.options["table"])
        self._chosen: PipelineSource | None = None

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        return self._source(spark, start).latest(spark, start)

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        return self._source(spark, end).changes(spark, start, end)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        return self._source(spark, start).check(spark, start)

    def trim(self, committed: Position) -> None:
        if self._chosen is not None:
            self._chosen.trim(committed)

    def _source(self, spark: SparkSession, position: Position | None) -> PipelineSource:
        if self._chosen is None:
            self._chosen = self._found(spark, position)
        return self._chosen

    def _found(self, spark: SparkSession, position: Position | None) -> PipelineSource:
        location = None
        if self._delta == "spark" and self._config.options.get("feed", True):
            location = None if isinstance(position, SnapshotPosition) else delta_location(spark, self._table)
        if location is None:
            table = CatalogTable(self._config, self._schema)
            return SnapshotSource(table, self._config, self._schema, self._staging)
        return DeltaSource(self._config, self._schema, self._staging, self._delta, located(location, spark))


class CatalogTable(SnapshotTable):
    """Its content is a hash over all rows, in the columns that the relation has: every look reads the table."""

    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        self.relation = schema.name
        self._schema, self._table = schema, str(config.options["table"])
        self._ignore_extra = config.options.get("extra_columns") == "ignore"

    def content(self, spark: SparkSession, before: str | None) -> str:
        # First, other columns are refused: some types have no hash.
        self.rows(spark)
        table = self._read(spark)
        columns = [F.col(f"`{column.name}`") for column in self._schema.columns] or [F.lit(True)]
        hashes = table.select(F.xxhash64(*columns).alias("x"), F.hash(*columns).alias("h"))
        # Sums do not depend on the order of the rows.
        wide = "decimal(38,0)"
        (row,) = hashes.agg(F.count("*"), F.sum(F.col("x").cast(wide)), F.sum(F.col("h").cast(wide))).collect()
        return ":".join(str(part) for part in row)

    def rows(self, spark: SparkSession) -> DataFrame:
        place = F.lit(self._table)
        where = f"`{self._table}`"
        return table_rows(self._read(spark), self._schema, where=where, place=place, ignore_extra=self._ignore_extra)

    def described(self, spark: SparkSession) -> str:
        return f"the table `{self._table}`, read completely each time"

    def _read(self, spark: SparkSession) -> DataFrame:
        try:
            spark.catalog.refreshTable(self._table)
            return spark.table(self._table)
        except AnalysisException as error:
            words = str(error).splitlines()[0]
            raise missing(
                f"the table `{self._table}` for `{self.relation}` is not readable: {words}", "check `table`"
            ) from None
