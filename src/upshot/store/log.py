"""The log: a SQLite database with one row per commit. A row in it is on the disk."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from upshot.core.errors import UsageError
from upshot.store.acknowledged import Mark, MarkFile
from upshot.store.folders import LOG, NEW_LOG, settle_folder
from upshot.store.trouble import damaged, forgotten

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (
    version INTEGER PRIMARY KEY, time TEXT NOT NULL, meta TEXT, relations INTEGER NOT NULL, rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE changes (
    version INTEGER NOT NULL, relation TEXT NOT NULL, inserted INTEGER NOT NULL, deleted INTEGER NOT NULL, came BLOB,
    went BLOB, crc INTEGER NOT NULL, PRIMARY KEY (version, relation)) WITHOUT ROWID;
CREATE INDEX changes_of_relation ON changes (relation, version);
CREATE TABLE definitions (
    version INTEGER PRIMARY KEY, program TEXT NOT NULL, relations TEXT NOT NULL, reset TEXT NOT NULL,
    hidden TEXT NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshots (
    version INTEGER PRIMARY KEY, time TEXT NOT NULL, relations TEXT NOT NULL, saved TEXT NOT NULL, hidden TEXT NOT NULL,
    crc INTEGER NOT NULL);
"""

LATER_TABLES = (
    """CREATE TABLE IF NOT EXISTS outbox (
    version INTEGER NOT NULL, number INTEGER NOT NULL, task TEXT NOT NULL, rows BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (version, number)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (kind, id)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS cursors (
    name TEXT PRIMARY KEY, version INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS firings (
    version INTEGER NOT NULL, number INTEGER NOT NULL, rule TEXT NOT NULL, text TEXT NOT NULL, count INTEGER NOT NULL,
    rows BLOB, crc INTEGER NOT NULL, PRIMARY KEY (version, number)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS firings_of_rule ON firings (rule, version)",
)
"""Stores that were made before there was one of these get it when they are opened."""


FORMAT = 1
APPLICATION = 0x55505348
"""`UPSH`: what `file` and SQLite show as the application id."""

FIRINGS_SINCE = "firings_since"
"""The key of the version after which firings are logged."""
_HEADER = 100
_PAGE = 256
"""Commits that are fetched at a time."""
_WAL_BYTES = 16 << 20
"""The most bytes that SQLite's own log keeps on disk once its contents are in the database."""
_IN_FOLDERS = "(substr(came, 1, 1) = X'50' OR substr(went, 1, 1) = X'50')"
"""The condition for changes with a side in a Parquet directory."""
_LAST = (1 << 63) - 1
_BATCHES = "#batches"
"""The kind of the records that have the last batch of each stream whose commit was dropped."""
_LAST_BATCHES = (
    "SELECT json_extract(meta, '$.stream'), max(json_extract(meta, '$.batch')) FROM commits "
    "WHERE json_type(meta, '$.stream') = 'text' AND json_type(meta, '$.batch') = 'integer'"
)
_LAST_META = "#last-meta"
"""The kind of the record that has the newest notes of a committer whose commit was dropped."""
_WRITES = "#writes"
"""The kind of the record that counts the writes which are no commits."""


class CommitRow(NamedTuple):
    version: int
    time: str
    meta: str | None
    relations: int
    rows: int
    bytes: int


class PastRow(NamedTuple):
    """A commit as retention looks at it."""

    version: int
    time: str
    bytes: int


class ChangeRow(NamedTuple):
    """`came` and `went` are the inserted and deleted rows as `encoding` writes them, empty if there are none."""

    version: int
    relation: str
    inserted: int
    deleted: int
    came: bytes | None
    went: bytes | None


class DefinitionRow(NamedTuple):
    version: int
    program: str
    relations: str
    reset: str
    hidden: str


class SnapshotRow(NamedTuple):
    version: int
    time: str
    relations: str
    saved: str
    hidden: str


class OutboxRow(NamedTuple):
    """A task that runs once, after the commit that created it: `task` is JSON, `rows` a side as `encoding` writes
    them."""

    version: int
    number: int
    task: str
    rows: bytes


class FiringRow(NamedTuple):
    """A firing of an active rule: `text` is JSON, `size` the number of its rows, `rows` a side as
    `encoding` writes them, None if there are too many."""

    version: int
    number: int
    rule: str
    text: str
    size: int
    rows: bytes | None


@dataclass(frozen=True, slots=True)
class Encoded:
    """All rows of one commit, ready to be written. `outbox` is what it leaves to be done, `done` what was left by
    earlier commits and is done with this one."""

    commit: CommitRow
    changes: tuple[ChangeRow, ...]
    definition: DefinitionRow | None = None
    outbox: tuple[OutboxRow, ...] = ()
    done: tuple[OutboxRow, ...] = ()
    firings: tuple[FiringRow, ...] = ()


def checksum(row: Iterable[Any]) -> int:
    """Of the values of a row, in order."""
    return zlib.crc32(b"\x1f".join(value if isinstance(value, bytes) else str(value).encode() for value in row))


def header_format(root: Path) -> int | None:
    """The format a log says it has, read without opening it; nothing if it is a database of something else."""
    with (root / LOG).open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(b"SQLite format 3\0"):
        raise damaged(f"`{root / LOG}` is not a log")
    if int.from_bytes(header[68:72], "big") != APPLICATION:
        return None
    return int.from_bytes(header[60:64], "big")


def create_log(root: Path, meta: dict[str, str]) -> None:
    """An empty log. It gets its name when it is whole."""
    for left in root.glob(NEW_LOG + "*"):
        left.unlink()
    path = root / NEW_LOG
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(f"BEGIN; {TABLES} {';'.join(LATER_TABLES)};")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    path.rename(root / LOG)
    settle_folder(root)


class Log:
    """Open on one store. Every method may be called from any thread. Reading ends in `store-damaged` where the file or
    a checksum is wrong; writing raises SQLite's own errors, and then nothing is written."""

    def __init__(self, root: Path, *, read_only: bool = False, name: str = LOG) -> None:
        path = (root / name).resolve()
        mode = "mode=ro" if read_only else "mode=rw"
        if read_only and not path.with_name(name + "-wal").exists():
            # Nobody else has the store open. Without this SQLite would put two files beside the log.
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
        """From here on the log is written to, and what is acknowledged is marked."""
        self._reached = self.reached()
        self._mark = MarkFile(root, self._reached)

    def close(self) -> None:
        with self._guard:
            self._connection.close()
            if self._mark is not None:
                self._mark.close()

    # ---- writing ------------------------------------------------------------------------------------

    def append(self, group: Sequence[Encoded]) -> None:
        """Commits that follow one another. On the disk when this returns, all of them with one write."""
        with self._guard:
            with self.changing() as execute:
                for encoded in group:
                    execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?)", _sealed(encoded.commit))
                    for change in encoded.changes:
                        execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", _sealed(change))
                    if encoded.definition is not None:
                        execute("INSERT INTO definitions VALUES (?, ?, ?, ?, ?, ?)", _sealed(encoded.definition))
                    for task in encoded.outbox:
                        execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", _sealed(task))
                    for firing in encoded.firings:
                        execute("INSERT INTO firings VALUES (?, ?, ?, ?, ?, ?, ?)", _sealed(firing))
                    _remove_tasks(execute, [(task.version, task.number) for task in encoded.done])
            self._acknowledge(Mark(group[-1].commit.version, self._reached.writes))

    def remove_tasks(self, done: Sequence[tuple[int, int]]) -> None:
        """These tasks of the outbox are done."""
        with self._counted() as execute:
            _remove_tasks(execute, done)

    def rename(self, identity: str) -> None:
        """Gives the store another name, so that subscribers with lost versions start again from a snapshot."""
        with self.changing() as execute:
            execute("INSERT OR REPLACE INTO meta VALUES ('identity', ?)", (identity,))

    def complete(self, identity: str) -> None:
        """Makes the tables that an older version of Upshot did not, and a name for the store that no other has."""
        started = 0 if self._has_table("firings") else self.last_version()
        with self.changing() as execute:
            for table in LATER_TABLES:
                execute(table)
            execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (FIRINGS_SINCE, str(started)))
            execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (identity,))

    def put_records(self, kind: str, texts: Mapping[str, str | None], *, lazy: bool = False) -> None:
        """Writes records of one kind, all of them or none; those without a text are removed."""
        with self.changing(lazy=True) if lazy else self._counted() as execute:
            for id, text in texts.items():
                if text is None:
                    execute("DELETE FROM records WHERE kind = ? AND id = ?", (kind, id))
                else:
                    execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", _sealed((kind, id, text)))

    def put_cursors(self, versions: Mapping[str, int | None], *, lazy: bool = False) -> None:
        """Writes cursors, all of them or none; those without a version are removed."""
        with self.changing(lazy=True) if lazy else self._counted() as execute:
            for name, version in versions.items():
                if version is None:
                    execute("DELETE FROM cursors WHERE name = ?", (name,))
                else:
                    execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", _sealed((name, version)))

    def remove_from(self, version: int, done: Sequence[OutboxRow]) -> None:
        """Takes out this version, and what could come after it; the tasks that were `done` with it are still to be
        done. There is always something to write: a record that an interrupted write left in SQLite's own log is then
        certain not to come back."""
        with self._guard:
            if version <= self._reached.version and self._mark is not None:
                lower = Mark(version - 1, self._reached.writes)
                self._mark.lower(lower)
                self._reached = lower
        with self.changing() as execute:
            execute("INSERT OR REPLACE INTO meta VALUES ('retracted', ?)", (str(version),))
            for table in ("commits", "changes", "definitions", "outbox", "firings"):
                execute(f"DELETE FROM {table} WHERE version >= ?", (version,))  # noqa: S608 - names from this file
            for task in done:
                execute("INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?, ?)", _sealed(task))

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        with self.changing() as execute:
            execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?)", _sealed(snapshot))

    def remove_snapshots(self, versions: Sequence[int]) -> None:
        with self.changing() as execute:
            for version in versions:
                execute("DELETE FROM snapshots WHERE version = ?", (version,))

    def drop(self, until: int) -> list[int]:
        """Removes the commits up to this version; definitions that later commits need stay. Returns the removed
        versions that have folders, which the caller may delete."""
        folders = self.versions_with_folders(until)
        query = "SELECT meta FROM commits WHERE version <= ? AND meta IS NOT NULL ORDER BY version DESC LIMIT 1"
        metas = self._fetch(query, (until,))
        batches = self._fetch(f"{_LAST_BATCHES} AND version <= ? GROUP BY 1", (until,))
        # Without folders nothing is lost if the commits are there again after a power failure.
        with self.changing(lazy=not folders) as execute:
            for (meta,) in metas:
                execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", _sealed((_LAST_META, "", meta)))
            for stream, batch in batches:
                execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", _sealed((_BATCHES, stream, str(batch))))
            execute("DELETE FROM commits WHERE version <= ?", (until,))
            execute("DELETE FROM changes WHERE version <= ?", (until,))
            execute("DELETE FROM firings WHERE version <= ?", (until,))
            execute(
                "DELETE FROM definitions WHERE version < (SELECT max(version) FROM definitions WHERE version <= ?)",
                (until,),
            )
        return folders

    def shrink(self, pages: int) -> None:
        """Returns this many free pages to the file system; none if the log was created without incremental vacuum."""
        with self._guard:
            self._be_lazy(True)
            self._connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()

    def _be_lazy(self, lazy: bool) -> None:
        """Test whether a transaction of SQLite may end before it is on the disk. The next one that may not takes it
        along, so nothing ever comes out of order."""
        if lazy is not self._lazy:
            self._connection.execute(f"PRAGMA synchronous={'NORMAL' if lazy else 'FULL'}")
            self._lazy = lazy

    def _acknowledge(self, mark: Mark) -> None:
        self._reached = mark
        if self._mark is not None:
            self._mark.advance(mark)

    @contextmanager
    def _counted(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """As `changing`, for what is no commit: it gets a number, so that it is missed where it is lost."""
        with self._guard:
            writes = self._reached.writes + 1
            with self.changing() as execute:
                execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", _sealed((_WRITES, "", str(writes))))
                yield execute
            self._acknowledge(Mark(self._reached.version, writes))

    @contextmanager
    def changing(self, *, lazy: bool = False) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One transaction of SQLite, on the disk when the block is left unless it is `lazy`."""
        with self._guard:
            execute = self._connection.execute
            if self._connection.in_transaction:
                execute("ROLLBACK")
            self._be_lazy(lazy)
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
        """The last version in the log."""
        writes = self.records(_WRITES).get("", "0") if self._has_table("records") else "0"
        return Mark(self.last_version(), int(writes))

    def last_version(self) -> int:
        """0 if there is no commit."""
        ((version,),) = self._fetch("SELECT coalesce(max(version), 0) FROM commits")
        return int(version)

    def first_version(self) -> int:
        """Of the oldest commit that is kept; 0 if there is none."""
        ((version,),) = self._fetch("SELECT coalesce(min(version), 0) FROM commits")
        return int(version)

    def last_meta(self) -> str | None:
        """Of the newest commit that has one."""
        rows = self._fetch("SELECT * FROM commits WHERE meta IS NOT NULL ORDER BY version DESC LIMIT 1")
        if rows:
            return CommitRow(*_opened(rows[0], "commit")).meta
        return self.records(_LAST_META).get("") if self._has_table("records") else None

    def last_batch(self, stream: str) -> int | None:
        """The batch of a stream that was committed last, by what its commit carries."""
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

    def past(self, count: int) -> list[PastRow]:
        """The oldest commits."""
        rows = self._fetch("SELECT * FROM commits ORDER BY version LIMIT ?", (count,))
        found = [CommitRow(*_opened(row, "commit")) for row in rows]
        return [PastRow(row.version, row.time, row.bytes) for row in found]

    def free_pages(self) -> tuple[int, int]:
        """Pages of the file that hold nothing and can be given back, and all of them."""
        tables = "pragma_auto_vacuum, pragma_freelist_count, pragma_page_count"
        ((kind, free, pages),) = self._fetch(f"SELECT auto_vacuum, freelist_count, page_count FROM {tables}")  # noqa: S608
        return int(free) if kind else 0, int(pages)

    def commits(self, after: int, until: int, *, reverse: bool = False) -> Iterator[CommitRow]:
        """The commits with after < version ≤ until, fetched in pages, so that what reads them holds up nobody."""
        order = "DESC" if reverse else "ASC"
        while after < until:
            query = f"SELECT * FROM commits WHERE version > ? AND version <= ? ORDER BY version {order} LIMIT ?"  # noqa: S608
            with self._guard:
                self._refuse_dropped(after)
                page = [CommitRow(*_opened(row, "commit")) for row in self._fetch(query, (after, until, _PAGE))]
            yield from page
            if len(page) < _PAGE:
                return
            after, until = (after, page[-1].version - 1) if reverse else (page[-1].version, until)

    def _refuse_dropped(self, after: int) -> None:
        """`UsageError` if commits after this version were dropped, maybe since reading them began."""
        first = self.first_version()
        if after < first - 1:
            raise forgotten(after, first - 1)

    def changes(self, version: int) -> list[ChangeRow]:
        """All changes of one commit."""
        rows = self._fetch("SELECT * FROM changes WHERE version = ? ORDER BY relation", (version,))
        return [ChangeRow(*_opened(row, "commit")) for row in rows]

    def changes_of(self, relation: str, after: int, until: int) -> Iterator[ChangeRow]:
        """The changes of one relation, oldest first."""
        query = "SELECT * FROM changes WHERE relation = ? AND version > ? AND version <= ? ORDER BY version LIMIT ?"
        while after < until:
            with self._guard:
                self._refuse_dropped(after)
                rows = self._fetch(query, (relation, after, until, _PAGE))
            page = [ChangeRow(*_opened(row, "commit")) for row in rows]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].version

    def definitions(self, after: int, until: int) -> list[DefinitionRow]:
        rows = self._fetch(
            "SELECT * FROM definitions WHERE version > ? AND version <= ? ORDER BY version", (after, until)
        )
        return [DefinitionRow(*_opened(row, "definition")) for row in rows]

    def definition_at(self, version: int) -> DefinitionRow | None:
        """The program in force after this version; nothing before the first."""
        rows = self._fetch("SELECT * FROM definitions WHERE version <= ? ORDER BY version DESC LIMIT 1", (version,))
        return DefinitionRow(*_opened(rows[0], "definition")) if rows else None

    def firings(self, version: int) -> list[FiringRow]:
        """The firings of one commit, in order."""
        rows = self._fetch("SELECT * FROM firings WHERE version = ? ORDER BY number", (version,))
        found = [FiringRow(*_opened(row, "commit")) for row in rows]
        if [row.number for row in found] != list(range(len(found))):
            raise damaged(f"`{LOG}` lacks a firing of version {version}")
        return found

    def firings_of(self, rule: str, after: int, until: int) -> list[FiringRow]:
        """The firings of one rule with after < version ≤ until."""
        query = "SELECT * FROM firings WHERE rule = ? AND version > ? AND version <= ? ORDER BY version, number"
        with self._guard:
            self._refuse_dropped(after)
            return [FiringRow(*_opened(row, "commit")) for row in self._fetch(query, (rule, after, until))]

    def firings_since(self) -> int:
        """The version after which firings are in the log; an older store has them from when it was opened."""
        if not self._has_table("firings"):
            return self.last_version()
        return int(self.meta().get(FIRINGS_SINCE, "0"))

    def tasks(self) -> list[OutboxRow]:
        """The open tasks, oldest first."""
        rows = self._fetch("SELECT * FROM outbox ORDER BY version, number")
        return [OutboxRow(*_opened(row, "task")) for row in rows]

    def task(self, version: int, number: int) -> OutboxRow | None:
        """One task, if it is still to be done."""
        rows = self._fetch("SELECT * FROM outbox WHERE version = ? AND number = ?", (version, number))
        return OutboxRow(*_opened(rows[0], "task")) if rows else None

    def records(self, kind: str) -> dict[str, str]:
        """The texts of one kind, by id."""
        rows = self._fetch("SELECT * FROM records WHERE kind = ? ORDER BY id", (kind,))
        return {id: text for _, id, text in (_opened(row, "record") for row in rows)}

    def kinds_of_records(self) -> list[str]:
        return [kind for (kind,) in self._fetch("SELECT DISTINCT kind FROM records ORDER BY kind")]

    def cursors(self) -> dict[str, int]:
        rows = self._fetch("SELECT * FROM cursors ORDER BY name")
        return dict(_opened(row, "cursor") for row in rows)

    def check_small(self) -> None:
        """Raises if a table is damaged whose rows nothing counts: one could be missing silently. A log that is read
        only may lack some of the tables."""
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
        rows = self._fetch("SELECT * FROM snapshots ORDER BY version DESC")
        return [SnapshotRow(*_opened(row, "snapshot")) for row in rows]

    def versions_with_folders(self, until: int | None = None) -> list[int]:
        """The commits that have rows in Parquet folders, up to this version or all."""
        query = f"SELECT DISTINCT version FROM changes WHERE version <= ? AND {_IN_FOLDERS}"  # noqa: S608
        return [version for (version,) in self._fetch(query, (_LAST if until is None else until,))]

    def has_folders(self, version: int) -> bool:
        """Test whether the commit has rows in Parquet folders."""
        query = f"SELECT 1 FROM changes WHERE version = ? AND {_IN_FOLDERS}"  # noqa: S608
        return bool(self._fetch(query, (version,)))

    def _fetch(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._guard, _reading():
            return self._connection.execute(query, values).fetchall()


def _remove_tasks(execute: Callable[..., sqlite3.Cursor], done: Sequence[tuple[int, int]]) -> None:
    for key in done:
        execute("DELETE FROM outbox WHERE version = ? AND number = ?", key)


def _sealed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row, checksum(row))


def _opened(row: tuple[Any, ...], what: str) -> tuple[Any, ...]:
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
        # The only one that can come from here: the connection was closed.
        raise UsageError("the store is closed", code="closed", help="open the database again") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite repeats names of a damaged schema in its messages, whatever bytes they have.
        raise damaged(f"`{LOG}` cannot be read: {error}") from error
