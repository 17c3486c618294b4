"""A copy of a view with its cursor in a file, from which a client resumes."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from upshot.client.relations import Row, read_schema
from upshot.client.stream import RowsAt
from upshot.core.errors import EngineError, Error, UsageError
from upshot.core.json_values import JsonMisfit, row_reader, to_json, type_to_json
from upshot.core.rows import row_set
from upshot.core.schema import Schema

_FORMAT = "upshot-copy-1"


class SavedCopy:
    """A SQLite file for one client at a time. Each step of the copy is one transaction: after a crash the file has the
    rows and the cursor of some step."""

    def __init__(self, path: str | os.PathLike[str], view: str, where: str | None) -> None:
        """Open or create the file. `UsageError` if it is not a copy of this view."""
        self.path = Path(path)
        self._view, self._where = view, where or ""
        try:
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1.0)
        except sqlite3.Error as error:
            raise self._error_of(error) from None
        try:
            self._open()
        except sqlite3.Error as error:
            self._database.close()
            raise self._error_of(error) from None
        except Error:
            self._database.close()
            raise

    def _open(self) -> None:
        execute = self._database.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("BEGIN EXCLUSIVE")
        tables = {name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            execute("CREATE TABLE copy (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
            execute("CREATE TABLE row (content TEXT PRIMARY KEY) WITHOUT ROWID")
            fields = {"format": _FORMAT, "view": self._view, "where": self._where}
            self._database.executemany("INSERT INTO copy VALUES (?, ?)", fields.items())
        elif "copy" not in tables or self._fields().get("format") != _FORMAT:
            raise self._refused("is not a saved copy", "wrong-state")
        elif (self._fields()["view"], self._fields()["where"]) != (self._view, self._where):
            raise self._refused(f"is a copy of `{self._fields()['where'] or self._fields()['view']}`", "wrong-state")
        execute("COMMIT")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")

    def _fields(self) -> dict[str, str]:
        return dict(self._database.execute("SELECT name, value FROM copy"))

    def load(self) -> RowsAt | None:
        """The saved copy, None if the file is new."""
        try:
            fields = self._fields()
            if "version" not in fields:
                return None
            schema = read_schema(self._view, json.loads(fields["columns"]))
            read = row_reader(schema)
            rows = row_set(read(json.loads(text)) for (text,) in self._database.execute("SELECT content FROM row"))
            return RowsAt(int(fields["version"]), fields["epoch"], schema, rows)
        except sqlite3.Error as error:
            raise self._error_of(error) from None
        except (KeyError, ValueError, JsonMisfit):
            raise self._refused("is damaged", "wrong-state") from None

    def save(
        self,
        version: int,
        epoch: str,
        schema: Schema,
        inserted: Iterable[Row],
        deleted: Iterable[Row],
        *,
        whole: bool = False,
    ) -> None:
        """Write a step. With `whole`, `inserted` are all rows."""
        columns = json.dumps([{"name": c.name, "type": type_to_json(c.type)} for c in schema.columns])
        fields = {"version": str(version), "epoch": epoch, "columns": columns}
        execute, execute_many = self._database.execute, self._database.executemany
        try:
            execute("BEGIN")
            if whole:
                execute("DELETE FROM row")
            execute_many("DELETE FROM row WHERE content = ?", ((_text(row),) for row in deleted))
            execute_many("INSERT OR IGNORE INTO row VALUES (?)", ((_text(row),) for row in inserted))
            execute_many("INSERT OR REPLACE INTO copy VALUES (?, ?)", fields.items())
            execute("COMMIT")
        except sqlite3.Error as error:
            raise self._error_of(error) from None

    def close(self) -> None:
        self._database.close()

    def _refused(self, fault: str, code: str) -> UsageError:
        return UsageError(f"`{self.path}` {fault}", code=code, help="name another file, or remove this one")

    def _error_of(self, error: sqlite3.Error) -> Error:
        if "locked" in str(error):
            return UsageError(
                f"`{self.path}` is in use by another client",
                code="state-in-use",
                help="use a separate file for each client",
            )
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
            return self._refused("is not a copy that Upshot has saved", "wrong-state")
        return EngineError(
            f"the copy cannot be saved in `{self.path}`: {str(error).lower()}",
            code="state-failed",
            help="make the file and its directory writable with free space, then follow again from what is saved",
        )


def _text(row: Row) -> str:
    """The text of a row, the same for equal rows."""
    return json.dumps([to_json(_one_zero(value)) for value in row], ensure_ascii=False, separators=(",", ":"))


def _one_zero(value: Any) -> Any:
    return 0.0 if value.__class__ is float and value == 0.0 else value
