"""Delta tables written by Spark, with the Delta package in its session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upshot.database.changes import Changes
from upshot.database.files.spark_frames import quoted
from upshot.pipeline.sinks.failures import lost_rows, spark_writes
from upshot.pipeline.sinks.sink import CHANGE, Columns, type_word
from upshot.pipeline.sinks.tables import FEW, Data, frame_of, row_count
from upshot.spark.delta import delta_snapshot
from upshot.spark.location import spark_path

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_ONE_AT_A_TIME = threading.Lock()
"""Guards the stamp of a merge: it is a setting of the session, which parallel sinks share."""


class SparkDelta:
    """Needs a classic session: the last version that an application wrote is in the table's log, and only Delta's own
    classes read it."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def location(self, path: str) -> str | None:
        """The path of the table's files; None if there is no table of that name."""
        return path

    def _known(self, path: str) -> str:
        location = self.location(path)
        assert location is not None, "its version was looked up before"
        return location

    def columns(self, path: str) -> Columns | None:
        location = self.location(path)
        if location is None or delta_snapshot(self._session, location).version() < 0:
            return None
        fields = self._session.read.format("delta").load(spark_path(location)).schema.fields
        return {field.name: type_word(str(field.dataType.jsonValue())) for field in fields}

    def version(self, path: str, application: str) -> int | None:
        location = self.location(path)
        if location is None:
            return None
        found = delta_snapshot(self._session, location).transactions().get(application)
        return int(found.get()) if found.isDefined() else None

    def create(self, path: str, application: str, version: int, data: Data) -> None:
        self._write(path, application, version, data, "error")

    def append(self, path: str, application: str, version: int, data: Changes) -> None:
        self._write(self._known(path), application, version, data, "append")

    def _write(self, path: str, application: str, version: int, data: Data, mode: str) -> None:
        frame = frame_of(data, self._session, version)
        with spark_writes(_table(path)):
            self.writer(frame, application, version, mode).save(spark_path(path))
            self.refuse_lost_rows(path, data)

    def writer(self, frame: Any, application: str, version: int, mode: str) -> Any:
        """A writer that stamps its commit."""
        writer = frame.write.format("delta").mode(mode)
        return writer.option("txnAppId", application).option("txnVersion", version)

    def refuse_lost_rows(self, path: str, data: Data) -> None:
        """Raise if the last version of the table has added another number of rows, by Delta's own count. For few rows,
        which were in the driver, the job is spared."""
        rows = row_count(data)
        if rows <= FEW:
            return
        history = self._session.sql(f"describe history delta.{quoted(spark_path(path))} limit 1")
        written = history.select("operationMetrics").first()[0].get("numOutputRows")
        if written is not None and int(written) != rows:
            raise lost_rows(_table(path), rows, int(written))

    def merge(self, path: str, application: str, version: int, data: Changes) -> None:
        path = self._known(path)
        names = [quoted(column) for column in data.inserted.columns]
        same = " AND ".join(f"t.{name} <=> s.{name}" for name in names)
        statement = (
            f"MERGE INTO delta.{quoted(spark_path(path))} t USING {{changes}} s ON {same} "  # noqa: S608 - names are quoted
            f"WHEN MATCHED AND s.{CHANGE} = -1 THEN DELETE "
            f"WHEN NOT MATCHED AND s.{CHANGE} = 1 "
            f"THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        )
        frame = frame_of(data, self._session, version)
        with _ONE_AT_A_TIME, spark_writes(_table(path)), _stamped(self._session.conf, application, version):
            (done,) = self._session.sql(statement, changes=frame).collect()
        if (done["num_inserted_rows"], done["num_deleted_rows"]) != (len(data.inserted), len(data.deleted)):
            found = done["num_inserted_rows"] + done["num_deleted_rows"]
            raise lost_rows(f"the change of {_table(path)}", row_count(data), found)


def _table(path: str) -> str:
    return f"the delta table `{path}`"


@contextmanager
def _stamped(settings: Any, application: str, version: int) -> Iterator[None]:
    settings.set(_APPLICATION, application)
    settings.set(_VERSION, str(version))
    try:
        yield
    finally:
        settings.unset(_APPLICATION)
        settings.unset(_VERSION)
