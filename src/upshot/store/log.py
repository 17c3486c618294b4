"""The log: a SQLite database with one row per commit. A committed row is on disk."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upshot.core.errors import UsageError
from upshot.store.acknowledged import Mark, MarkFile
from upshot.store.entries import (
    CHANGES,
    COMMITS,
    CURSORS,
    DEFINITIONS,
    FIRINGS,
    LOG_TABLES,
    OUTBOX,
    RECORDS,
    SNAPSHOTS,
    ChangeRow,
    CommitRow,
    DefinitionRow,
    Encoded,
    FiringRow,
    LogTable,
    OutboxRow,
    R,
    SnapshotRow,
)
from upshot.store.errors import damaged, forgotten
from upshot.store.folders import LOG, NEW_LOG, sync

_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_LATER = tuple(statement for table in LOG_TABLES if table.later for statement in table.statements())

FORMAT = 1
APPLICATION = 0x55505348
"""`UPSH`: the application id that `file` and SQLite show."""

FIRINGS_SINCE = "firings_since"
"""The key of the version after which firings are logged."""
_HEADER = 100
_PAGE = 256
"""Commits that are read at a time."""
_WAL_BYTES = 16 << 20
"""The most bytes of SQLite's write-ahead log on disk after a checkpoint."""
_IN_FOLDERS = "(substr(came, 1, 1) = X'50' OR substr(went, 1, 1) = X'50')"
"""The condition for changes with a side in a Parquet directory."""
_LAST = (1 << 63) - 1
_BATCHES = "#batches"
"""The kind of the records with the last batch of each stream whose commit was dropped."""
_LAST_BATCHES = (
    "SELECT json_extract(meta, '$.stream'), max(json_extract(meta, '$.batch')) FROM commits "
    "WHERE json_type(meta, '$.stream') = 'text' AND json_type(meta, '$.batch') = 'integer'"
)
_LAST_META = "#last-meta"
"""The kind of the record with the newest `meta` whose commit was dropped."""
_WRITES = "#writes"
"""The kind of the record that counts the writes outside of commits."""


def checksum(row: Iterable[Any]) -> int:
    return zlib.crc32(b"\x1f".join(value if isinstance(value, bytes) else str(value).encode() for value in row))


def header_format(root: Path) -> int | None:
    """The format in the header of a log, read without opening it; None for another database."""
    with (root / LOG).open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(b"SQLite format 3\0"):
        raise damaged(f"`{root / LOG}` is not a log")
    if int.from_bytes(header[68:72], "big") != APPLICATION:
        return None
    return int.from_bytes(header[60:64], "big")


def create_log(root: Path, meta: dict[str, str]) -> None:
    """Create an empty log. It gets its name when it is complete."""
    for file in root.glob(NEW_LOG + "*"):
        file.unlink()
    path = root / NEW_LOG
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        tables = ";".join(statement for table in LOG_TABLES for statement in table.statements())
        connection.executescript(f"BEGIN; {_META}; {tables};")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    path.rename(root / LOG)
    sync(root)


class Log:
    """The log of one store. Thread-safe. Reading raises `store-damaged` if the file or a checksum is wrong; writing
    raises SQLite's errors, and then nothing is written."""

    def __init__(self, root: Path, *, read_only: bool = False, name: str = LOG) -> None:
        path = (root / name).resolve()
        mode = "mode=ro" if read_only else "mode=rw"
        if read_only and not path.with_name(name + "-wal").exists():
            # No other process has the store open. Without this SQLite would create two files beside the log.
            mode = "immutable=1"
        self._guard = threading.RLock()
        with _reading():
            self._connection = sqlite3.connect(
                f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")
        self._lazy = False
        self._mark: MarkFile | None = None
        self._reached = Mark()

    def begin(self, root: Path) -> None:
        """Start writing, and marking acknowledged commits."""
        self._reached = self.reached()
        self._mark = MarkFile(root, self._reached)

    def close(self) -> None:
        with self._guard:
            self._connection.close()
            if self._mark is not None:
                self._mark.close()

    # ---- writing ------------------------------------------------------------------------------------

    def append(self, group: Sequence[Encoded]) -> None:
        """Write consecutive commits with one write."""
        with self._guard:
            with self.changing() as execute:
                for encoded in group:
                    for table, row in encoded.rows():
                        _insert(execute, table, row)
                    _remove_tasks(execute, [(task.version, task.number) for task in encoded.done])
            self._acknowledge(Mark(group[-1].commit.version, self._reached.writes))

    def remove_tasks(self, done: Sequence[tuple[int, int]]) -> None:
        """Remove completed tasks from the outbox."""
        with self._counted() as execute:
            _remove_tasks(execute, done)

    def rename(self, identity: str) -> None:
        """Change the identity of the store, so that subscribers with lost versions start again from a snapshot."""
        with self.changing() as execute:
            execute("INSERT OR REPLACE INTO meta VALUES ('identity', ?)", (identity,))

    def complete(self, identity: str) -> None:
        """Add the tables that older versions of Upshot did not create, and an identity."""
        started = 0 if self._has_table("firings") else self.last_version()
        with self.changing() as execute:
            for statement in _LATER:
                execute(statement)
            execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (FIRINGS_SINCE, str(started)))
            execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (identity,))

    def put_records(self, kind: str, texts: Mapping[str, str | None], *, lazy: bool = False) -> None:
        """Write records of one kind atomically; None removes a record."""
        with self.changing(lazy=True) if lazy else self._counted() as execute:
            for id, text in texts.items():
                if text is None:
                    execute("DELETE FROM records WHERE kind = ? AND id = ?", (kind, id))
                else:
                    _replace(execute, RECORDS, (kind, id, text))

    def put_cursors(self, versions: Mapping[str, int | None], *, lazy: bool = False) -> None:
        """Write cursors atomically; None removes a cursor."""
        with self.changing(lazy=True) if lazy else self._counted() as execute:
            for name, version in versions.items():
                if version is None:
                    execute("DELETE FROM cursors WHERE name = ?", (name,))
                else:
                    _replace(execute, CURSORS, (name, version))

    def remove_from(self, version: int, done: Sequence[OutboxRow]) -> None:
        """Remove this version and later ones; the tasks in `done` are pending again. Something is always written, so
        that a record that an interrupted write left in SQLite's write-ahead log cannot come back."""
        with self._guard:
            if version <= self._reached.version and self._mark is not None:
                lower = Mark(version - 1, self._reached.writes)
                self._mark.lower(lower)
                self._reached = lower
        with self.changing() as execute:
            execute("INSERT OR REPLACE INTO meta VALUES ('retracted', ?)", (str(version),))
            for table in LOG_TABLES:
                if table.of_commit:
                    execute(f"DELETE FROM {table.name} WHERE version >= ?", (version,))  # noqa: S608 - our names
            for task in done:
                _replace(execute, OUTBOX, task)

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        with self.changing() as execute:
            _replace(execute, SNAPSHOTS, snapshot)

    def remove_snapshots(self, versions: Sequence[int]) -> None:
        with self.changing() as execute:
            for version in versions:
                execute("DELETE FROM snapshots WHERE version = ?", (version,))

    def drop(self, until: int) -> list[int]:
        """Remove the commits up to this version, but not definitions that later commits need. Returns the removed
        versions that have folders, which the caller may delete."""
        folders = self.versions_with_folders(until)
        query = "SELECT meta FROM commits WHERE version <= ? AND meta IS NOT NULL ORDER BY version DESC LIMIT 1"
        metas = self._fetch(query, (until,))
        batches = self._fetch(f"{_LAST_BATCHES} AND version <= ? GROUP BY 1", (until,))
        # Without folders it is harmless if a power failure restores the commits.
        with self.changing(lazy=not folders) as execute:
            for (meta,) in metas:
                _replace(execute, RECORDS, (_LAST_META, "", meta))
            for stream, batch in batches:
                _replace(execute, RECORDS, (_BATCHES, stream, str(batch)))
            for table in LOG_TABLES:
                if table.of_history:
                    execute(f"DELETE FROM {table.name} WHERE version <= ?", (until,))  # noqa: S608 - our names
            execute(
                "DELETE FROM definitions WHERE version < (SELECT max(version) FROM definitions WHERE version <= ?)",
                (until,),
            )
        return folders

    def shrink(self, pages: int) -> None:
        """Return this many free pages to the file system; none if the log was created without incremental vacuum."""
        with self._guard:
            self._set_lazy(True)
            self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()

    def _set_lazy(self, lazy: bool) -> None:
        """Set whether a transaction of SQLite may end before it is on disk. The next one that may not syncs it too, so
        the order is kept."""
        if lazy is not self._lazy:
            self._connection.execute(f"PRAGMA synchronous={'NORMAL' if lazy else 'FULL'}")
            self._lazy = lazy

    def _acknowledge(self, mark: Mark) -> None:
        self._reached = mark
        if self._mark is not None:
            self._mark.advance(mark)

    @contextmanager
    def _counted(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """As `changing`, for a write outside of commits: it gets a number, so that its loss is detected."""
        with self._guard:
            writes = self._reached.writes + 1
            with self.changing() as execute:
                _replace(execute, RECORDS, (_WRITES, "", str(writes)))
                yield execute
            self._acknowledge(Mark(self._reached.version, writes))

    @contextmanager
    def changing(self, *, lazy: bool = False) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One transaction of SQLite, on disk when the block ends unless it is `lazy`."""
        with self._guard:
            execute = self._connection.execute
            if self._connection.in_transaction:
                execute("ROLLBACK")
            self._set_lazy(lazy)
            execute("BEGIN IMMEDIATE")
            try:
                yield execute
                execute("COMMIT")
            except BaseException:
                # A failed COMMIT may have ended the transaction by itself.
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise

    # ---- reading ------------------------------------------------------------------------------------

    def meta(self) -> dict[str, str]:
        return dict(self._fetch("SELECT key, value FROM meta"))

    def reached(self) -> Mark:
        """The last version in the log, and its number of other writes."""
        writes = self.records(_WRITES).get("", "0") if self._has_table("records") else "0"
        return Mark(self.last_version(), int(writes))

    def last_version(self) -> int:
        """0 if there is no commit."""
        ((version,),) = self._fetch("SELECT coalesce(max(version), 0) FROM commits")
        return int(version)

    def first_version(self) -> int:
        """The oldest commit in the log; 0 if there is none."""
        ((version,),) = self._fetch("SELECT coalesce(min(version), 0) FROM commits")
        return int(version)

    def last_meta(self) -> str | None:
        """The `meta` of the newest commit that has one."""
        rows = self._rows(COMMITS, "WHERE meta IS NOT NULL ORDER BY version DESC LIMIT 1")
        if rows:
            return rows[0].meta
        return self.records(_LAST_META).get("") if self._has_table("records") else None

    def last_batch(self, stream: str) -> int | None:
        """The last committed batch of a stream."""
        query = f"{_LAST_BATCHES} AND json_extract(meta, '$.stream') = ? GROUP BY 1"
        rows = self._fetch(query, (stream,))
        if rows:
            return int(rows[0][1])
        found = self.records(_BATCHES).get(stream)
        return None if found is None else int(found)

    def kept(self) -> tuple[int, int]:
        """The number of commits, and the bytes of their changes."""
        ((commits, size),) = self._fetch("SELECT count(*), coalesce(sum(bytes), 0) FROM commits")
        return int(commits), int(size)

    def past(self, count: int) -> list[CommitRow]:
        return self._rows(COMMITS, "ORDER BY version LIMIT ?", (count,))

    def free_pages(self) -> tuple[int, int]:
        tables = "pragma_auto_vacuum, pragma_freelist_count, pragma_page_count"
        ((kind, free, pages),) = self._fetch(f"SELECT auto_vacuum, freelist_count, page_count FROM {tables}")  # noqa: S608
        return int(free) if kind else 0, int(pages)

    def commits(self, after: int, until: int, *, reverse: bool = False) -> Iterator[CommitRow]:
        """The commits with after < version ≤ until, read in pages, so that a slow reader blocks no other."""
        order = "DESC" if reverse else "ASC"
        while after < until:
            which = f"WHERE version > ? AND version <= ? ORDER BY version {order} LIMIT ?"
            with self._guard:
                self._refuse_dropped(after)
                page = self._rows(COMMITS, which, (after, until, _PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            after, until = (after, page[-1].version - 1) if reverse else (page[-1].version, until)

    def _refuse_dropped(self, after: int) -> None:
        """`UsageError` if commits after this version were dropped, possibly since reading began."""
        first = self.first_version()
        if after < first - 1:
            raise forgotten(after, first - 1)

    def changes(self, version: int) -> list[ChangeRow]:
        return self._rows(CHANGES, "WHERE version = ? ORDER BY relation", (version,))

    def changes_of(self, relation: str, after: int, until: int) -> Iterator[ChangeRow]:
        which = "WHERE relation = ? AND version > ? AND version <= ? ORDER BY version LIMIT ?"
        while after < until:
            with self._guard:
                self._refuse_dropped(after)
                page = self._rows(CHANGES, which, (relation, after, until, _PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].version

    def definitions(self, after: int, until: int) -> list[DefinitionRow]:
        return self._rows(DEFINITIONS, "WHERE version > ? AND version <= ? ORDER BY version", (after, until))

    def definition_at(self, version: int) -> DefinitionRow | None:
        """The program after this version; None before the first."""
        rows = self._rows(DEFINITIONS, "WHERE version <= ? ORDER BY version DESC LIMIT 1", (version,))
        return rows[0] if rows else None

    def firings(self, version: int) -> list[FiringRow]:
        found = self._rows(FIRINGS, "WHERE version = ? ORDER BY number", (version,))
        if [row.number for row in found] != list(range(len(found))):
            raise damaged(f"`{LOG}` lacks a firing of version {version}")
        return found

    def firings_of(self, rule: str, after: int, until: int) -> list[FiringRow]:
        """The firings of one rule with after < version ≤ until."""
        which = "WHERE rule = ? AND version > ? AND version <= ? ORDER BY version, number"
        with self._guard:
            self._refuse_dropped(after)
            return self._rows(FIRINGS, which, (rule, after, until))

    def firings_since(self) -> int:
        """The version after which firings are logged; older stores log them from the first opening with this version of
        Upshot."""
        if not self._has_table("firings"):
            return self.last_version()
        return int(self.meta().get(FIRINGS_SINCE, "0"))

    def tasks(self) -> list[OutboxRow]:
        """The pending tasks, oldest first."""
        return self._rows(OUTBOX, "ORDER BY version, number")

    def task(self, version: int, number: int) -> OutboxRow | None:
        rows = self._rows(OUTBOX, "WHERE version = ? AND number = ?", (version, number))
        return rows[0] if rows else None

    def records(self, kind: str) -> dict[str, str]:
        """The texts of one kind, by id."""
        return {id: text for _, id, text in self._rows(RECORDS, "WHERE kind = ? ORDER BY id", (kind,))}

    def kinds_of_records(self) -> list[str]:
        return [kind for (kind,) in self._fetch("SELECT DISTINCT kind FROM records ORDER BY kind")]

    def cursors(self) -> dict[str, int]:
        return dict(self._rows(CURSORS, "ORDER BY name"))

    def check_small(self) -> None:
        """Raise if a table is damaged whose rows are not counted: a row could be missing silently. A read-only log of
        an older version lacks some of the tables."""
        for table in filter(self._has_table, ("meta", "outbox", "records", "cursors")):
            for (found,) in self._fetch(f"PRAGMA integrity_check({table})"):
                if found != "ok":
                    raise damaged(f"`{LOG}` cannot be read: {found} in `{table}`")
        if self._has_table("cursors"):
            self.cursors()

    def _has_table(self, name: str) -> bool:
        return bool(self._fetch("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)))

    def snapshots(self) -> list[SnapshotRow]:
        """Newest first."""
        return self._rows(SNAPSHOTS, "ORDER BY version DESC")

    def versions_with_folders(self, until: int | None = None) -> list[int]:
        """The commits with rows in Parquet folders, up to this version or all."""
        query = f"SELECT DISTINCT version FROM changes WHERE version <= ? AND {_IN_FOLDERS}"  # noqa: S608
        return [version for (version,) in self._fetch(query, (_LAST if until is None else until,))]

    def has_folders(self, version: int) -> bool:
        query = f"SELECT 1 FROM changes WHERE version = ? AND {_IN_FOLDERS}"  # noqa: S608
        return bool(self._fetch(query, (version,)))

    def _rows(self, table: LogTable[R], which: str, values: Sequence[Any] = ()) -> list[R]:
        """The rows of a table, after their checksums were compared."""
        query = f"SELECT * FROM {table.name} {which}"  # noqa: S608 - the names of tables are ours
        return [table.row(_checked(row, table.word)) for row in self._fetch(query, values)]

    def _fetch(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._guard, _reading():
            return self._connection.execute(query, values).fetchall()


def _insert(
    execute: Callable[..., sqlite3.Cursor], table: LogTable[Any], row: tuple[Any, ...], how: str = "INSERT"
) -> None:
    places = ", ?" * len(row)
    execute(f"{how} INTO {table.name} VALUES (?{places})", (*row, checksum(row)))


def _replace(execute: Callable[..., sqlite3.Cursor], table: LogTable[Any], row: tuple[Any, ...]) -> None:
    _insert(execute, table, row, "INSERT OR REPLACE")


def _remove_tasks(execute: Callable[..., sqlite3.Cursor], done: Sequence[tuple[int, int]]) -> None:
    for key in done:
        execute("DELETE FROM outbox WHERE version = ? AND number = ?", key)


def _checked(row: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    *values, crc = row
    if checksum(values) != crc:
        of = f"of version {values[0]}" if isinstance(values[0], int) else f"`{values[-2]}`"
        raise damaged(f"the {what} {of} does not have the checksum it was written with")
    return tuple(values)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError as error:
        # The only cause here: the connection was closed.
        raise UsageError("the store is closed", code="closed", help="open the database again") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite's messages repeat names of a damaged schema, which may not be UTF-8.
        raise damaged(f"`{LOG}` cannot be read: {error}") from error
