"""A store: a directory that takes commits and returns the state after the last one."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import EngineError, UsageError
from upshot.core.rows import Rows
from upshot.store.encoding import (
    FolderSide,
    decode,
    encode_few,
    encode_folder,
    half_a_character,
    stored_rows,
)
from upshot.store.entries import (
    ChangeRow,
    Encoded,
    Entry,
    LoggedFiring,
    LoggedRelation,
    OutboxTask,
    Relations,
    SnapshotRow,
    encoded_entry,
    firing_of,
    relations_from,
    snapshot_row,
    task_of,
)
from upshot.store.errors import failed, forgotten
from upshot.store.folders import (
    DELTAS,
    SNAPSHOTS,
    StoredFile,
    folder_names,
    folders_of_saved,
    make_folder,
    remove_folder,
    sync,
    sync_files,
    version_folder,
    version_of,
)
from upshot.store.log import Log
from upshot.store.recovery import Recovered, Tail
from upshot.store.retention import Past, Retention

if TYPE_CHECKING:
    from upshot.store.lake import Mirror, TemporaryRoot
    from upshot.store.opening import StoreLock


class UnusedFolders:
    """Removes folders, at once or when the store is no longer being copied. Folders that cannot be removed are removed
    at the next opening. Thread-safe."""

    def __init__(self, remove: Callable[[Path], None] = remove_folder) -> None:
        self._remove_one = remove
        self._guard = threading.Lock()
        self._waiting: list[Path] = []
        self._holders = 0

    def add(self, folders: Iterable[Path]) -> None:
        with self._guard:
            self._waiting += folders
        self._remove()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block in which no folder is removed."""
        with self._guard:
            self._holders += 1
        try:
            yield
        finally:
            with self._guard:
                self._holders -= 1
            self._remove()

    def _remove(self) -> None:
        with self._guard:
            if self._holders:
                return
            folders, self._waiting = self._waiting, []
        for folder in folders:
            try:
                self._remove_one(folder)
            except OSError as error:
                log.warning("`%s` stays until the store is opened again: %s", folder.name, error)


log = logging.getLogger("upshot.store")

_NO_SNAPSHOT = "every commit is kept"
Save = Callable[[str, Path], int]
"""Write the rows of a relation into a folder, as Parquet; their number."""


class Store:
    """`prepare`, then `append`: the commit is durable when `append` returns. A failed write is `store-failed` and has
    no effect; the store can still be used. One thread writes; any thread reads, also from the `log` directly.

    `recovered` is the state at its opening. An engine may read its folders while the store is open.
    """

    def __init__(
        self,
        root: Path,
        lock: StoreLock | TemporaryRoot,
        log: Log,
        recovered: Recovered,
        retention: Retention,
        mirror: Mirror | None = None,
    ) -> None:
        self.root = root
        self.recovered = recovered
        self.tail = recovered.tail
        self.log, self._lock, self._mirror = log, lock, mirror
        self._past = Past(log, retention, recovered.snapshot)
        self._unused = UnusedFolders(self._remove_folder)
        self._in_doubt: Sequence[Encoded] = ()
        self.warnings: tuple[Diagnostic, ...] = ()
        """Findings from the opening of the store."""

    def close(self) -> None:
        """Release the store; closing twice is allowed."""
        self.log.close()
        self._lock.release()

    # ---- commits ------------------------------------------------------------------------------------

    def prepare(self, entry: Entry) -> Encoded:
        """The commit as it will be written; large changes are written to disk here, in folders that no record names
        yet."""
        with self._writing(entry.version):
            self._resolve_doubt()
            changes = self._encode(entry)
            done = tuple(task for place in entry.done if (task := self.log.task(*place)) is not None)
        return encoded_entry(entry, changes, done)

    def append(self, group: Sequence[Encoded]) -> None:
        """Make consecutive commits durable with one write: all or none."""
        with self._writing(*(encoded.commit.version for encoded in group)):
            self._resolve_doubt()
            # After an error of SQLite the records may be on disk or not.
            self._in_doubt = group
            self.log.append(group)
            self._in_doubt = ()
        for encoded in group:
            self.tail.grow(encoded.changes)
        self._past.grow([encoded.commit.bytes for encoded in group])

    def retract(self, encoded: Encoded) -> None:
        """Remove the last commit, which was not yet reported. On failure this is repeated before the next commit."""
        self._in_doubt = (encoded,)
        self.tail.grow(encoded.changes, -1)
        self._past.grow([encoded.commit.bytes], -1)
        self._clear([encoded.commit.version])

    def discard(self, group: Sequence[Encoded]) -> None:
        """Remove prepared commits that will not be appended."""
        self._clear([encoded.commit.version for encoded in group])

    @contextmanager
    def _writing(self, *versions: int) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            self._clear(versions)
            span = f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"
            raise failed(f"write {span} to `{self.root}`", error) from error
        except BaseException:
            self._clear(versions)
            raise

    def _clear(self, versions: Iterable[int]) -> None:
        """Remove all traces of versions that failed. A failure is repeated before the next commit, or when the store is
        opened."""
        try:
            self._resolve_doubt()
            for version in versions:
                self._remove_folder(self._deltas(version))
        except (OSError, sqlite3.Error) as error:
            log.warning("a failed version is not yet removed from the store: %s", error)

    def _resolve_doubt(self) -> None:
        if self._in_doubt:
            done = [task for encoded in self._in_doubt for task in encoded.done]
            self.log.remove_from(self._in_doubt[0].commit.version, done)
            for encoded in self._in_doubt:
                self._remove_folder(self._deltas(encoded.commit.version))
            self._in_doubt = ()

    def _encode(self, entry: Entry) -> tuple[ChangeRow, ...]:
        changes = []
        large: _Large | None = None
        for relation, sides in entry.changes.items():
            if not (len(sides[0]) or len(sides[1])):
                continue
            written: list[bytes | None] = []
            for rows, word in zip(sides, ("inserted", "deleted"), strict=True):
                few = encode_few(rows) if len(rows) else None
                if few is None and len(rows):
                    large = large or _Large(self.root, self._deltas(entry.version), folder_names(entry.changes))
                    few = large.write(relation, rows, word)
                written.append(few)
            changes.append(ChangeRow(entry.version, relation, len(sides[0]), len(sides[1]), *written))
        if large is not None:
            large.sync()
            self._upload(self._deltas(entry.version))
        return tuple(changes)

    def _deltas(self, version: int) -> Path:
        """The folder of this process for a version."""
        return self.root / DELTAS / f"{version_folder(version)}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return self._mirror.suffix if self._mirror is not None else ""

    def _upload(self, folder: Path) -> None:
        if self._mirror is not None:
            try:
                self._mirror.upload(folder)
            except EngineError as error:
                raise OSError(error.message) from error

    def _remove_folder(self, folder: Path) -> None:
        remove_folder(folder)
        if self._mirror is not None:
            try:
                self._mirror.remove(folder)
            except EngineError as error:
                raise OSError(error.message) from error

    def _names(self, parent: str) -> list[str]:
        """The folders below `deltas` or `snapshots`."""
        if self._mirror is not None:
            return self._mirror.names(parent)
        return [each.name for each in (self.root / parent).glob("*")]

    # ---- snapshots ----------------------------------------------------------------------------------

    def snapshot(self, version: int, relations: Relations, sizes: Mapping[str, int], save: Save, hidden: str) -> None:
        """Write all rows of these relations as of `version`; recovery starts from there. Earlier snapshots are removed,
        except the one that was opened: an engine may still read it."""
        earlier = self.log.snapshots()
        folder = _free_folder(self.root / SNAPSHOTS, f"{version_folder(version)}{self._suffix}")
        try:
            saved = self._save(folder, relations, sizes, save)
        except BaseException as error:
            with suppress(OSError):
                self._remove_folder(folder)
            if isinstance(error, OSError):
                raise failed(
                    f"write a snapshot of version {version} to `{self.root}`", error, help=_NO_SNAPSHOT
                ) from error
            raise
        try:
            self.log.add_snapshot(snapshot_row(version, relations, saved, hidden))
        except sqlite3.Error as error:
            # The record may be on disk despite the error, so the folder stays until the store is opened again.
            raise failed(f"write a snapshot of version {version} to `{self.root}`", error, help=_NO_SNAPSHOT) from error
        self.tail = Tail(sum(sizes[name] for name in relations))
        self._past.floor, self._past.is_blocked = version, False
        self._drop_snapshots([row for row in earlier if row.version not in (self.recovered.snapshot, version)])

    def _save(self, folder: Path, relations: Relations, sizes: Mapping[str, int], save: Save) -> dict[str, object]:
        make_folder(folder)
        saved: dict[str, object] = {}
        for name, place in folder_names(relations).items():
            if not sizes[name]:
                saved[name] = {"rows": 0}
                continue
            rows, inner = save(name, folder / place), (folder / place).relative_to(self.root).as_posix()
            saved[name] = {"rows": rows, "folder": inner, "files": sync_files(folder / place)}
        for each in (folder, folder.parent, self.root):
            sync(each)
        self._upload(folder)
        return saved

    def _drop_snapshots(self, rows: list[SnapshotRow]) -> None:
        try:
            self.log.remove_snapshots([row.version for row in rows])
            self._unused.add(self.root / SNAPSHOTS / name for name in _folders_of(rows))
        except (OSError, sqlite3.Error) as error:
            log.warning("superseded snapshots stay until the store is opened again: %s", error)

    def tidy(self) -> None:
        """Remove incomplete files of an ended process, and superseded snapshots. Call before the first commit, once the
        state is restored."""
        snapshots = self.log.snapshots()
        try:
            self.log.remove_snapshots([row.version for row in snapshots[1:]])
            self._keep_only(SNAPSHOTS, _folders_of(snapshots[:1]))
            self._keep_only(DELTAS, self._folders_of_commits())
        except (OSError, sqlite3.Error) as error:
            raise failed(f"remove what was left half-written in `{self.root}`", error) from error

    def _folders_of_commits(self) -> set[str]:
        found = {name: version_of(name) for name in self._names(DELTAS)}
        return {name for name, each in found.items() if each is not None and self.log.has_folders(each)}

    def _keep_only(self, parent: str, names: set[str]) -> None:
        for name in self._names(parent):
            if name not in names:
                self._remove_folder(self.root / parent / name)

    # ---- retention ----------------------------------------------------------------------------------

    def trim_if_due(self) -> None:
        """Drop a slice of the oldest commits if the bounds are exceeded and enough commits were made since the last
        slice. A failure is logged and repeated later."""
        if self._past.is_due:
            try:
                self.trim()
            except EngineError as error:
                log.warning("old commits stay in the store for now: %s", error)

    def trim(self) -> bool:
        """Drop a slice of the oldest commits beyond the bounds and return some free space to the file system. True if
        there may be more."""
        try:
            folders = self._past.drop_slice()
            more = self._past.shrink()
        except sqlite3.Error as error:
            raise failed(f"drop old commits of `{self.root}`", error, help="they are kept for now") from error
        # An engine may still read the folders that it was restored from; they are removed at the next opening.
        read = range(self.recovered.snapshot + 1, self.recovered.version + 1)
        dropped = {version for version in folders or () if version not in read}
        if dropped:
            folders_by_name = {name: version_of(name) for name in self._names(DELTAS)}
            self._unused.add(
                self.root / DELTAS / name for name, version in folders_by_name.items() if version in dropped
            )
        return more or folders is not None

    def keeping_folders(self) -> AbstractContextManager[None]:
        """A block in which no folder of the store is removed."""
        return self._unused.held()

    @property
    def wants_snapshot(self) -> bool:
        """Test whether a newer snapshot would allow dropping more commits."""
        return self._past.is_blocked

    def cursors(self) -> dict[str, int]:
        """The positions of readers: unread changes are kept for them, within bounds."""
        return self._past.cursors()

    def put_cursors(self, versions: Mapping[str, int | None], *, lazy: bool = False) -> None:
        """Write cursors atomically, with the next commit if `lazy`; None removes a cursor."""
        try:
            self._past.put_cursors(versions, lazy=lazy)
        except sqlite3.Error as error:
            raise failed(f"write cursors to `{self.root}`", error, help="the cursors are as before") from error

    # ---- the past -----------------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """The oldest version that `since` may name."""
        return max(self.log.first_version() - 1, 0)

    def changes(self, version: int) -> dict[str, tuple[LoggedRelation, Rows, Rows]]:
        if version <= self.oldest:
            raise forgotten(version - 1, self.oldest)
        definition = self.log.definition_at(version)
        relations = relations_from(definition.relations) if definition else {}
        return {
            change.relation: (relations[change.relation], *self.rows(relations[change.relation], change))
            for change in self.log.changes(version)
            if change.relation in relations
        }

    def tasks(self) -> list[OutboxTask]:
        """The pending tasks, oldest first."""
        return [task_of(row) for row in self.log.tasks()]

    def firings(self, version: int) -> list[LoggedFiring]:
        """The firings of one commit, in order."""
        if version <= max(self.oldest, self.log.firings_since()):
            raise _no_firings(version - 1, max(self.oldest, self.log.firings_since()))
        return [firing_of(row) for row in self.log.firings(version)]

    def firings_of(self, rule: str, after: int, until: int) -> list[tuple[int, LoggedFiring]]:
        """The firings of one rule after a version, each with its version."""
        if after < max(self.oldest, self.log.firings_since()):
            raise _no_firings(after, max(self.oldest, self.log.firings_since()))
        return [(row.version, firing_of(row)) for row in self.log.firings_of(rule, after, until)]

    def remove_tasks(self, done: Sequence[tuple[int, int]]) -> None:
        """Remove completed tasks, by version and number."""
        try:
            self.log.remove_tasks(done)
        except sqlite3.Error as error:
            raise failed(
                f"note in `{self.root}` that a task is done", error, help="it is done, and may be done again"
            ) from error

    # ---- records and cursors ------------------------------------------------------------------------

    def put_records(self, kind: str, texts: Mapping[str, str | None], *, lazy: bool = False) -> None:
        """Write records of one kind atomically, with the next commit if `lazy`; None removes a record."""
        try:
            self.log.put_records(kind, texts, lazy=lazy)
        except sqlite3.Error as error:
            raise failed(
                f"write records of `{kind}` to `{self.root}`", error, help="the records are as before"
            ) from error

    @property
    def identity(self) -> str:
        return self.log.meta()["identity"]

    def rows(self, relation: LoggedRelation, change: ChangeRow) -> tuple[Rows, Rows]:
        """The inserted and deleted rows, read on first use."""
        schema = relation.schema
        self._fetch(change)
        return (
            stored_rows(schema, change.inserted, change.inserted_side, self.root),
            stored_rows(schema, change.deleted, change.deleted_side, self.root),
        )

    def fetch_all(self) -> None:
        """Download every folder that a record names, for a store on a lake."""
        for version in self.log.versions_with_folders():
            for change in self.log.changes(version):
                self._fetch(change)
        for row in self.log.snapshots():
            for folder, files in folders_of_saved(row.saved):
                self._fetch_files(folder, files)

    def _fetch(self, change: ChangeRow) -> None:
        if self._mirror is not None:
            for side in (decode(change.inserted_side), decode(change.deleted_side)):
                if isinstance(side, FolderSide):
                    self._fetch_files(side.folder, side.files)

    def _fetch_files(self, folder: str, files: Sequence[StoredFile]) -> None:
        if self._mirror is not None:
            self._mirror.fetch(self.root / folder, [name for name, _, _ in files])


class _Large:
    """The folder of a commit with changes too large for the log."""

    def __init__(self, root: Path, folder: Path, names: Mapping[str, str]) -> None:
        self._root, self._folder, self._names = root, folder, names
        make_folder(folder)

    def write(self, relation: str, rows: Rows, word: str) -> bytes:
        folder = self._folder / f"{self._names[relation]}.{word}"
        try:
            rows.to_parquet(folder)
        except UnicodeEncodeError:
            raise half_a_character(rows) from None
        return encode_folder(FolderSide(folder.relative_to(self._root).as_posix(), sync_files(folder)))

    def sync(self) -> None:
        for folder in (self._folder, self._folder.parent, self._root):
            sync(folder)


def _no_firings(since: int, oldest: int) -> UsageError:
    return UsageError(
        f"firings since version {since} are not kept; those since {oldest} are",
        code="history-not-kept",
        help=f"give a version from {oldest} on",
    )


def _free_folder(parent: Path, wish: str) -> Path:
    """A second snapshot of one version is needed when the set of logged relations changed."""
    name, number = wish, 1
    while (parent / name).exists():
        number += 1
        name = f"{wish}-{number}"
    return parent / name


def _folders_of(rows: Iterable[SnapshotRow]) -> set[str]:
    saved = (each for row in rows for each in json.loads(row.saved).values())
    return {Path(each["folder"]).parts[1] for each in saved if each["rows"]}
