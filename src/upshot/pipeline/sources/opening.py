"""The source that a `[source.R]` asks for."""

from __future__ import annotations

from pathlib import Path

from upshot.core.schema import Schema
from upshot.pipeline.config import SourceConfig
from upshot.pipeline.sources import Source
from upshot.pipeline.sources.catalog import CatalogTable
from upshot.pipeline.sources.change_files import ChangeFiles
from upshot.pipeline.sources.delta import DeltaSource
from upshot.pipeline.sources.file_tables import CsvTable, ParquetTable
from upshot.pipeline.sources.jdbc import JdbcQuery
from upshot.pipeline.sources.staged import SnapshotSource
from upshot.pipeline.sources.watermark import AppendedRows


def opened(config: SourceConfig, schema: Schema, staging: Path, delta: str) -> Source:
    """`delta` is who reads Delta tables: `spark` or `deltalake`."""
    match config.format:
        case "changes":
            return ChangeFiles(config, schema, staging)
        case "delta":
            return DeltaSource(config, schema, staging, delta)
        case "parquet":
            return SnapshotSource(ParquetTable(config, schema), schema, staging)
        case "csv":
            return SnapshotSource(CsvTable(config, schema), schema, staging)
        case "table":
            return SnapshotSource(CatalogTable(config, schema), schema, staging)
        case "jdbc" if config.options.get("watermark"):
            return AppendedRows(config, schema, staging)
        case "jdbc":
            return SnapshotSource(JdbcQuery(config, schema), schema, staging)
    raise AssertionError(f"`read_config` lets no format `{config.format}` through")
