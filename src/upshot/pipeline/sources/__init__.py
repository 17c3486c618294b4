"""The sources of base relations: directories of change files, Delta tables, snapshots of tables and files,
databases.

To add one: a module here and its record in `pipeline/formats.py`. What sources share is in `reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from upshot.core.errors import DataError, system_reason
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.pipeline.batch.positions import Position, Positions
from upshot.pipeline.config.toml_places import placed
from upshot.pipeline.formats import SOURCES
from upshot.pipeline.sources.reading.fitting import SourceBatch
from upshot.pipeline.sources.reading.journal import Staging
from upshot.pipeline.sources.reading.listing import one_look
from upshot.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from upshot.database.durable.records import Records
    from upshot.pipeline.config.config import PipelineConfig, SourceConfig


class PipelineSource(Protocol):
    """One base relation's source. Made by `open_source`; holds no session and no open file."""

    @property
    def relation(self) -> str: ...

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        """The latest position of the source; equal to `start` if nothing moved, and then cheap. The data of a replay
        are stored before this returns. Raises `DataError` if consumed data are missing or were rewritten."""
        ...

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        """The changes after `start`, up to `end`; the same on every replay."""
        ...

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        """Notes on the data after `start`, for a dry run; raises as `latest` and `changes` would for a missing path, a
        refused connection or other columns. Writes nothing."""
        ...

    def trim(self, committed: Position) -> None:
        """Remove staged rows that no replay from `committed` on needs."""
        ...


def open_source(config: SourceConfig, schema: Schema, staging: Staging | Path, delta: str) -> PipelineSource:
    """The source for one base relation. `staging` is this source's own place in the pipeline's state; `delta` is
    `spark` or `deltalake`, as `session.delta_support` says."""
    place = Staging(staging) if isinstance(staging, Path) else staging
    return ReportingSource(SOURCES[config.format].open(config, schema, place, delta), config.span)


def open_sources(
    config: PipelineConfig, schemas: Mapping[str, Schema], delta: str, records: Callable[[str], Records] | None
) -> dict[str, PipelineSource]:
    """The sources of a pipeline; in a state on a lake, their journals are these records of its store."""
    return {
        name: open_source(source, schemas[name], Staging(config.state / "staging" / name, records), delta)
        for name, source in config.sources.items()
    }


def advanced(sources: Mapping[str, PipelineSource], spark: SparkSession, positions: Positions) -> dict[str, Position]:
    """The positions every source can move to; those of sources that left the pipeline stay as they are."""
    moved = dict(positions)
    with one_look():
        for name, source in sources.items():
            moved[name] = source.latest(spark, positions.get(name))
    return moved


class ReportingSource:
    """A source that reports exceptions of Spark, Java or the file system as our errors, at the place of the source in
    the pipeline file."""

    def __init__(self, source: PipelineSource, span: Span | None) -> None:
        self.relation = source.relation
        self._source, self._span = source, span

    def latest(self, spark: SparkSession, start: Position | None) -> Position:
        with placed(self._span), _reported(self.relation):
            return self._source.latest(spark, start)

    def changes(self, spark: SparkSession, start: Position | None, end: Position) -> SourceBatch:
        with placed(self._span), _reported(self.relation):
            return self._source.changes(spark, start, end)

    def check(self, spark: SparkSession, start: Position | None) -> tuple[str, ...]:
        with placed(self._span), _reported(self.relation):
            return self._source.check(spark, start)

    def trim(self, committed: Position) -> None:
        self._source.trim(committed)


@contextmanager
def _reported(relation: str) -> Iterator[None]:
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
