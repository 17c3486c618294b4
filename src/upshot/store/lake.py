"""A store on a lake: its commits in a Delta table, its large changes and snapshots in Parquet files beside it.

    uri/log/         the Delta table: one numbered record a commit; occasionally a record with the whole log
    uri/deltas/      Parquet folders of changes too large for a record
    uri/snapshots/   Parquet folders with all rows

The process that has it open works on a copy of the log in a temporary directory, a SQLite database like that of a local
store. Every transaction on it is written to the lake as a record of statements and values before it commits locally;
opening the store replays the records. A process that opens the store writes a record first: the previous owner cannot
write any more.
"""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from upshot.core.errors import EngineError, UsageError
from upshot.spark.lake_path import LakePath
from upshot.store.errors import damaged, failed
from upshot.store.folders import DELTAS, LOG, SNAPSHOTS
from upshot.store.log import Log
from upshot.store.record_table import BASE, STATEMENTS, Record, RecordTable, record_table

RECORDS = "log"
_MOST_RECORDS = 200
"""Records since the last one that holds all before it; then another one is written, if these take as much room."""

Statement = tuple[str, Sequence[Any]]


class LakeLog(Log):
    """The log in a temporary directory, each of whose transactions is a record on the lake. A `lazy` transaction is
    written with the next one that is not."""

    def __init__(self, root: Path, table: RecordTable, last: int) -> None:
        super().__init__(root)
        # It is a copy, so it needs no syncing.
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._table, self._last = table, last
        self._lazy_statements: list[Statement] = []
        self._is_synced = True
        """False after a failed write, which may have reached the lake."""
        self._records = self._bytes = 0

    @contextmanager
    def changing(self, *, lazy: bool = False) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with self._guard:
            self._resolve_failed_write()
            done: list[Statement] = []
            with super().changing(lazy=True) as execute:

                def noted(statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
                    done.append((statement, values))
                    return execute(statement, values)

                yield noted
                if not lazy:
                    # Before the local commit: the lake decides.
                    record = self._write(STATEMENTS, _encoded([*self._lazy_statements, *done]))
            if lazy:
                self._lazy_statements += done
                return
            self._count(record)
            if self._records >= _MOST_RECORDS:
                self._compact()

    def _write(self, kind: str, data: bytes) -> Record:
        record = Record(self._last + 1, kind, data)
        self._is_synced = False
        if kind == BASE:
            self._table.replace(record)
        else:
            self._table.append(record)
        return record

    def _count(self, record: Record) -> None:
        """The record is on the lake and in the copy."""
        self._last, self._lazy_statements, self._is_synced = record.number, [], True
        self._records = 0 if record.kind == BASE else self._records + 1
        self._bytes = 0 if record.kind == BASE else self._bytes + len(record.data)

    def _resolve_failed_write(self) -> None:
        """After a failed write: if it reached the lake, apply it to the copy, and write the next record after it.
        Reading its number here also prevents it from arriving later."""
        found = None if self._is_synced else self._table.find(self._last + 1)
        if found is not None:
            if found.kind == STATEMENTS:
                with super().changing(lazy=True) as execute:
                    # It includes the lazy statements before it; newer ones follow.
                    for text, values in [*_decoded(found.data), *self._lazy_statements]:
                        execute(text, values)
            waiting = self._lazy_statements
            self._count(found)
            self._lazy_statements = waiting

    def _compact(self) -> None:
        """Write a record with the whole log when the records since the last one take as much room. A failed write is
        repeated after the next commit."""
        with self._guard:
            whole = zlib.compress(self._connection.serialize())
            if len(whole) > max(self._bytes, _MOST_RECORDS << 12):
                self._records = 0
                return
            with suppress(OSError):
                self._count(self._write(BASE, whole))


def _encoded(statements: Sequence[Statement]) -> bytes:
    content = [[text, [_value(value) for value in values]] for text, values in statements]
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode())


def _value(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _decoded(data: bytes) -> Iterator[Statement]:
    for text, values in json.loads(zlib.decompress(data)):
        yield text, [base64.b64decode(value["bytes"]) if isinstance(value, dict) else value for value in values]


def replayed(root: Path, records: Sequence[Record], path: LakePath) -> int:
    """Replay the records into a new log; the number of the last one, -1 if there is none."""
    if not records:
        return -1
    if records[0].kind != BASE:
        raise damaged(f"`{path / RECORDS}` does not begin with a whole log")
    connection = sqlite3.connect(root / LOG, isolation_level=None)
    try:
        number = records[0].number
        for record in records:
            if record.number != number:
                raise damaged(f"record {number} of `{path / RECORDS}` is missing")
            if record.kind == BASE:
                _restore(connection, zlib.decompress(record.data))
            else:
                connection.execute("BEGIN")
                for text, values in _decoded(record.data):
                    connection.execute(text, values)
                connection.execute("COMMIT")
            number += 1
    except (sqlite3.Error, zlib.error, ValueError) as error:
        raise damaged(f"record {number} of `{path / RECORDS}` cannot be read: {error}") from error
    finally:
        connection.close()
    return records[-1].number


def _restore(connection: sqlite3.Connection, whole: bytes) -> None:
    source = sqlite3.connect(":memory:")
    try:
        source.deserialize(_unlogged(whole))
        source.backup(connection)
    finally:
        source.close()


def _unlogged(whole: bytes) -> bytes:
    """The database without write-ahead logging, which a database in memory cannot have."""
    return whole[:18] + b"\x01\x01" + whole[20:]


def whole_log(root: Path) -> bytes:
    """The first record of a new log."""
    connection = sqlite3.connect(root / LOG)
    try:
        return zlib.compress(connection.serialize())
    finally:
        connection.close()


class Mirror:
    """The folders of a store on a lake: written locally first, uploaded before a record names them, fetched on use.
    `suffix` ends the names of this process's folders: a previous owner may still be writing."""

    def __init__(self, path: LakePath, root: Path, token: str) -> None:
        self._path, self._root = path, root
        self.suffix = f"-{token[:8]}"

    def upload(self, folder: Path) -> None:
        target = self._on_lake(folder)
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.startswith((".", "_")):
                self._path.files.upload(file, f"{target.uri}/{file.relative_to(folder).as_posix()}")

    def fetch(self, folder: Path, names: Iterable[str]) -> None:
        """Download the missing files among these."""
        target = self._on_lake(folder)
        for name in names:
            if not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(EngineError):
                    # A missing file is reported by the comparison with its record.
                    self._path.files.download(f"{target.uri}/{name}", folder / name)

    def remove(self, folder: Path) -> None:
        self._on_lake(folder).delete()

    def names(self, folder: str) -> list[str]:
        return [entry.name for entry in (self._path / folder).entries() if entry.is_folder]

    def _on_lake(self, folder: Path) -> LakePath:
        found = self._path
        for part in folder.relative_to(self._root).parts:
            found = found / part
        return found


class TemporaryRoot:
    """Takes the place of the lock: on a lake, the last process that opens the store owns it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="upshot-store-"))

    def release(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def refuse_others_on_lake(path: LakePath) -> None:
    """`UsageError` if the path has anything else than a store."""
    try:
        there = {entry.name for entry in path.entries()}
    except EngineError as error:
        raise failed(f"be opened at `{path}`", error.message) from error
    foreign = sorted(there - {RECORDS, DELTAS, SNAPSHOTS})
    if foreign:
        raise UsageError(
            f"`{path}` holds `{foreign[0]}` and no store",
            code="not-a-store",
            help="name a database directory, or a new or empty one",
        )


def load(session: Any, path: LakePath, root: Path) -> tuple[RecordTable, int]:
    """The table of a store's records, and the log replayed in `root`; the number of the last record, -1 before the
    first."""
    try:
        table = record_table(session, path / RECORDS)
        return table, replayed(root, table.load(), path)
    except OSError as error:
        raise failed(f"be opened at `{path}`", error) from error
