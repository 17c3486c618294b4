"""Delta tables written by Spark, with the Delta package in its session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from upshot.core.rows import Rows
from upshot.database.changes import Changes
from upshot.database.files.spark_frames import quoted
from upshot.pipeline.sinks.delta_types import type_word
from upshot.pipeline.sinks.failures import lost_rows, spark_writes
from upshot.pipeline.sinks.sink import CHANGE, Columns
from upshot.pipeline.sinks.tables import FEW, frame_of, log_frame
from upshot.spark.delta import delta_snapshot
from upshot.spark.location import spark_path

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_ONE_AT_A_TIME = threading.Lock()
"""Guards the stamp of a merge: it is a setting of the session, which parallel sinks share."""


@dataclass(frozen=True, slots=True)
class CountedFrame:
    """Rows for a table, and how many of them are inserted and deleted."""

    frame: Any
    inserted: int
    deleted: int = 0


class SparkDelta:
    """Needs a classic session: the last version that an application wrote is in the table's log, and only Delta's own
    classes read it."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def columns(self, path: str) -> Columns | None:
        if delta_snapshot(self._session, path).version() < 0:
            return None
        fields = self._session.read.format("delta").load(spark_path(path)).schema.fields
        return {field.name: type_word(str(field.dataType.jsonValue())) for field in fields}

    def version(self, path: str, application: str) -> int | None:
        found = delta_snapshot(self._session, path).transactions().get(application)
        return int(found.get()) if found.isDefined() else None

    def create(self, path: str, application: str, version: int, data: CountedFrame) -> None:
        self._write(path, application, version, data, "error")

    def append(self, path: str, application: str, version: int, data: CountedFrame) -> None:
        self._write(path, application, version, data, "append")

    def _write(self, path: str, application: str, version: int, data: CountedFrame, mode: str) -> None:
        with spark_writes(_table(path)):
            writer = data.frame.write.format("delta").mode(mode)
            writer.option("txnAppId", application).option("txnVersion", version).save(spark_path(path))
            self.refuse_lost_rows(path, data)

    def refuse_lost_rows(self, path: str, data: CountedFrame) -> None:
        """Raises if the last version of the table has added another number of rows, by Delta's own count. Few rows were
        in the driver: that takes a job, and shows nothing."""
        rows = data.inserted + data.deleted
        if rows <= FEW:
            return
        history = self._session.sql(f"describe history delta.{quoted(spark_path(path))} limit 1")
        written = history.select("operationMetrics").first()[0].get("numOutputRows")
        if written is not None and int(written) != rows:
            raise lost_rows(_table(path), rows, int(written))

    def merge(self, path: str, application: str, version: int, data: CountedFrame, columns: list[str]) -> None:
        names = [quoted(column) for column in columns]
        same = " AND ".join(f"t.{name} <=> s.{name}" for name in names)
        statement = (
            f"MERGE INTO delta.{quoted(spark_path(path))} t USING {{changes}} s ON {same} "  # noqa: S608 - names are quoted
            f"WHEN MATCHED AND s.{CHANGE} = -1 THEN DELETE "
            f"WHEN NOT MATCHED AND s.{CHANGE} = 1 "
            f"THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        )
        with _ONE_AT_A_TIME, spark_writes(_table(path)), _stamped(self._session.conf, application, version):
            (done,) = self._session.sql(statement, changes=data.frame).collect()
        if (done["num_inserted_rows"], done["num_deleted_rows"]) != (data.inserted, data.deleted):
            found = done["num_inserted_rows"] + done["num_deleted_rows"]
            raise lost_rows(f"the change of {_table(path)}", data.inserted + data.deleted, found)

    def rows(self, rows: Rows) -> CountedFrame:
        return CountedFrame(frame_of(rows, self._session), len(rows))

    def changes(self, changes: Changes, version: int) -> CountedFrame:
        frame = log_frame(changes, self._session, version)
        return CountedFrame(frame, len(changes.inserted), len(changes.deleted))


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
