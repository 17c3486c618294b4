"""Sinks in Spark's catalog: Delta tables by name, partitioned on request. Everything else is as for Delta tables at
paths."""

from __future__ import annotations

from typing import Any

from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.database.changes import Changes
from upshot.pipeline.config.config_keys import ICEBERG
from upshot.pipeline.sinks.delta import DeltaLog, DeltaView
from upshot.pipeline.sinks.failures import spark_writes
from upshot.pipeline.sinks.sink import Columns, not_ours
from upshot.pipeline.steps import Point, reached
from upshot.spark.catalog import delta_location, quoted_name, table_format
from upshot.spark.delta import has_delta


def catalog_writer(session: Any, partitions: tuple[str, ...]) -> CatalogDelta:
    if not has_delta(session):
        raise UsageError(
            'a sink with `format = "table"` needs Delta, which this Spark session does not have',
            code="missing-spark-package",
            help="start Spark with the package `io.delta:delta-spark` and its session extension",
        )
    return CatalogDelta(session, partitions)


class CatalogDelta:
    """A writer whose paths are names of tables. Their rows are written by Spark, which knows their partitions."""

    def __init__(self, session: Any, partitions: tuple[str, ...]) -> None:
        from upshot.pipeline.sinks.delta_spark import SparkDelta  # noqa: PLC0415 - only with Spark's Delta package

        self._session, self._partitions = session, partitions
        self._writer = SparkDelta(session)

    def occupied(self, table: str) -> bool:
        return table_format(self._session, table) is not None

    def columns(self, table: str) -> Columns | None:
        location = self._location(table)
        return None if location is None else self._writer.columns(location)

    def version(self, table: str, application: str) -> int | None:
        location = self._location(table)
        return None if location is None else self._writer.version(location, application)

    def create(self, table: str, application: str, version: int, data: Any) -> None:
        columns = data.frame.columns
        lacking = [name for name in self._partitions if name not in columns]
        if lacking:
            raise UsageError(
                f"`partition_by` names `{lacking[0]}`, which is not a column of the view",
                code="sink-columns",
                help=f"its columns are {', '.join(f'`{name}`' for name in columns)}",
            )
        with spark_writes(f"the table `{table}`"):
            writer = data.frame.write.format("delta").mode("error").partitionBy(*self._partitions)
            stamped = writer.option("txnAppId", application).option("txnVersion", version)
            stamped.saveAsTable(quoted_name(table))
            self._writer.refuse_lost_rows(self._known(table), data)

    def append(self, table: str, application: str, version: int, data: Any) -> None:
        self._writer.append(self._known(table), application, version, data)

    def merge(self, table: str, application: str, version: int, data: Any, columns: list[str]) -> None:
        self._writer.merge(self._known(table), application, version, data, columns)

    def rows(self, rows: Rows) -> Any:
        return self._writer.rows(rows)

    def changes(self, changes: Changes, version: int) -> Any:
        return self._writer.changes(changes, version)

    def _location(self, table: str) -> str | None:
        found = table_format(self._session, table)
        if found == "iceberg":
            raise UsageError(f"the table `{table}` is an Iceberg table", code="iceberg-not-supported", help=ICEBERG)
        return delta_location(self._session, table) if found == "delta" else None

    def _known(self, table: str) -> str:
        location = self._location(table)
        assert location is not None, "asked for its version before"
        return location


class _InCatalog:
    """A table without a path: any object of that name is in the way."""

    place: str
    _path: str
    _writer: Any
    _application: str

    def held(self, *, announced: bool = False) -> int | None:
        held: int | None = self._writer.version(self._path, self._application)
        if held is None and self._writer.occupied(self._path):
            raise not_ours(self.place)
        return held

    def _create(self, version: int, data: Any) -> None:
        reached(Point.CREATE)
        self._writer.create(self._path, self._application, version, data)


class CatalogView(_InCatalog, DeltaView):
    """The view itself, in a table of the catalog."""


class CatalogLog(_InCatalog, DeltaLog):
    """Every change of the view, in a table of the catalog."""
