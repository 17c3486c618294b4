"""A store on a lake: its commits in a Delta table, its large changes and snapshots in Parquet files beside it.

    uri/log/         the Delta table: one record a commit, numbered; now and then one that holds all before it
    uri/deltas/      Parquet folders of changes too large for a record
    uri/snapshots/   Parquet folders with all rows

The process that has it open works on a copy of the log in a temporary directory, a SQLite database as that of a store
on a disk. Every transaction of it goes to the lake as a record, statements and values, before it ends here; opening the
store reads the records and does them again. Whoever opens the store writes a record first: who had it open before
cannot write another one.
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
from upshot.store.folders import DELTAS, LOG, SNAPSHOTS
from upshot.store.log import Log
from upshot.store.record_table import BASE, STATEMENTS, Record, RecordTable, record_table
from upshot.store.trouble import damaged, failed

RECORDS = "log"
_MOST_RECORDS = 200
"""Records since the last one that holds all before it; then another one is written, if these take as much room."""

Statement = tuple[str, Sequence[Any]]


class LakeLog(Log):
    """The log in a temporary directory, each of whose transactions is a record on the lake. Transactions that are
    `lazy` go with the next one that is not."""

    def __init__(self, root: Path, table: RecordTable, last: int) -> None:
        super().__init__(root)
        # What is here is a copy: it need not be on the disk before anything.
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._table, self._last = table, last
        self._waiting: list[Statement] = []
        self._is_settled = True
        """No write failed since the last record: one that did may have reached the lake."""
        self._records = self._bytes = 0

    @contextmanager
    def changing(self, *, lazy: bool = False) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with self._guard:
            self._settle()
            done: list[Statement] = []
            with super().changing(lazy=True) as execute:

                def noted(statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
                    done.append((statement, values))
                    return execute(statement, values)

                yield noted
                if not lazy:
                    # Before the block is left: what the lake does not have does not count here either.
                    record = self._write(STATEMENTS, _encoded([*self._waiting, *done]))
            if lazy:
                self._waiting += done
                return
            self._count(record)
            if self._records >= _MOST_RECORDS:
                self._put_together()

    def _write(self, kind: str, data: bytes) -> Record:
        record = Record(self._last + 1, kind, data)
        self._is_settled = False
        if kind == BASE:
            self._table.replace(record)
        else:
            self._table.append(record)
        return record

    def _count(self, record: Record) -> None:
        """The record is on the lake and in the copy."""
        self._last, self._waiting, self._is_settled = record.number, [], True
        self._records = 0 if record.kind == BASE else self._records + 1
        self._bytes = 0 if record.kind == BASE else self._bytes + len(record.data)

    def _settle(self) -> None:
        """After a write that failed: if the lake has it, the copy gets it as well, and the next record follows on it.
        From then on it cannot arrive any more."""
        found = None if self._is_settled else self._table.find(self._last + 1)
        if found is not None:
            if found.kind == STATEMENTS:
                with super().changing(lazy=True) as execute:
                    # What waited when it was written is in it; what waits since is newer.
                    for text, values in [*_decoded(found.data), *self._waiting]:
                        execute(text, values)
            waiting = self._waiting
            self._count(found)
            self._waiting = waiting

    def _put_together(self) -> None:
        """A record that holds all before it, once those take as much room as it does. One that fails is tried again
        after the next commit, which is made already."""
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
    """Makes the log from its records; the number of the last one, -1 if there is none."""
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
    """The database as one that has no log of its own beside it: a database in memory can have none."""
    return whole[:18] + b"\x01\x01" + whole[20:]


def whole_log(root: Path) -> bytes:
    """The first record of a log that was just made."""
    connection = sqlite3.connect(root / LOG)
    try:
        return zlib.compress(connection.serialize())
    finally:
        connection.close()


class Mirror:
    """The folders of a store on a lake: written here first, and there before anything speaks of them; fetched when
    they are needed. `suffix` ends the names of the folders that this process makes: one that was taken over may still
    be writing."""

    def __init__(self, path: LakePath, root: Path, token: str) -> None:
        self._path, self._root = path, root
        self.suffix = f"-{token[:8]}"

    def upload(self, folder: Path) -> None:
        target = self._on_lake(folder)
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not file.name.startswith((".", "_")):
                self._path.files.upload(file, f"{target.uri}/{file.relative_to(folder).as_posix()}")

    def fetch(self, folder: Path, names: Iterable[str]) -> None:
        """Makes these files of a folder be here."""
        target = self._on_lake(folder)
        for name in names:
            if not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(EngineError):
                    # What is not there is reported by who compares the files with the record of them.
                    self._path.files.download(f"{target.uri}/{name}", folder / name)

    def remove(self, folder: Path) -> None:
        self._on_lake(folder).delete()

    def names(self, folder: str) -> list[str]:
        """The folders below `deltas` or `snapshots`."""
        return [entry.name for entry in (self._path / folder).entries() if entry.is_folder]

    def _on_lake(self, folder: Path) -> LakePath:
        found = self._path
        for part in folder.relative_to(self._root).parts:
            found = found / part
        return found


class TemporaryRoot:
    """Takes the place of a lock: on a lake who comes last has the store."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="upshot-store-"))

    def release(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def refuse_others_on_lake(path: LakePath) -> None:
    """`UsageError` if there is something else at the path than a store."""
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
    """The table of a store's records, and the log made of them in `root`; the number of the last record, -1 before the
    first."""
    try:
        table = record_table(session, path / RECORDS)
        return table, replayed(root, table.load(), path)
    except OSError as error:
        raise failed(f"be opened at `{path}`", error) from error
