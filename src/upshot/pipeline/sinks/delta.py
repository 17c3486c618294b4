"""Delta sinks: the view kept current, and its change log. Who writes the tables is left open."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.changes import Changes
from upshot.pipeline.sinks.sink import Columns, log_columns, not_ours, view_columns
from upshot.pipeline.steps import Point, reached


class DeltaWriter(Protocol):
    """Tables at paths. Every write carries an application's name and version, which the table keeps with it in one
    commit: `version` tells them again."""

    def columns(self, path: str) -> Columns | None:
        """The table's columns; None if there is no table."""
        ...

    def occupied(self, path: str) -> bool:
        """Whether there is anything at the path, a table or not."""
        ...

    def version(self, path: str, application: str) -> int | None:
        """What the application last wrote; None if it never did, or there is no table."""
        ...

    def create(self, path: str, application: str, version: int, data: Any) -> None: ...

    def append(self, path: str, application: str, version: int, data: Any) -> None: ...

    def merge(self, path: str, application: str, version: int, data: Any, columns: list[str]) -> None:
        """Deletes the rows of `data` whose `_change` is -1, inserts those with +1."""
        ...

    def rows(self, rows: Rows) -> Any:
        """The rows as `create` takes them."""
        ...

    def changes(self, changes: Changes, version: int) -> Any:
        """The changes as `append` and `merge` take them."""
        ...


class _DeltaSink:
    is_table, whole = True, False

    def __init__(self, view: str, path: str, writer: DeltaWriter, application: str, kind: str) -> None:
        self.view = view
        self.place = f"the delta {kind} `{path}`"
        self._path, self._writer, self._application = path, writer, application

    def columns(self) -> Columns | None:
        return self._writer.columns(self._path)

    def held(self, *, announced: bool = False) -> int | None:
        held = self._writer.version(self._path, self._application)
        if held is None and self._writer.occupied(self._path) and not (announced and self.columns() is None):
            raise not_ours(self.place)
        return held

    def _create(self, version: int, data: Any) -> None:
        """Makes the table. Its files are written before its first version, so a start that died left files alone."""
        remove_fragments(Path(self._path))
        if self._writer.occupied(self._path):
            raise not_ours(self.place)
        reached(Point.CREATE)
        self._writer.create(self._path, self._application, version, data)

    def replace(self, rows: Rows, version: int) -> None:
        raise NotImplementedError("a delta table takes changes")


def remove_fragments(folder: Path) -> None:
    """Removes the files of a Delta table that never had a version; anything else stays."""
    log = folder / "_delta_log"
    if any(log.glob("[0-9]*.json")):
        return
    for pattern in ("part-*", ".part-*"):
        for file in folder.glob(pattern):
            file.unlink()
    shutil.rmtree(log, ignore_errors=True)


class DeltaView(_DeltaSink):
    """The view itself, kept current by merging exact changes."""

    def __init__(self, view: str, path: str, writer: DeltaWriter, pipeline: str) -> None:
        super().__init__(view, path, writer, f"upshot/{pipeline}/{view}", "table")

    def wanted(self, schema: Schema) -> Columns:
        return view_columns(schema)

    def start(self, rows: Rows, version: int) -> None:
        self._create(version, self._writer.rows(rows))

    def apply(self, changes: Changes, version: int) -> None:
        # deltalake takes a version that is there already as if it were new, so it is asked first.
        if version > (self.held() or 0):
            columns = list(changes.inserted.columns)
            data = self._writer.changes(changes, version)
            self._writer.merge(self._path, self._application, version, data, columns)


class DeltaLog(_DeltaSink):
    """Every change of the view, appended."""

    def __init__(self, view: str, path: str, writer: DeltaWriter, pipeline: str) -> None:
        super().__init__(view, path, writer, f"upshot/{pipeline}/{view}/changes", "change log")

    def wanted(self, schema: Schema) -> Columns:
        return log_columns(schema)

    def start(self, rows: Rows, version: int) -> None:
        self._create(version, self._writer.changes(Changes(rows, Rows.of(rows.schema, [])), version))

    def apply(self, changes: Changes, version: int) -> None:
        if version > (self.held() or 0):
            data = self._writer.changes(changes, version)
            self._writer.append(self._path, self._application, version, data)
