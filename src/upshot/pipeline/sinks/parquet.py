"""Parquet sinks: a change log in folders by version, and snapshots of the view with a pointer to the newest."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from upshot.core.errors import DataError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import Changes
from upshot.pipeline.sinks.failures import spark_writes
from upshot.pipeline.sinks.folders import (
    parquet_columns,
    remove_leftovers,
    write_frame,
    write_json,
    write_table,
    written_aside,
)
from upshot.pipeline.sinks.sink import Columns, log_columns, not_ours, view_columns
from upshot.pipeline.sinks.tables import frame_of, log_frame, log_table, stays_on_spark, table_of
from upshot.pipeline.steps import Point, reached

POINTER = "current.json"

_FOLDER = "upshot_version"
"""Not `_version`: Arrow and pandas pass over whatever begins with an underscore."""


class ParquetLog:
    """One folder `upshot_version=000123` a version that changed the view. `_version` is a column of the files, as in
    any change log; readers of partitioned Parquet see the folders' number too and can skip by it."""

    is_table, whole = True, False

    def __init__(self, view: str, path: Path, session: Any) -> None:
        self.view = view
        self.place = f"the parquet change log `{path}`"
        self._path, self._session = path, session

    def columns(self) -> Columns | None:
        there = self._versions()
        return parquet_columns(there[max(there)]) if there else None

    def wanted(self, schema: Schema) -> Columns:
        return log_columns(schema)

    def held(self, *, announced: bool = False) -> int | None:
        return max(self._versions(), default=None)

    def start(self, rows: Rows, version: int) -> None:
        remove_leftovers(self._path)
        self._write(Changes(rows, Rows.of(rows.schema, [])), version)

    def apply(self, changes: Changes, version: int) -> None:
        if version > (self.held() or 0):
            self._write(changes, version)

    def replace(self, rows: Rows, version: int) -> None:
        raise NotImplementedError("a change log takes changes")

    def _versions(self) -> dict[int, Path]:
        return _numbered(self._path, rf"{_FOLDER}=(\d+)", self.place)

    def _write(self, changes: Changes, version: int) -> None:
        with written_aside(self._path / f"{_FOLDER}={version:06}") as folder:
            if stays_on_spark(changes.inserted) or stays_on_spark(changes.deleted):
                with spark_writes(self.place):
                    write_frame(log_frame(changes, self._session, version), folder)
            else:
                write_table(log_table(changes, version), folder)


class ParquetSnapshots:
    """One folder `v000123` a version that changed the view; `current.json`, written last, names the newest."""

    is_table = whole = True

    def __init__(self, view: str, path: Path, session: Any, keep: int = 2) -> None:
        self.view = view
        self.place = f"the parquet snapshots `{path}`"
        self._path, self._session, self._keep = path, session, keep

    def columns(self) -> Columns | None:
        held = self.held()
        return None if held is None else parquet_columns(self._folder(held))

    def wanted(self, schema: Schema) -> Columns:
        return view_columns(schema)

    def held(self, *, announced: bool = False) -> int | None:
        pointer = self._path / POINTER
        if not pointer.exists():
            _numbered(self._path, r"v(\d+)", self.place)
            return None
        try:
            version = int(json.loads(pointer.read_text(encoding="utf-8"))["version"])
        except (ValueError, TypeError, KeyError):
            message = f"`{pointer}` is not the pointer of a snapshot"
            raise DataError(message, code="damaged-sink", help=f"remove `{self._path}`: it is written again") from None
        if not self._folder(version).is_dir():
            message = f"`{pointer}` names version {version}, whose folder is gone"
            raise DataError(message, code="damaged-sink", help=f"remove `{self._path}`: it is written again")
        return version

    def start(self, rows: Rows, version: int) -> None:
        remove_leftovers(self._path)
        self._write(rows, version)

    def apply(self, changes: Changes, version: int) -> None:
        raise NotImplementedError("snapshots take whole views")

    def replace(self, rows: Rows, version: int) -> None:
        if version > (self.held() or 0):
            self._write(rows, version)

    def _folder(self, version: int) -> Path:
        return self._path / f"v{version:06}"

    def _write(self, rows: Rows, version: int) -> None:
        with written_aside(self._folder(version)) as folder:
            if stays_on_spark(rows):
                with spark_writes(self.place):
                    write_frame(frame_of(rows, self._session), folder)
            else:
                write_table(table_of(rows), folder)
        reached(Point.POINTER)
        pointer = {"view": self.view, "version": version, "folder": self._folder(version).name, "rows": len(rows)}
        write_json(self._path / POINTER, pointer)
        # What is older than the pointer and the snapshots kept beside it: a reader that has just read the pointer
        # still finds its folder while one newer version is written.
        there = _numbered(self._path, r"v(\d+)", self.place)
        for old in sorted(there)[: -(self._keep + 1)]:
            shutil.rmtree(there[old], ignore_errors=True)


def _numbered(folder: Path, pattern: str, place: str) -> dict[int, Path]:
    """The folders by the number in their names; hidden files do not count, anything else is not ours."""
    if not folder.exists():
        return {}
    found = {}
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name == POINTER:
            continue
        match = re.fullmatch(pattern, entry.name)
        if match is None or not entry.is_dir():
            raise not_ours(place)
        found[int(match[1])] = entry
    return found
