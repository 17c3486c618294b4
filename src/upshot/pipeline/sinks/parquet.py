"""Parquet sinks: a change log in folders by version, and snapshots of the view with a pointer to the newest."""

from __future__ import annotations

import json
import re
from typing import Any

from upshot.core.errors import DataError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import Changes
from upshot.pipeline.sinks.failures import disk_writes, spark_writes
from upshot.pipeline.sinks.folders import Folders, folders_at
from upshot.pipeline.sinks.sink import Columns, Sink, all_inserted, log_columns, not_ours
from upshot.pipeline.sinks.tables import Data, frame_of, row_count, stays_on_spark, table_of
from upshot.pipeline.steps import Point, reached
from upshot.spark.lake_path import AnyPath

POINTER = "current.json"

_FOLDER = "upshot_version"
"""Not `_version`: Arrow and pandas ignore names that begin with an underscore."""


class ParquetLog(Sink):
    """One folder `upshot_version=000123` a version that changed the view. `_version` is a column of the files, as in
    any change log; readers of partitioned Parquet see the folders' number too and can skip by it."""

    def __init__(self, view: str, path: AnyPath, session: Any) -> None:
        self.view = view
        self.place = f"the parquet change log `{path}`"
        self._folders, self._session = folders_at(path), session

    def columns(self) -> Columns | None:
        held = self.stored_version()
        return None if held is None else self._folders.columns(self._versions()[held])

    def wanted(self, schema: Schema) -> Columns:
        return log_columns(schema)

    def stored_version(self, *, announced: bool = False) -> int | None:
        there = self._versions()
        return next(
            (version for version in sorted(there, reverse=True) if self._folders.is_whole(there[version])), None
        )

    def start(self, rows: Rows, version: int) -> None:
        self._folders.remove_leftovers()
        self._write(all_inserted(rows), version)

    def apply(self, changes: Changes, version: int) -> None:
        if version > (self.stored_version() or 0):
            self._write(changes, version)

    def _versions(self) -> dict[int, str]:
        return _numbered(self._folders, rf"{_FOLDER}=(\d+)", self.place)

    def _write(self, changes: Changes, version: int) -> None:
        _put(self._folders, f"{_FOLDER}={version:06}", changes, version, self._session, self.place)


class ParquetSnapshots(Sink):
    """One folder `v000123` for each version that changed the view; `current.json`, written last, names the newest."""

    whole = True

    def __init__(self, view: str, path: AnyPath, session: Any, keep: int = 2) -> None:
        self.view = view
        self.place = f"the parquet snapshots `{path}`"
        self._path, self._folders, self._session, self._keep = path, folders_at(path), session, keep

    def columns(self) -> Columns | None:
        held = self.stored_version()
        return None if held is None else self._folders.columns(_version_name(held))

    def stored_version(self, *, announced: bool = False) -> int | None:
        pointer, text = self._path / POINTER, self._folders.read(POINTER)
        if text is None:
            _numbered(self._folders, r"v(\d+)", self.place)
            return None
        try:
            version = int(json.loads(text)["version"])
        except (ValueError, TypeError, KeyError):
            message = f"`{pointer}` is not a snapshot pointer"
            raise DataError(
                message, code="damaged-sink", help=f"remove `{self._path}`: the next run rewrites it"
            ) from None
        if not self._folders.is_whole(_version_name(version)):
            message = f"`{pointer}` names version {version}, whose directory is missing"
            raise DataError(message, code="damaged-sink", help=f"remove `{self._path}`: the next run rewrites it")
        return version

    def start(self, rows: Rows, version: int) -> None:
        self._folders.remove_leftovers()
        self._write(rows, version)

    def replace(self, rows: Rows, version: int) -> None:
        if version > (self.stored_version() or 0):
            self._write(rows, version)

    def _write(self, rows: Rows, version: int) -> None:
        name = _version_name(version)
        _put(self._folders, name, rows, version, self._session, self.place)
        reached(Point.POINTER)
        pointer = {"view": self.view, "version": version, "folder": name, "rows": len(rows)}
        with disk_writes(self.place):
            self._folders.write_json(POINTER, pointer)
        # One more snapshot than requested is kept: a reader that has just read the pointer still finds its folder
        # while one newer version is written.
        there = _numbered(self._folders, r"v(\d+)", self.place)
        with disk_writes(self.place):
            for old in sorted(there)[: -(self._keep + 1)]:
                self._folders.remove(there[old])


def _put(folders: Folders, name: str, data: Data, version: int, session: Any, place: str) -> None:
    """Write a folder from the driver, or by Spark if the rows stay there."""
    if stays_on_spark(data):
        with spark_writes(place):
            folders.put(name, frame_of(data, session, version), row_count(data))
    else:
        with disk_writes(place):
            folders.put(name, table_of(data, version), row_count(data))


def _version_name(version: int) -> str:
    return f"v{version:06}"


def _numbered(folders: Folders, pattern: str, place: str) -> dict[int, str]:
    """The folders by the number in their names; hidden files are ignored, any other entry is not ours."""
    found = {}
    for name, is_folder in folders.names().items():
        if name == POINTER:
            continue
        match = re.fullmatch(pattern, name)
        if match is None or not is_folder:
            raise not_ours(place)
        found[int(match[1])] = name
    return found
