"""The two ways to read a Delta table: Spark's own, and the `deltalake` package in the driver."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from upshot.core.errors import DataError, Error
from upshot.spark.delta import delta_snapshot, delta_target
from upshot.spark.lake_path import AnyPath, LakePath, delete_path
from upshot.spark.location import exact_path, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        """A frame with the columns of the table; its rows are of no interest."""
        ...

    def feed(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        """The changes of these versions, with `_change_type`, `_commit_version`, `_commit_timestamp`."""
        ...

    def trim(self, version: int) -> None:
        """Removes what was staged for versions up to this one."""
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
        # Whether the versions are in the feed is found out when it is planned, not when it is loaded.
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
        """The rows from the staged file; it is written first if a replay has not found it."""
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
    """The result of `read`; errors of the two libraries become ours."""
    try:
        return read()
    except Error:
        raise
    except BaseException as error:
        # Both libraries raise whatever they met; when `deltalake` panics, that is not even an `Exception`.
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
