"""A Delta table: its snapshot once, then its change data feed, version by version.

A table without the feed is replaced by its new snapshot whenever it has a new version. A relation is a set and a table
is not: if one of two equal rows is deleted, the relation keeps the row. So rows that the feed deletes are looked up in
the new version, unless the relation has a key, which excludes equal rows.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from upshot.core.errors import DataError, Error
from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, TablePosition
from upshot.pipeline.sources.reading.fitting import PLACE, REASON, ROW, SourceBatch, bad_rows, good_rows, table_rows
from upshot.pipeline.sources.reading.journal import other_source
from upshot.pipeline.sources.reading.listing import missing
from upshot.spark.delta import delta_snapshot, delta_target
from upshot.spark.lake_path import AnyPath, LakePath, delete_path, located
from upshot.spark.location import exact_path, spark_path
from upshot.spark.net_effect import CLASS, net_effect
from upshot.spark.types import column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from upshot.pipeline.config.config import SourceConfig


# ---- delta readers -----------------------------------------------------------------------------------------
# The two ways to read a Delta table: Spark's own, and the `deltalake` package in the driver.


_LONGEST_SHOWN = 200
_FEED_SETTING = "delta.enableChangeDataFeed"
_UNRECORDED = (
    "CHANGE_DATA_NOT_RECORDED",
    "MISSING_CHANGE_DATA",
    "change data was not recorded",
    "Change Data not enabled",
)
_EXPIRED = (
    "FILE_NOT_EXIST",
    "FileNotFoundException",
    "VERSION_NOT_FOUND",
    "LOG_FILE_NOT_FOUND",
    "VERSIONS_NOT_CONTIGUOUS",
    "does not exist",
    "not found",
    "No such file",
    "Invalid version",
    "contiguous commit files",
    "the specified end version",
)


@dataclass(frozen=True, slots=True)
class AboutTable:
    id: str
    feed: bool
    """True if it keeps a change data feed."""


class FeedUnavailable(Exception):
    """The feed does not have these versions; the words say why."""


class DeltaReader(Protocol):
    def newest(self, spark: SparkSession) -> int | None:
        """The newest version; None if there is no table."""
        ...

    def about(self, spark: SparkSession, version: int) -> AboutTable: ...

    def snapshot(self, spark: SparkSession, version: int) -> DataFrame: ...

    def schema(self, spark: SparkSession, version: int) -> DataFrame:
        """A frame with the columns of the table and any rows."""
        ...

    def feed(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        """The changes of these versions, with `_change_type`, `_commit_version`, `_commit_timestamp`."""
        ...

    def trim(self, version: int) -> None:
        """Remove the staged rows of versions up to this one."""
        ...


def delta_reader(support: str, path: AnyPath, staging: AnyPath) -> DeltaReader:
    return SparkReader(path) if support == "spark" else LakeReader(path, staging)


class SparkReader:
    def __init__(self, path: AnyPath) -> None:
        self._path = path
        self._known: dict[int, AboutTable] = {}

    def newest(self, spark: SparkSession) -> int | None:
        version = self._try(lambda: delta_snapshot(spark, self._path).version())
        return None if version < 0 else int(version)

    def about(self, spark: SparkSession, version: int) -> AboutTable:
        if version not in self._known:
            self._known = {version: self._described(spark)}
        return self._known[version]

    def _described(self, spark: SparkSession) -> AboutTable:
        quoted = spark_path(self._path).replace("`", "``")
        row = self._try(lambda: spark.sql(f"describe detail delta.`{quoted}`").select("id", "properties").first())
        return AboutTable(row["id"], str(row["properties"].get(_FEED_SETTING, "")).lower() == "true")

    def snapshot(self, spark: SparkSession, version: int) -> DataFrame:
        reader = spark.read.format("delta").option("versionAsOf", version)
        return self._try(lambda: reader.load(spark_path(self._path)))

    def schema(self, spark: SparkSession, version: int) -> DataFrame:
        return self.snapshot(spark, version)

    def feed(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        reader = spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", first).option("endingVersion", last)
        feed = self._try(lambda: reader.load(spark_path(self._path)))
        # Spark checks that the feed has the versions when it plans the frame, not when it loads it.
        self._try(lambda: feed._jdf.queryExecution().executedPlan())
        return feed

    def trim(self, version: int) -> None:
        """Versions of the table itself are read: nothing is staged."""

    def _try(self, read: Callable[[], Any]) -> Any:
        return _translated(self._path, read)


class LakeReader:
    """Rows go through the driver in batches, into Parquet files in the staging folder, which Spark reads."""

    def __init__(self, path: AnyPath, staging: AnyPath) -> None:
        self._path, self._staging = path, staging

    def newest(self, spark: SparkSession) -> int | None:
        from deltalake import DeltaTable  # noqa: PLC0415 - an optional package

        target = delta_target(spark, self._path)
        if not self._try(lambda: DeltaTable.is_deltatable(target.uri, target.options)):
            return None
        return int(self._try(lambda: DeltaTable(target.uri, storage_options=target.options)).version())

    def about(self, spark: SparkSession, version: int) -> AboutTable:
        metadata = self._try(lambda: self._table(spark, version).metadata())
        return AboutTable(str(metadata.id), str(metadata.configuration.get(_FEED_SETTING, "")).lower() == "true")

    def snapshot(self, spark: SparkSession, version: int) -> DataFrame:
        from deltalake import QueryBuilder  # noqa: PLC0415 - an optional package

        def read() -> pa.RecordBatchReader:
            rows = QueryBuilder().register("upshot", self._table(spark, version)).execute("select * from upshot")
            return pa.RecordBatchReader.from_stream(rows)

        return self._staged(spark, f"{version:020}", read)

    def schema(self, spark: SparkSession, version: int) -> DataFrame:
        found = self._try(lambda: pa.schema(self._table(spark, version).schema().to_arrow()))
        return spark.createDataFrame(found.empty_table())

    def feed(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        def read() -> pa.RecordBatchReader:
            feed = self._table(spark, last).load_cdf(starting_version=first, ending_version=last)
            return pa.RecordBatchReader.from_stream(feed)

        return self._staged(spark, f"{last:020}-from-{first}", read)

    def _table(self, spark: SparkSession, version: int) -> Any:
        from deltalake import DeltaTable  # noqa: PLC0415 - an optional package

        target = delta_target(spark, self._path)
        return DeltaTable(target.uri, version=version, storage_options=target.options)

    def _staged(self, spark: SparkSession, name: str, read: Callable[[], pa.RecordBatchReader]) -> DataFrame:
        """The rows of the staged file, which is written first unless this is a replay."""
        file = self._staging / f"{name}.parquet"
        if not file.exists():
            self._stage(file, read)
        return spark.read.parquet(exact_path(file))

    def _stage(self, file: AnyPath, read: Callable[[], pa.RecordBatchReader]) -> None:
        if isinstance(file, LakePath):
            with tempfile.TemporaryDirectory() as folder:
                draft = Path(folder, file.name)
                self._try(lambda: _write(read(), draft))
                file.files.upload(draft, file.uri)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        self._try(lambda: _write(read(), draft))
        os.replace(draft, file)

    def trim(self, version: int) -> None:
        if not self._staging.exists():
            return
        for path in self._staging.iterdir():
            if path.name.lstrip(".")[:20] <= f"{version:020}":
                delete_path(path)

    def _try(self, read: Callable[[], Any]) -> Any:
        return _translated(self._path, read)


def _write(rows: pa.RecordBatchReader, file: Path) -> None:
    with pq.ParquetWriter(file, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _translated(path: AnyPath, read: Callable[[], Any]) -> Any:
    """The result of `read`; raises errors of the two libraries as ours."""
    try:
        return read()
    except Error:
        raise
    except BaseException as error:
        # Both libraries raise exceptions of any class; a panic of `deltalake` is not even an `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        words = first if len(first) <= _LONGEST_SHOWN else first[: _LONGEST_SHOWN - 1] + "…"
        if any(mark in str(error) for mark in _UNRECORDED):
            raise FeedUnavailable("its change data feed does not reach back far enough") from None
        if any(mark in str(error) for mark in _EXPIRED):
            raise DataError(
                f"a version of the Delta table `{path}` is missing: {words}",
                code="source-expired",
                help="it was removed by VACUUM or log cleanup before it was read: keep versions longer, and start "
                "with an empty `state`",
            ) from None
        raise DataError(
            f"cannot read the Delta table `{path}`: {words}",
            code="unreadable-source",
            help="try another reader with `delta` in the pipeline file",
        ) from None


# ---- the source --------------------------------------------------------------------------------------------


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
        """From the names in the log, so that an unchanged table costs no job."""
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
        statements = self._rows(feed, _FEED).withColumns(
            {"op": F.when(comes, F.lit("insert")).otherwise(F.lit("delete")), "part": comes.cast("int")}
        )
        # In one version, inserts count after deletes.
        net = net_effect(statements.where(F.col(REASON).isNull()), self._schema, ("_commit_version", "part"))
        if not self._distinct:
            net = self._kept_if_still_there(spark, net, version)
        return SourceBatch(self._schema, net=net, bad=bad_rows(_net_misfits(statements)), shared=statements)

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


def _net_misfits(statements: DataFrame) -> DataFrame:
    """The rows that do not fit and are in the table after the last change, as often as they were inserted. A version
    that corrects a row deletes the bad one."""
    misfits = statements.where(F.col(REASON).isNotNull())
    came = F.sum(F.when(F.col("op") == "insert", 1).otherwise(-1))
    net = misfits.groupBy(ROW, REASON, PLACE).agg(came.alias("came")).where(F.col("came") > 0)
    return net.withColumn("came", F.explode(F.sequence(F.lit(1), F.col("came"))))
