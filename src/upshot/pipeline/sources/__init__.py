"""The sources of base relations: directories of change files, Delta tables, snapshots of tables and files,
databases.

To add one: a module here, its line in `opening`, its keys in `config/config_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from upshot.core.schema import Schema
from upshot.pipeline.batch.positions import Position, Positions
from upshot.pipeline.config.config import SourceConfig
from upshot.pipeline.sources.batch import SourceBatch
from upshot.pipeline.sources.journal import Staging
from upshot.pipeline.sources.listing import one_look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Source(Protocol):
    """One base relation's source. Made by `open_source`; holds no session and no open file."""

    @property
    def relation(self) -> str: ...

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        """The latest position of the source; equal to `start` when nothing moved. The data of a replay is on disk
        before this returns. Raises `DataError` when consumed data is gone or was rewritten. Runs in the pipeline's
        process; cheap when nothing moved."""
        ...

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        """The changes after `start`, up to `end`; the same on every replay."""
        ...

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        """Notes on what would be read after `start`, for a dry run; raises as `latest` and `changes` would for a
        missing path, a refused connection, columns that are not the relation's. Writes nothing."""
        ...

    def trim(self, committed: Position) -> None:
        """Removes staged rows that no replay from `committed` on needs."""
        ...


def open_source(config: SourceConfig, schema: Schema, staging: Staging | Path, delta: str) -> Source:
    """The source for one base relation. `staging` is this source's own place in the pipeline's state; `delta` is
    `spark` or `deltalake`, as `session.delta_support` says."""
    from upshot.pipeline.sources.opening import opened  # noqa: PLC0415 - the sources import this module

    return opened(config, schema, Staging(staging) if isinstance(staging, Path) else staging, delta)


def advanced(sources: Mapping[str, Source], spark: SparkSession, positions: Positions) -> dict[str, Position]:
    """The positions every source can move to; those of sources that left the pipeline stay as they are."""
    moved = dict(positions)
    with one_look():
        for name, source in sources.items():
            moved[name] = source.latest(spark, positions.get(name))
    return moved
