"""Copy a store as of one commit, while commits go on.

    empty folder ─► log.sqlite.unfinished ─► copy of the log as of one commit ─► the folders it names ─► log.sqlite
                    (marks the copy as incomplete)                           (compared with their checksums)

The log is copied in a read transaction of SQLite; folders never change once a record names them.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from upshot.core.errors import EngineError, UsageError
from upshot.store.acknowledged import refuse_lost
from upshot.store.encoding import FolderSide, decode, is_folder
from upshot.store.errors import damaged, failed
from upshot.store.folders import LOG, UNFINISHED, StoredFile, folders_of_saved, remove_folder, sync
from upshot.store.log import Log
from upshot.store.opening import StoreLock, refuse_others

_CHUNK = 1 << 20
_ATTEMPTS = 5
"""The most attempts to copy a store that another process has open, if folders are removed meanwhile."""


PinnedLog = AbstractContextManager[sqlite3.Connection]
"""A block in which no folder of a store is removed; it yields the log as of its start."""


def back_up(root: Path, target: str | os.PathLike[str], pinned: PinnedLog) -> int:
    """Copy the store into a new or empty folder; its version there. On an error the target is unchanged; a process that
    dies leaves a copy that cannot be opened."""
    place = _empty_place(target, root)
    is_new = not place.exists()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with pinned as log:
            return _copied(root, place, log)
    except BaseException as error:
        _clear(place, is_new)
        if isinstance(error, OSError | sqlite3.Error):
            raise failed(f"be backed up to `{place}`", error, help="no backup was made") from error
        raise


def back_up_from_outside(root: Path, target: str | os.PathLike[str]) -> int:
    """As `back_up`, for a store that this process has not opened; another one may have."""
    if not (root / LOG).exists():
        message = f"there is no store in `{root}`"
        raise UsageError(message, code="not-a-store", help="name a database directory")
    refuse_others(root)
    for _ in range(_ATTEMPTS - 1):
        try:
            return back_up(root, target, _pinned_from_outside(root))
        except _Vanished:
            continue
    return back_up(root, target, _pinned_from_outside(root))


@contextmanager
def _pinned_from_outside(root: Path) -> Iterator[sqlite3.Connection]:
    """If no process has the store open, none can open it meanwhile."""
    lock = None
    with suppress(UsageError):  # a process that has it open goes on
        lock = StoreLock(root)
    try:
        if lock is not None:
            with closing(Log(root, read_only=True)) as found:
                refuse_lost(root, found.reached())
        with closing(pinned_log(root, closed=lock is not None)) as log:
            yield log
    finally:
        if lock is not None:
            lock.release()


def pinned_log(root: Path, *, closed: bool = False) -> sqlite3.Connection:
    """The log as of now, while the connection is open; `closed` if no process can write to it."""
    path = (root / LOG).resolve()
    # Without a `-wal` file a database can be opened read-only only if it is immutable.
    mode = "immutable=1" if closed and not path.with_name(LOG + "-wal").exists() else "mode=ro"
    log = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False)
    try:
        log.execute("BEGIN")
        log.execute("SELECT count(*) FROM meta").fetchone()
    except BaseException:
        log.close()
        raise
    return log


class _Vanished(EngineError):
    """A folder was removed while the store was copied, because its process no longer needed it."""


def _empty_place(target: str | os.PathLike[str], root: Path) -> Path:
    try:
        place = Path(target).absolute()
    except TypeError:
        message = f"a backup is written to a directory, not to {type(target).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in db.backup("copy/")') from None
    if place.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"`{place}` is inside the store", code="target-not-empty", help="name a directory elsewhere")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        what = "is a file" if not place.is_dir() else "is not empty"
        raise UsageError(f"`{place}` {what}", code="target-not-empty", help="name a new or empty directory")
    return place


def _copied(root: Path, place: Path, pinned: sqlite3.Connection) -> int:
    unfinished = place / UNFINISHED
    with unfinished.open("xb") as file:
        os.fsync(file.fileno())
    sync(place)
    _copy_log(pinned, unfinished)
    with closing(Log(place, name=UNFINISHED, read_only=True)) as log:
        version = log.last_version()
        for folder, files in _folders(log):
            _copy_folder(root / folder, place / folder, files)
    for leftover in place.glob(UNFINISHED + "-*"):
        leftover.unlink()
    sync(place)
    unfinished.rename(place / LOG)
    sync(place)
    sync(place.parent)
    return version


def _copy_log(pinned: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        pinned.backup(copy)
        pinned.close()  # so that SQLite's own log need not grow while folders are copied
        copy.execute("PRAGMA journal_mode=WAL")
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _folders(log: Log) -> Iterator[tuple[str, Sequence[StoredFile]]]:
    """Every folder that the log names: of the newest snapshot, and of commits."""
    for snapshot in log.snapshots()[:1]:
        yield from folders_of_saved(snapshot.saved)
    for version in log.versions_with_folders():
        for change in log.changes(version):
            for side in (change.inserted_side, change.deleted_side):
                if side is not None and is_folder(side):
                    found = decode(side)
                    assert isinstance(found, FolderSide)
                    yield found.folder, found.files


def _copy_folder(source: Path, target: Path, files: Sequence[StoredFile]) -> None:
    target.mkdir(parents=True)
    for name, size, checksum in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            found = _copy_file(source / name, target / name)
        except FileNotFoundError:
            raise _Vanished(
                f"the store is damaged: `{source / name}` is missing",
                code="store-damaged",
                help="no backup was made; restore the whole database directory from an earlier one",
            ) from None
        if found != (size, checksum):
            raise damaged(f"`{source / name}` does not hold the bytes that were written")
        sync((target / name).parent)
    for folder in (target, target.parent, target.parent.parent, target.parent.parent.parent):
        sync(folder)


def _copy_file(source: Path, target: Path) -> tuple[int, int]:
    """Size and CRC-32 of the copied file, which is on disk."""
    size = checksum = 0
    with source.open("rb") as read, target.open("xb") as write:
        while chunk := read.read(_CHUNK):
            write.write(chunk)
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
        write.flush()
        os.fsync(write.fileno())
    return size, checksum


def _clear(place: Path, is_new: bool) -> None:
    """Remove an incomplete copy, the mark that it is incomplete last."""
    try:
        for each in sorted(place.iterdir(), key=lambda path: path.name == UNFINISHED):
            if each.is_dir():
                remove_folder(each)
            else:
                each.unlink()
        if is_new:
            place.rmdir()
    except OSError:
        pass  # the rest is marked as incomplete
