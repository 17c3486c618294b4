"""Delta sinks: the view kept current, and its change log; written by Spark or by `deltalake`."""

from __future__ import annotations

import re
from typing import Any, Protocol

from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import Changes
from upshot.pipeline.sinks.sink import Columns, Sink, all_inserted, log_columns, not_ours
from upshot.pipeline.sinks.tables import Data, stays_on_spark
from upshot.pipeline.steps import Point, reached
from upshot.spark.delta import delta_target, has_delta, reaches
from upshot.spark.lake_path import AnyPath, LakePath, located
from upshot.spark.location import Files, LocalFiles, LocationEntry, child

_COMMIT = re.compile(r"\d{20}\.json")


class DeltaWriter(Protocol):
    """Tables at paths. Every write carries an application's name and version, which the table stores in the same
    commit: `version` returns them."""

    def columns(self, path: str) -> Columns | None:
        """The table's columns; None if there is no table."""
        ...

    def version(self, path: str, application: str) -> int | None:
        """The version that the application last wrote; None if it never did, or there is no table."""
        ...

    def create(self, path: str, application: str, version: int, data: Data) -> None: ...

    def append(self, path: str, application: str, version: int, data: Changes) -> None: ...

    def merge(self, path: str, application: str, version: int, data: Changes) -> None:
        """Delete the deleted rows and insert the inserted ones."""
        ...


class CheapestDelta:
    """Writes by `deltalake` the rows that pass through the driver, by Spark those that stay there. Both commit to the
    same table, and only one of them at a time: the sink's own."""

    def __init__(self, native: DeltaWriter, spark: DeltaWriter) -> None:
        self._native, self._spark = native, spark
        self.columns, self.version = native.columns, native.version

    def create(self, path: str, application: str, version: int, data: Data) -> None:
        self._of(data).create(path, application, version, data)

    def append(self, path: str, application: str, version: int, data: Changes) -> None:
        self._of(data).append(path, application, version, data)

    def merge(self, path: str, application: str, version: int, data: Changes) -> None:
        self._of(data).merge(path, application, version, data)

    def _of(self, data: Data) -> DeltaWriter:
        return self._spark if stays_on_spark(data) else self._native


def delta_writer(session: Any, path: AnyPath | str, delta: str) -> DeltaWriter:
    """The writer of a Delta table at the path: `deltalake`, `spark`, or with `auto` the cheaper one that can."""
    native = delta != "spark" and reaches(session, path) is not None
    by_spark = delta != "deltalake" and has_delta(session)
    if by_spark:
        from upshot.pipeline.sinks.delta_spark import SparkDelta  # noqa: PLC0415 - only with Spark's Delta package

        writer: DeltaWriter = SparkDelta(session)
        if not native:
            return writer
    elif not native:
        delta_target(session, path)
    from upshot.pipeline.sinks.delta_native import NativeDelta  # noqa: PLC0415 - deltalake is an optional package

    return CheapestDelta(NativeDelta(session), writer) if by_spark else NativeDelta(session)


class _DeltaSink(Sink):
    def __init__(self, view: str, path: AnyPath | str, writer: DeltaWriter, application: str, kind: str) -> None:
        self.view = view
        self.place = f"the delta {kind} `{path}`"
        self._place = located(path)
        self._path, self._writer, self._application = str(path), writer, application

    def columns(self) -> Columns | None:
        return self._writer.columns(self._path)

    def stored_version(self, *, announced: bool = False) -> int | None:
        held = self._writer.version(self._path, self._application)
        if held is None and self._there() and not (announced and self.columns() is None):
            raise not_ours(self.place)
        return held

    def _there(self) -> list[LocationEntry]:
        return _files(self._place).entries(self._path)

    def _create(self, version: int, data: Data) -> None:
        """Make the table. Its files are written before its first version, so an interrupted start leaves only files."""
        remove_fragments(_files(self._place), self._path)
        if self._there():
            raise not_ours(self.place)
        reached(Point.CREATE)
        self._writer.create(self._path, self._application, version, data)


def _files(path: AnyPath) -> Files:
    return path.files if isinstance(path, LakePath) else LocalFiles()


def remove_fragments(files: Files, folder: str) -> None:
    """Remove the files of a Delta table that never had a version; anything else stays."""
    log = child(folder, "_delta_log")
    if any(_COMMIT.fullmatch(entry.name) for entry in files.entries(log)):
        return
    for entry in files.entries(folder):
        if entry.name.startswith(("part-", ".part-")):
            files.delete(entry.uri)
    files.delete(log)


class DeltaView(_DeltaSink):
    """The view itself, kept current by merging exact changes."""

    def __init__(self, view: str, path: AnyPath | str, writer: DeltaWriter, pipeline: str) -> None:
        super().__init__(view, path, writer, f"upshot/{pipeline}/{view}", "table")

    def start(self, rows: Rows, version: int) -> None:
        self._create(version, rows)

    def apply(self, changes: Changes, version: int) -> None:
        # deltalake accepts a version that is already there, so it is checked first.
        if version > (self.stored_version() or 0):
            self._writer.merge(self._path, self._application, version, changes)


class DeltaLog(_DeltaSink):
    """Every change of the view, appended."""

    def __init__(self, view: str, path: AnyPath | str, writer: DeltaWriter, pipeline: str) -> None:
        super().__init__(view, path, writer, f"upshot/{pipeline}/{view}/changes", "change log")

    def wanted(self, schema: Schema) -> Columns:
        return log_columns(schema)

    def start(self, rows: Rows, version: int) -> None:
        self._create(version, all_inserted(rows))

    def apply(self, changes: Changes, version: int) -> None:
        if version > (self.stored_version() or 0):
            self._writer.append(self._path, self._application, version, changes)
