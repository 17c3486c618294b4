"""A copy of a view and its cursor in a file, written together, so that a client goes on where it was stopped."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from upshot.client.past_rows import RowsAt
from upshot.client.relations import Row, read_schema
from upshot.core.errors import EngineError, Error, UsageError
from upshot.core.json_values import JsonMisfit, row_reader, to_json, type_to_json
from upshot.core.rows import row_set
from upshot.core.schema import Schema

_FORMAT = "upshot-copy-1"


class SavedCopy:
    """One SQLite file, one client at a time. Each step of the copy is one transaction of it; a client that is killed
    finds the copy as it was after some step, and the cursor of that step."""

    def __init__(self, path: str | os.PathLike[str], view: str, where: str | None) -> None:
        """Opens the file, or makes it. One that follows something else, or is none of ours, is refused untouched."""
        self.path = Path(path)
        self._view, self._where = view, where or ""
        try:
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1.0)
        except sqlite3.Error as error:
            raise self._trouble(error) from None
        try:
            self._open()
        except sqlite3.Error as error:
            self._database.close()
            raise self._trouble(error) from None
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
            facts = {"format": _FORMAT, "view": self._view, "where": self._where}
            self._database.executemany("INSERT INTO copy VALUES (?, ?)", facts.items())
        elif "copy" not in tables or self._facts().get("format") != _FORMAT:
            raise self._refused("is not a saved copy", "wrong-state")
        elif (self._facts()["view"], self._facts()["where"]) != (self._view, self._where):
            raise self._refused(f"is a copy of `{self._facts()['where'] or self._facts()['view']}`", "wrong-state")
        execute("COMMIT")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")

    def _facts(self) -> dict[str, str]:
        return dict(self._database.execute("SELECT name, value FROM copy"))

    def kept(self) -> RowsAt | None:
        """The copy in the file, None if it is new."""
        try:
            facts = self._facts()
            if "version" not in facts:
                return None
            schema = read_schema(self._view, json.loads(facts["columns"]))
            read = row_reader(schema)
            rows = row_set(read(json.loads(text)) for (text,) in self._database.execute("SELECT content FROM row"))
            return RowsAt(int(facts["version"]), facts["epoch"], schema, rows)
        except sqlite3.Error as error:
            raise self._trouble(error) from None
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
        """Writes a step; `whole`: `inserted` is everything there is."""
        columns = json.dumps([{"name": c.name, "type": type_to_json(c.type)} for c in schema.columns])
        facts = {"version": str(version), "epoch": epoch, "columns": columns}
        execute, execute_many = self._database.execute, self._database.executemany
        try:
            execute("BEGIN")
            if whole:
                execute("DELETE FROM row")
            execute_many("DELETE FROM row WHERE content = ?", ((_text(row),) for row in deleted))
            execute_many("INSERT OR IGNORE INTO row VALUES (?)", ((_text(row),) for row in inserted))
            execute_many("INSERT OR REPLACE INTO copy VALUES (?, ?)", facts.items())
            execute("COMMIT")
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def close(self) -> None:
        self._database.close()

    def _refused(self, words: str, code: str) -> UsageError:
        return UsageError(f"`{self.path}` {words}", code=code, help="name another file, or remove this one")

    def _trouble(self, error: sqlite3.Error) -> Error:
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
    """A row as the key of its line: equal rows have the same text."""
    return json.dumps([to_json(_one_zero(value)) for value in row], ensure_ascii=False, separators=(",", ":"))


def _one_zero(value: Any) -> Any:
    return 0.0 if value.__class__ is float and value == 0.0 else value
