"""The source of a section `[source.R]`, with every failure of it as one of our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from upshot.core.errors import DataError, system_reason
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.pipeline.batch.positions import Position
from upshot.pipeline.config.config import SourceConfig
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.sources import Source
from upshot.pipeline.sources.batch import SourceBatch
from upshot.pipeline.sources.catalog import CatalogSource
from upshot.pipeline.sources.change_files import ChangeFiles
from upshot.pipeline.sources.delta import DeltaSource
from upshot.pipeline.sources.file_tables import CsvTable, ParquetTable
from upshot.pipeline.sources.jdbc import JdbcQuery
from upshot.pipeline.sources.journal import Staging
from upshot.pipeline.sources.kafka import KafkaTopic
from upshot.pipeline.sources.staged import SnapshotSource
from upshot.pipeline.sources.watermark import AppendedRows
from upshot.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened(config: SourceConfig, schema: Schema, staging: Staging, delta: str) -> Source:
    """`delta` is who reads Delta tables: `spark` or `deltalake`."""
    return ToldSource(_plain(config, schema, staging, delta), config.span)


class ToldSource:
    """A source with named errors: an exception of Spark, Java or the file system becomes one of our errors, at the
    place of the source in the pipeline file."""

    def __init__(self, source: Source, span: Span | None) -> None:
        self.relation = source.relation
        self._source, self._span = source, span

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        with placed(self._span), _told(self.relation):
            return self._source.latest(spark, start)

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        with placed(self._span), _told(self.relation):
            return self._source.changes(spark, start, end)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        with placed(self._span), _told(self.relation):
            return self._source.check(spark, start)

    def trim(self, committed: Position) -> None:
        self._source.trim(committed)


@contextmanager
def _told(relation: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = system_reason(error)
        where = f"`{error.filename}`" if error.filename else "a file"
        raise _unreadable(relation, f"{where}: {reason}") from error
    except (PySparkException, Py4JError) as error:
        found = translated(error)
        raise found if found.code != "spark-failed" else _unreadable(relation, found.message) from error


def _unreadable(relation: str, why: str) -> DataError:
    return DataError(
        f"the source of `{relation}` cannot be read: {why}",
        code="unreadable-source",
        help="fix the source, or its keys in the pipeline file",
    )


def _plain(config: SourceConfig, schema: Schema, staging: Staging, delta: str) -> Source:
    folder = staging.folder
    match config.format:
        case "changes":
            return ChangeFiles(config, schema, staging.journal("files"))
        case "delta":
            return DeltaSource(config, schema, folder, delta)
        case "parquet":
            return SnapshotSource(ParquetTable(config, schema), config, schema, folder)
        case "csv":
            return SnapshotSource(CsvTable(config, schema), config, schema, folder)
        case "table":
            return CatalogSource(config, schema, folder, delta)
        case "kafka":
            return KafkaTopic(config, schema)
        case "jdbc" if config.options.get("watermark"):
            return AppendedRows(config, schema, folder, staging.journal("pieces"))
        case "jdbc":
            return SnapshotSource(JdbcQuery(config, schema), config, schema, folder)
    raise AssertionError(f"`read_config` lets no format `{config.format}` through")
