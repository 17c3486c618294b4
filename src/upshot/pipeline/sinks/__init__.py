"""Where views go: Delta tables, Parquet folders, the console."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from upshot.pipeline.config import PipelineConfig
from upshot.pipeline.sinks.console import Console, Tell
from upshot.pipeline.sinks.delta import DeltaLog, DeltaView, DeltaWriter
from upshot.pipeline.sinks.parquet import ParquetLog, ParquetSnapshots
from upshot.pipeline.sinks.sink import Sink
from upshot.pipeline.sinks.standing import Standing


def open_sinks(
    config: PipelineConfig, session: Any, delta: str, standings: dict[str, Standing], tell: Tell
) -> tuple[Sink, ...]:
    """The sinks of the pipeline, in the order of its file; `delta` is `spark` or `deltalake`. Nothing is written."""
    writer = _delta_writer(session, delta) if any(s.format == "delta" for s in config.sinks.values()) else None
    sinks: list[Sink] = []
    for given in config.sinks.values():
        match given.format:
            case "delta":
                assert writer is not None
                if given.path:
                    sinks.append(DeltaView(given.view, given.path, writer, config.name))
                if given.changes:
                    sinks.append(DeltaLog(given.view, given.changes, writer, config.name))
            case "parquet":
                if given.path:
                    keep = int(given.options.get("keep", 2))
                    sinks.append(ParquetSnapshots(given.view, Path(given.path), session, keep))
                if given.changes:
                    sinks.append(ParquetLog(given.view, Path(given.changes), session))
            case _:
                console = Console(given.view, None, tell)
                known = standings.get(console.place)
                sinks.append(Console(given.view, known.seen if known else None, tell))
    return tuple(sinks)


def _delta_writer(session: Any, delta: str) -> DeltaWriter:
    if delta == "spark":
        from upshot.pipeline.sinks.delta_spark import SparkDelta  # noqa: PLC0415 - only with Spark's Delta package

        return SparkDelta(session)
    from upshot.pipeline.sinks.delta_native import NativeDelta  # noqa: PLC0415 - deltalake is an optional package

    return NativeDelta()
