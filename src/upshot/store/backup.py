"""A copy of a store as it is after one commit, made while commits go on.

    empty folder ─► log.sqlite.unfinished ─► copy of the log at one moment ─► the folders it speaks of ─► log.sqlite
                    (whoever opens it now is told so)                        (checked against its records)

The copy of the log is a read transaction of SQLite, so it is consistent whatever is written meanwhile; folders never
change once a record speaks of them.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from upshot.core.errors import EngineError, UsageError
from upshot.store.encoding import FolderSide, decode, is_folder
from upshot.store.folders import LOG, UNFINISHED, StoredFile, folder_of_saved, remove_folder, settle_folder
from upshot.store.lock import StoreLock
from upshot.store.log import Log
from upshot.store.opening import refuse_others
from upshot.store.trouble import damaged, failed

_CHUNK = 1 << 20
_ATTEMPTS = 5
"""How often a store is copied that another process has open, if folders vanish meanwhile."""


def back_up(root: Path, target: str | os.PathLike[str], held: AbstractContextManager[bool]) -> int:
    """Copies the store into a new or empty folder; the version it has there. While `held`, no folder of the store is
    removed; the answer of the block is whether the store is closed until it ends. On an error the target is as before;
    a process that ends meanwhile leaves one that cannot be opened."""
    place = _empty_place(target, root)
    is_new = not place.exists()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with held as closed:
            return _copied(root, place, closed)
    except BaseException as error:
        _clear(place, is_new)
        if isinstance(error, OSError | sqlite3.Error):
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise failed(f"be backed up to `{place}`", why, help="there is no back-up") from error
        raise


def back_up_from_outside(root: Path, target: str | os.PathLike[str]) -> int:
    """As `back_up`, of a store that this process has not opened; another one may have."""
    if not (root / LOG).exists():
        message = f"there is no store in `{root}`"
        raise UsageError(message, code="not-a-store", help="name the folder of a store")
    refuse_others(root)
    for _ in range(_ATTEMPTS - 1):
        try:
            return back_up(root, target, _locked_if_free(root))
        except _Vanished:
            continue
    return back_up(root, target, _locked_if_free(root))


@contextmanager
def _locked_if_free(root: Path) -> Iterator[bool]:
    """Whether nobody has the store open; then nobody opens it while it is copied."""
    try:
        lock = StoreLock(root)
    except UsageError:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


class _Vanished(EngineError):
    """A folder was removed while the store was copied: its process had no more use for it."""


def _empty_place(target: str | os.PathLike[str], root: Path) -> Path:
    try:
        place = Path(target).absolute()
    except TypeError:
        message = f"a back-up goes into a folder, not into {type(target).__name__}"
        raise UsageError(message, code="wrong-argument", help='as in db.backup("copy/")') from None
    if place.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"`{place}` is inside the store", code="target-not-empty", help="name a folder elsewhere")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        what = "is a file" if not place.is_dir() else "is not empty"
        raise UsageError(f"`{place}` {what}", code="target-not-empty", help="name a new folder, or an empty one")
    return place


def _copied(root: Path, place: Path, closed: bool) -> int:
    unfinished = place / UNFINISHED
    with unfinished.open("xb") as file:
        os.fsync(file.fileno())
    settle_folder(place)
    _copy_log(root, unfinished, closed)
    with closing(Log(place, name=UNFINISHED, read_only=True)) as log:
        version = log.last_version()
        for folder, files in _folders(log):
            _copy_folder(root / folder, place / folder, files)
    for left in place.glob(UNFINISHED + "-*"):
        left.unlink()
    settle_folder(place)
    unfinished.rename(place / LOG)
    settle_folder(place)
    settle_folder(place.parent)
    return version


def _copy_log(root: Path, target: Path, closed: bool) -> None:
    """One moment of the log, whole and without free pages, on the disk."""
    path = (root / LOG).resolve()
    # Without SQLite's own log beside it a database cannot be opened for reading only, unless it does not change.
    mode = "immutable=1" if closed and not path.with_name(LOG + "-wal").exists() else "mode=ro"
    with closing(sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None)) as source:
        source.execute("VACUUM INTO ?", (str(target),))
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode=WAL")
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _folders(log: Log) -> Iterator[tuple[str, Sequence[StoredFile]]]:
    """Every folder that the log speaks of: of the newest snapshot, and of commits."""
    for snapshot in log.snapshots()[:1]:
        yield from folder_of_saved(snapshot.saved)
    for version in log.versions_with_folders():
        for change in log.changes(version):
            for side in (change.came, change.went):
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
                help="there is no back-up; put back the whole folder from an earlier one",
            ) from None
        if found != (size, checksum):
            raise damaged(f"`{source / name}` does not hold the bytes that were written")
        settle_folder((target / name).parent)
    for folder in (target, target.parent, target.parent.parent, target.parent.parent.parent):
        settle_folder(folder)


def _copy_file(source: Path, target: Path) -> tuple[int, int]:
    """Size and CRC-32 of what was copied, and is on the disk."""
    size = checksum = 0
    with source.open("rb") as read, target.open("xb") as write:
        while chunk := read.read(_CHUNK):
            write.write(chunk)
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
        write.flush()
        os.fsync(write.fileno())
    return size, checksum


def _clear(place: Path, is_new: bool) -> None:
    """The mark that it is unfinished goes last."""
    try:
        for each in sorted(place.iterdir(), key=lambda path: path.name == UNFINISHED):
            if each.is_dir():
                remove_folder(each)
            else:
                each.unlink()
        if is_new:
            place.rmdir()
    except OSError:
        pass  # what stays says itself that it is unfinished
