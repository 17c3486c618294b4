"""The sinks of views: Delta tables at paths and in catalogs, Parquet directories, the console.

Comes in: the changes and rows of a version of the store. Goes out: tables and change logs that record their version.
Read `sink` (the base class), `catch_up` (bringing a sink to the newest version), `tables` (rows and changes as tables
and frames), then a kind: `parquet` with `folders`; `delta` with `delta_native` and `delta_spark`; `catalog`; `console`.
`pipeline/formats.py` has the table of kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upshot.pipeline.formats import SINKS, SinkSetting

if TYPE_CHECKING:
    from upshot.pipeline.config.config import PipelineConfig
    from upshot.pipeline.sinks.catch_up import Standing
    from upshot.pipeline.sinks.console import PrintChanges
    from upshot.pipeline.sinks.sink import Sink


def open_sinks(
    config: PipelineConfig, session: Any, delta: str, standings: dict[str, Standing], print_changes: PrintChanges
) -> tuple[Sink, ...]:
    """The sinks of the pipeline, in the order of its file; `delta` is who can write Delta tables, as the file says.
    Nothing is written."""
    setting = SinkSetting(config.name, session, delta, standings, print_changes)
    return tuple(sink for given in config.sinks.values() for sink in SINKS[given.format].open(given, setting))
