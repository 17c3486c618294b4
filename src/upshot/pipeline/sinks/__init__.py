"""The sinks of views: Delta tables at paths and in catalogs, Parquet directories, the console.

Comes in: the changes and rows of a version of the store. Goes out: tables and change logs that record their version.
Read `sink` (the protocol), `catch_up` with `standing` (bringing a sink to the newest version), `tables` (rows on their
way out), then a kind: `parquet` with `folders`; `delta` with `delta_native`, `delta_spark` and `delta_files`;
`catalog`; `console`.
"""

from __future__ import annotations

from typing import Any

from upshot.pipeline.config.config import PipelineConfig
from upshot.pipeline.sinks.catalog import CatalogLog, CatalogView, catalog_writer
from upshot.pipeline.sinks.console import Console, Tell
from upshot.pipeline.sinks.delta import DeltaLog, DeltaView, delta_writer
from upshot.pipeline.sinks.parquet import ParquetLog, ParquetSnapshots
from upshot.pipeline.sinks.sink import Sink
from upshot.pipeline.sinks.standing import Standing
from upshot.spark.lake_path import located


def open_sinks(
    config: PipelineConfig, session: Any, delta: str, standings: dict[str, Standing], tell: Tell
) -> tuple[Sink, ...]:
    """The sinks of the pipeline, in the order of its file; `delta` is who can write Delta tables, as the file says.
    Nothing is written."""
    sinks: list[Sink] = []
    for given in config.sinks.values():
        match given.format:
            case "delta":
                if given.path:
                    writer = delta_writer(session, located(given.path, session), delta)
                    sinks.append(DeltaView(given.view, given.path, writer, config.name))
                if given.changes:
                    writer = delta_writer(session, located(given.changes, session), delta)
                    sinks.append(DeltaLog(given.view, given.changes, writer, config.name))
            case "parquet":
                if given.path:
                    keep = int(given.options.get("keep", 2))
                    sinks.append(ParquetSnapshots(given.view, located(given.path), session, keep))
                if given.changes:
                    sinks.append(ParquetLog(given.view, located(given.changes), session))
            case "table":
                writer = catalog_writer(session, tuple(given.options.get("partition_by", ())))
                if table := given.options.get("table"):
                    sinks.append(CatalogView(given.view, table, writer, config.name))
                if table := given.options.get("changes_table"):
                    sinks.append(CatalogLog(given.view, table, writer, config.name))
            case _:
                console = Console(given.view, None, tell)
                known = standings.get(console.place)
                sinks.append(Console(given.view, known.seen if known else None, tell))
    return tuple(sinks)
