"""A Delta table: its snapshot once, then its change data feed, version by version.

A table without the feed is replaced by its new snapshot whenever it has a new version. A relation is a set and a table
is not: when a row is deleted of which there were two, the relation keeps it. Unless the relation has a key, so that
there are no two, rows that the feed deletes are looked up in the new version.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from upshot.core.errors import DataError
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, TablePosition
from upshot.pipeline.sources.batch import SourceBatch
from upshot.pipeline.sources.delta_readers import DeltaReader, FeedUnavailable, delta_reader
from upshot.pipeline.sources.fitting import PLACE, REASON, ROW, bad_rows, good_rows
from upshot.pipeline.sources.journal import other_source
from upshot.pipeline.sources.listing import missing
from upshot.pipeline.sources.table_rows import table_rows
from upshot.spark.lake_path import AnyPath, LakePath, located
from upshot.spark.net_effect import CLASS, net_effect
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from upshot.pipeline.config.config import SourceConfig

_COMMIT = re.compile(r"(\d{20})\.(?:json|checkpoint.*\.parquet)")
_FEED = ["_change_type", "_commit_version", "_commit_timestamp"]


class DeltaSource:
    def __init__(
        self, config: SourceConfig, schema: Schema, staging: AnyPath, support: str, path: AnyPath | None = None
    ) -> None:
        """`path` is where the table is, if the pipeline file does not say so."""
        self.relation = schema.name
        self._schema, self._path = schema, path or located(config.path)
        self._reader: DeltaReader = delta_reader(support, self._path, staging)
        self._feed = config.options.get("feed", True)
        self._ignore_extra = config.options.get("extra_columns") == "ignore"
        self._distinct = bool(schema.keys) or config.options.get("distinct", False)

    # ---- positions ------------------------------------------------------------------------------

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        if start is not None and not isinstance(start, TablePosition):
            raise other_source(self.relation)
        newest = self._newest_version(spark)
        if start is not None and newest == start.version:
            return start
        about = self._reader.about(spark, newest)
        if start is not None and (about.id != start.table or newest < start.version):
            raise DataError(
                f"the Delta table `{self._path}` of `{self.relation}` was replaced by another table",
                code="source-rewritten",
                help="restore the old table, or start with an empty `state`",
            )
        return TablePosition(newest, about.id)

    def _newest_version(self, spark: SparkSession) -> int:
        """From the names in the log: no look at a table that did not change costs a job."""
        if isinstance(self._path, LakePath):
            newest = self._reader.newest(spark)
            if newest is None:
                raise self._missing()
            return newest
        try:
            names = os.listdir(self._path / "_delta_log")
        except FileNotFoundError:
            names = []
        versions = [int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))]
        if not versions:
            raise self._missing()
        return max(versions)

    def _missing(self) -> DataError:
        return missing(f"no Delta table at `{self._path}`, the source of `{self.relation}`", "check `path`")

    # ---- rows -----------------------------------------------------------------------------------

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        if not isinstance(end, TablePosition) or not (start is None or isinstance(start, TablePosition)):
            raise other_source(self.relation)
        if start is None:
            return self._whole(spark, end.version)
        if not self._feed:
            return self._whole(spark, end.version, "`feed = false`: its versions are compared")
        if not self._reader.about(spark, end.version).feed:
            return self._whole(spark, end.version, "it has no change data feed, so its versions are compared")
        try:
            feed = self._reader.feed(spark, start.version + 1, end.version)
        except FeedUnavailable as error:
            return self._whole(spark, end.version, f"{error}, so version {end.version} is compared with what is known")
        return self._changed(spark, feed, end.version)

    def _whole(self, spark: SparkSession, version: int, why: str = "") -> SourceBatch:
        rows = self._rows(self._reader.snapshot(spark, version))
        notes = (f"the Delta table `{self._path}` of `{self.relation}`: {why}",) if why else ()
        replaced = good_rows(rows, self._schema)
        return SourceBatch(self._schema, replaced=replaced, bad=bad_rows(rows), shared=rows, notes=notes)

    def _changed(self, spark: SparkSession, feed: DataFrame, version: int) -> SourceBatch:
        comes = F.col("_change_type").isin("insert", "update_postimage")
        said = self._rows(feed, _FEED).withColumns(
            {"op": F.when(comes, F.lit("insert")).otherwise(F.lit("delete")), "part": comes.cast("int")}
        )
        # In one version, what is written counts after what is taken away.
        net = net_effect(said.where(F.col(REASON).isNull()), self._schema, ("_commit_version", "part"))
        if not self._distinct:
            net = self._kept_if_still_there(spark, net, version)
        return SourceBatch(self._schema, net=net, bad=bad_rows(_net_misfits(said)), shared=said)

    def _kept_if_still_there(self, spark: SparkSession, net: DataFrame, version: int) -> DataFrame:
        names = column_names(self._schema.arity)
        deleted = net.where(F.col(CLASS) == "delete").select(*names)
        there = self._rows(self._reader.snapshot(spark, version)).where(F.col(REASON).isNull()).select(*names)
        candidates = F.broadcast(deleted.select(*[F.col(name).alias(f"d{name}") for name in names]))
        same = F.lit(True)
        for name in names:
            same = same & F.col(name).eqNullSafe(F.col(f"d{name}"))
        still = there.join(candidates, same, "left_semi").distinct()
        gone = deleted.exceptAll(still).withColumn(CLASS, F.lit("delete"))
        return net.where(F.col(CLASS) != "delete").unionByName(gone)

    def _rows(self, table: DataFrame, kept: list[str] | None = None) -> DataFrame:
        kept = kept or []
        return table_rows(
            table,
            self._schema,
            where=f"the Delta table `{self._path}`",
            place=F.lit(str(self._path)),
            kept=kept,
            ignore_extra=self._ignore_extra,
        )

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        version = self._newest_version(spark)
        about = self._reader.about(spark, version)
        self._rows(self._reader.schema(spark, version))
        how = "its change data feed" if about.feed and self._feed else "comparison: it has no change data feed"
        return (f"Delta table `{self._path}` at version {version}, followed by {how}",)

    def trim(self, committed: Position) -> None:
        if isinstance(committed, TablePosition):
            self._reader.trim(committed.version)


def _net_misfits(said: DataFrame) -> DataFrame:
    """The rows that do not fit and are in the table after the last change, each as often as it was inserted. A version
    that corrects a row deletes the bad one, which then no longer counts."""
    misfits = said.where(F.col(REASON).isNotNull())
    came = F.sum(F.when(F.col("op") == "insert", 1).otherwise(-1))
    net = misfits.groupBy(ROW, REASON, PLACE).agg(came.alias("came")).where(F.col("came") > 0)
    return net.withColumn("came", F.explode(F.sequence(F.lit(1), F.col("came"))))
