"""A store: a directory that takes commits one by one and returns the state after the last of them."""

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
    CommitRow,
    DefinitionRow,
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
from upshot.store.folders import (
    DELTAS,
    SNAPSHOTS,
    StoredFile,
    folder_names,
    folder_of_saved,
    make_folder,
    remove_folder,
    settle,
    settle_files,
    version_folder,
    version_of,
)
from upshot.store.lock import StoreLock
from upshot.store.log import Log
from upshot.store.recovery import Recovered, Tail
from upshot.store.retention import Past, Retention
from upshot.store.trouble import failed, forgotten

if TYPE_CHECKING:
    from upshot.store.lake import Mirror, TemporaryRoot


class UnusedFolders:
    """Removes folders, at once or when nobody copies the store any more. What cannot be removed is removed when the
    store is opened again. Any thread may call."""

    def __init__(self, remove: Callable[[Path], None] = remove_folder) -> None:
        self._remove_one = remove
        self._guard = threading.Lock()
        self._waiting: list[Path] = []
        self._holders = 0

    def add(self, folders: Iterable[Path]) -> None:
        """These are not needed any more."""
        with self._guard:
            self._waiting += folders
        self._remove()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block in which every folder stays."""
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
"""Writes the rows of a relation into a folder, as Parquet; how many there are."""


class Store:
    """`prepare`, then `append`: the commit is durable when `append` returns. A failing write is `store-failed`, and
    nothing of it counts; the store can be used further. One thread writes; any thread reads.

    `recovered` is the state it was opened with. An engine may read its folders for as long as the store is open.
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
        self._lock, self._log, self._mirror = lock, log, mirror
        self._past = Past(log, retention, recovered.snapshot)
        self._unused = UnusedFolders(self._remove_folder)
        self._in_doubt: Sequence[Encoded] = ()
        self.warnings: tuple[Diagnostic, ...] = ()
        """Findings from the opening of the store."""

    def close(self) -> None:
        """Lets others open the store; closing twice is fine."""
        self._log.close()
        self._lock.release()

    # ---- commits ------------------------------------------------------------------------------------

    def prepare(self, entry: Entry) -> Encoded:
        """The commit as it will be written; what is large is on the disk already, in folders nobody speaks of yet."""
        with self._writing(entry.version):
            self._resolve_doubt()
            changes = self._encode(entry)
            done = tuple(task for place in entry.done if (task := self._log.task(*place)) is not None)
        return encoded_entry(entry, changes, done)

    def append(self, group: Sequence[Encoded]) -> None:
        """Makes commits durable that follow one another, with one write for all of them: they are there together, or
        none is."""
        with self._writing(*(encoded.commit.version for encoded in group)):
            self._resolve_doubt()
            # If SQLite answers with an error, nobody knows whether the records are on the disk.
            self._in_doubt = group
            self._log.append(group)
            self._in_doubt = ()
        for encoded in group:
            self.tail.grow(encoded.changes)
        self._past.grow([encoded.commit.bytes for encoded in group])

    def retract(self, encoded: Encoded) -> None:
        """Undoes the last commit, which was not yet reported. On failure it is retried before the next commit."""
        self._in_doubt = (encoded,)
        self.tail.grow(encoded.changes, -1)
        self._past.grow([encoded.commit.bytes], -1)
        self._clear([encoded.commit.version])

    def discard(self, group: Sequence[Encoded]) -> None:
        """Removes what was prepared and will not be appended."""
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
        """Nothing of versions that failed may stay. What cannot be removed now is removed before the next commit, or
        when the store is opened."""
        try:
            self._resolve_doubt()
            for version in versions:
                self._remove_folder(self._deltas(version))
        except (OSError, sqlite3.Error) as error:
            log.warning("a failed version is not yet removed from the store: %s", error)

    def _resolve_doubt(self) -> None:
        if self._in_doubt:
            done = [task for encoded in self._in_doubt for task in encoded.done]
            self._log.remove_from(self._in_doubt[0].commit.version, done)
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
            large.settle()
            self._upload(self._deltas(entry.version))
        return tuple(changes)

    def _deltas(self, version: int) -> Path:
        """The folder that this process makes for a version."""
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
        """The folders there are below `deltas` or `snapshots`."""
        if self._mirror is not None:
            return self._mirror.names(parent)
        return [each.name for each in (self.root / parent).glob("*")]

    # ---- snapshots ----------------------------------------------------------------------------------

    def snapshot(self, version: int, relations: Relations, sizes: Mapping[str, int], save: Save, hidden: str) -> None:
        """Writes all rows of these relations, as they are after `version`; recovery starts from there. Earlier
        snapshots go, except the one that was opened: an engine may still read it."""
        earlier = self._log.snapshots()
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
            self._log.add_snapshot(snapshot_row(version, relations, saved, hidden))
        except sqlite3.Error as error:
            # The record may be on the disk all the same, so the folder stays until the store is opened again.
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
            saved[name] = {"rows": rows, "folder": inner, "files": settle_files(folder / place)}
        for each in (folder, folder.parent, self.root):
            settle(each)
        self._upload(folder)
        return saved

    def _drop_snapshots(self, rows: list[SnapshotRow]) -> None:
        try:
            self._log.remove_snapshots([row.version for row in rows])
            self._unused.add(self.root / SNAPSHOTS / name for name in _folders_of(rows))
        except (OSError, sqlite3.Error) as error:
            log.warning("superseded snapshots stay until the store is opened again: %s", error)

    def tidy(self) -> None:
        """Removes what an ended process left half-written, and snapshots that were superseded. To be called before
        the first commit, and only if the state could be restored."""
        snapshots = self._log.snapshots()
        try:
            self._log.remove_snapshots([row.version for row in snapshots[1:]])
            self._keep_only(SNAPSHOTS, _folders_of(snapshots[:1]))
            self._keep_only(DELTAS, self._folders_of_commits())
        except (OSError, sqlite3.Error) as error:
            raise failed(f"remove what was left half-written in `{self.root}`", error) from error

    def _folders_of_commits(self) -> set[str]:
        """The folders of deltas that a commit speaks of."""
        found = {name: version_of(name) for name in self._names(DELTAS)}
        return {name for name, each in found.items() if each is not None and self._log.has_folders(each)}

    def _keep_only(self, parent: str, names: set[str]) -> None:
        for name in self._names(parent):
            if name not in names:
                self._remove_folder(self.root / parent / name)

    # ---- retention ----------------------------------------------------------------------------------

    def trim_if_due(self) -> None:
        """Drops a slice of the oldest commits if the bounds are exceeded and enough commits were made since the last
        slice. A failure is logged and retried later."""
        if self._past.is_due:
            try:
                self.trim()
            except EngineError as error:
                log.warning("old commits stay in the store for now: %s", error)

    def trim(self) -> bool:
        """Drops a slice of the oldest commits beyond the bounds and returns some free space to the file system. Returns
        true if more may be left."""
        try:
            folders = self._past.drop_slice()
            more = self._past.shrink()
        except sqlite3.Error as error:
            raise failed(f"drop old commits of `{self.root}`", error, help="they are kept for now") from error
        # An engine may still read what the state was restored from; when the store is opened again it is removed.
        read = range(self.recovered.snapshot + 1, self.recovered.version + 1)
        gone = {version for version in folders or () if version not in read}
        if gone:
            there = {name: version_of(name) for name in self._names(DELTAS)}
            self._unused.add(self.root / DELTAS / name for name, version in there.items() if version in gone)
        return more or folders is not None

    def keeping_folders(self) -> AbstractContextManager[None]:
        """A block in which no folder of the store is removed."""
        return self._unused.held()

    @property
    def wants_snapshot(self) -> bool:
        """Test whether there was more to drop, when that was last tried, if only a newer snapshot were written."""
        return self._past.is_blocked

    def cursors(self) -> dict[str, int]:
        """Note how far the readers have read: what they have not is kept for them, for a time."""
        return self._past.cursors()

    def put_cursors(self, versions: Mapping[str, int | None], *, lazy: bool = False) -> None:
        """Makes cursors durable, all of them or none, with the next commit if it is `lazy`; those without a version are
        removed."""
        try:
            self._past.put_cursors(versions, lazy=lazy)
        except sqlite3.Error as error:
            raise failed(f"write cursors to `{self.root}`", error, help="the cursors are as before") from error

    # ---- the past -----------------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """The oldest version that `since` may name."""
        return max(self._log.first_version() - 1, 0)

    def commits(self, after: int, until: int, *, reverse: bool = False) -> Iterator[CommitRow]:
        return self._log.commits(after, until, reverse=reverse)

    def last_meta(self) -> str | None:
        return self._log.last_meta()

    def last_batch(self, stream: str) -> int | None:
        """The batch of a stream that was committed last."""
        return self._log.last_batch(stream)

    def definition_at(self, version: int) -> DefinitionRow | None:
        return self._log.definition_at(version)

    def changes(self, version: int) -> dict[str, tuple[LoggedRelation, Rows, Rows]]:
        """The changes of one commit, relation by relation."""
        if version <= self.oldest:
            raise forgotten(version - 1, self.oldest)
        definition = self._log.definition_at(version)
        relations = relations_from(definition.relations) if definition else {}
        return {
            change.relation: (relations[change.relation], *self.rows(relations[change.relation], change))
            for change in self._log.changes(version)
            if change.relation in relations
        }

    def tasks(self) -> list[OutboxTask]:
        """The tasks that commits left, oldest first."""
        return [task_of(row) for row in self._log.tasks()]

    def firings(self, version: int) -> list[LoggedFiring]:
        """The firings of one commit, in the order of the turns of their rules."""
        if version <= max(self.oldest, self.firings_since):
            raise _no_firings(version - 1, max(self.oldest, self.firings_since))
        return [firing_of(row) for row in self._log.firings(version)]

    def firings_of(self, rule: str, after: int, until: int) -> list[tuple[int, LoggedFiring]]:
        """The firings of one rule after a version, each with its version."""
        if after < max(self.oldest, self.firings_since):
            raise _no_firings(after, max(self.oldest, self.firings_since))
        return [(row.version, firing_of(row)) for row in self._log.firings_of(rule, after, until)]

    @property
    def firings_since(self) -> int:
        """The version after which firings are kept, as far as commits are."""
        return self._log.firings_since()

    def remove_tasks(self, done: Sequence[tuple[int, int]]) -> None:
        """These tasks are done, by version and number."""
        try:
            self._log.remove_tasks(done)
        except sqlite3.Error as error:
            raise failed(
                f"note in `{self.root}` that a task is done", error, help="it is done, and may be done again"
            ) from error

    # ---- records and cursors ------------------------------------------------------------------------

    def put_records(self, kind: str, texts: Mapping[str, str | None], *, lazy: bool = False) -> None:
        """Makes records of one kind durable, all of them or none; those without a text are removed. If it is `lazy`
        they are so with the next commit."""
        try:
            self._log.put_records(kind, texts, lazy=lazy)
        except sqlite3.Error as error:
            raise failed(
                f"write records of `{kind}` to `{self.root}`", error, help="the records are as before"
            ) from error

    def records(self, kind: str) -> dict[str, str]:
        """The texts of one kind, by id."""
        return self._log.records(kind)

    @property
    def identity(self) -> str:
        """A name that no other store has."""
        return self._log.meta()["identity"]

    def changes_of(self, relation: str, after: int, until: int) -> Iterator[ChangeRow]:
        return self._log.changes_of(relation, after, until)

    def definitions(self, after: int, until: int) -> list[DefinitionRow]:
        return self._log.definitions(after, until)

    def rows(self, relation: LoggedRelation, change: ChangeRow) -> tuple[Rows, Rows]:
        """The inserted and deleted rows, read on first use."""
        schema = relation.schema
        self._fetch(change)
        return (
            stored_rows(schema, change.inserted, change.came, self.root),
            stored_rows(schema, change.deleted, change.went, self.root),
        )

    def fetch_all(self) -> None:
        """Makes every folder that a record speaks of be here, where the store is on a lake."""
        for version in self._log.versions_with_folders():
            for change in self._log.changes(version):
                self._fetch(change)
        for row in self._log.snapshots():
            for folder, files in folder_of_saved(row.saved):
                self._fetch_files(folder, files)

    def _fetch(self, change: ChangeRow) -> None:
        if self._mirror is not None:
            for side in (decode(change.came), decode(change.went)):
                if isinstance(side, FolderSide):
                    self._fetch_files(side.folder, side.files)

    def _fetch_files(self, folder: str, files: Sequence[StoredFile]) -> None:
        if self._mirror is not None:
            self._mirror.fetch(self.root / folder, [name for name, _, _ in files])


class _Large:
    """The folder of a commit whose changes are too large for the log."""

    def __init__(self, root: Path, folder: Path, names: Mapping[str, str]) -> None:
        self._root, self._folder, self._names = root, folder, names
        make_folder(folder)

    def write(self, relation: str, rows: Rows, word: str) -> bytes:
        folder = self._folder / f"{self._names[relation]}.{word}"
        try:
            rows.to_parquet(folder)
        except UnicodeEncodeError:
            raise half_a_character(rows) from None
        return encode_folder(FolderSide(folder.relative_to(self._root).as_posix(), settle_files(folder)))

    def settle(self) -> None:
        for folder in (self._folder, self._folder.parent, self._root):
            settle(folder)


def _no_firings(since: int, oldest: int) -> UsageError:
    return UsageError(
        f"firings since version {since} are not kept; those since {oldest} are",
        code="history-not-kept",
        help=f"give a version from {oldest} on",
    )


def _free_folder(parent: Path, wish: str) -> Path:
    """A second snapshot of one version is needed when other relations are logged than before."""
    name, number = wish, 1
    while (parent / name).exists():
        number += 1
        name = f"{wish}-{number}"
    return parent / name


def _folders_of(rows: Iterable[SnapshotRow]) -> set[str]:
    """The names of the folders of these snapshots."""
    saved = (each for row in rows for each in json.loads(row.saved).values())
    return {Path(each["folder"]).parts[1] for each in saved if each["rows"]}
