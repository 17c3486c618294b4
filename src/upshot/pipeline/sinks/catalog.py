"""Sinks in Spark's catalog: Delta tables by name, partitioned on request; otherwise as Delta tables at paths."""

from __future__ import annotations

from typing import Any

from upshot.core.errors import UsageError
from upshot.pipeline.formats import ICEBERG
from upshot.pipeline.sinks.delta import DeltaLog, DeltaView
from upshot.pipeline.sinks.delta_spark import SparkDelta
from upshot.pipeline.sinks.failures import spark_writes
from upshot.pipeline.sinks.sink import not_ours
from upshot.pipeline.sinks.tables import Data, frame_of
from upshot.pipeline.steps import Point, reached
from upshot.spark.delta import delta_location, has_delta, quoted_name, table_format


def catalog_writer(session: Any, partitions: tuple[str, ...]) -> CatalogDelta:
    if not has_delta(session):
        raise UsageError(
            'a sink with `format = "table"` needs Delta, which this Spark session does not have',
            code="missing-spark-package",
            help="start Spark with the package `io.delta:delta-spark` and its session extension",
        )
    return CatalogDelta(session, partitions)


class CatalogDelta(SparkDelta):
    """A writer whose paths are names of tables, and which partitions new ones."""

    def __init__(self, session: Any, partitions: tuple[str, ...]) -> None:
        super().__init__(session)
        self._partitions = partitions

    def occupied(self, table: str) -> bool:
        return table_format(self._session, table) is not None

    def location(self, path: str) -> str | None:
        found = table_format(self._session, path)
        if found == "iceberg":
            raise UsageError(f"the table `{path}` is an Iceberg table", code="iceberg-not-supported", help=ICEBERG)
        return delta_location(self._session, path) if found == "delta" else None

    def create(self, path: str, application: str, version: int, data: Data) -> None:
        frame = frame_of(data, self._session, version)
        lacking = [name for name in self._partitions if name not in frame.columns]
        if lacking:
            raise UsageError(
                f"`partition_by` names `{lacking[0]}`, which is not a column of the view",
                code="sink-columns",
                help=f"its columns are {', '.join(f'`{name}`' for name in frame.columns)}",
            )
        with spark_writes(f"the table `{path}`"):
            writer = self.writer(frame, application, version, "error").partitionBy(*self._partitions)
            writer.saveAsTable(quoted_name(path))
            self.refuse_lost_rows(self._known(path), data)


class _InCatalog:
    """A table without a path: the place is occupied if the catalog has any object of that name."""

    place: str
    _path: str
    _writer: Any
    _application: str

    def stored_version(self, *, announced: bool = False) -> int | None:
        held: int | None = self._writer.version(self._path, self._application)
        if held is None and self._writer.occupied(self._path):
            raise not_ours(self.place)
        return held

    def _create(self, version: int, data: Data) -> None:
        reached(Point.CREATE)
        self._writer.create(self._path, self._application, version, data)


class CatalogView(_InCatalog, DeltaView):
    """The view itself, in a table of the catalog."""


class CatalogLog(_InCatalog, DeltaLog):
    """Every change of the view, in a table of the catalog."""
