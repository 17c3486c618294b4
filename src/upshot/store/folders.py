"""The layout of a store; files that are synced to disk before a record names them."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from upshot.core.errors import EngineError, system_reason
from upshot.store.errors import damaged

LOG = "log.sqlite"
NEW_LOG = "log.sqlite.new"
UNFINISHED = "log.sqlite.unfinished"
"""The log of a backup until the backup is complete."""
LOCK = "lock"
ACKNOWLEDGED = "acknowledged"
SNAPSHOTS = "snapshots"
DELTAS = "deltas"

StoredFile = tuple[str, int, int]
"""The name of a file in its folder, its size, the CRC-32 of its bytes."""

CHECKED_BYTES = 4 << 30
"""When a store is opened, folders up to this size are compared with their checksums, larger ones by size only."""

_CHUNK = 1 << 20
_LONGEST_NAME = 100


def version_folder(version: int) -> str:
    """
    >>> version_folder(123)
    'v000123'
    """
    return f"v{version:06}"


def version_of(name: str) -> int | None:
    """The inverse of `version_folder`; None for another name.

    >>> version_of("v000123"), version_of("v000123-0a1b2c3d"), version_of("other")
    (123, 123, None)
    """
    found = re.fullmatch(r"v(\d{6,})(-[0-9a-f]{8})?", name)
    return int(found[1]) if found else None


def folder_names(relations: Iterable[str]) -> dict[str, str]:
    """A folder name for each relation, valid in every file system and for every Parquet reader.

    >>> folder_names(["edge", "Edge", "ok?"])
    {'edge': 'edge', 'Edge': 'Edge-2', 'ok?': 'ok-'}
    """
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for relation in relations:
        # A leading `_` or `.` hides a file from readers of Parquet folders.
        base = re.sub(r"[^A-Za-z0-9_]", "-", relation)[:_LONGEST_NAME]
        base, number = ("r" + base if base.startswith("_") else base), 1
        name = base
        while name.lower() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.lower())
        chosen[relation] = name
    return chosen


def folders_of_saved(saved: str) -> Iterator[tuple[str, tuple[StoredFile, ...]]]:
    """The folders of a snapshot, relative to the store, and their files, from its record."""
    for each in json.loads(saved).values():
        if each["rows"]:
            yield each["folder"], tuple((name, size, checksum) for name, size, checksum in each["files"])


def make_folder(folder: Path) -> None:
    """Make an empty folder; remove the files of an earlier attempt."""
    remove_folder(folder)
    folder.mkdir(parents=True)


def remove_folder(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


def sync_files(folder: Path) -> tuple[StoredFile, ...]:
    """Sync the data files of a folder to disk and return them."""
    files = []
    for path in _data_files(folder):
        sync(path)
        files.append((path.relative_to(folder).as_posix(), path.stat().st_size, _checksum(path)))
    for inner in {folder, *(path.parent for path in _data_files(folder))}:
        sync(inner)
    return tuple(files)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_files(folder: Path, files: Sequence[StoredFile]) -> None:
    """`EngineError` unless the files exist with the bytes that were written."""
    small = sum(size for _, size, _ in files) <= CHECKED_BYTES
    for name, size, checksum in files:
        path = folder / name
        try:
            if path.stat().st_size != size:
                raise damaged(f"`{path}` has {path.stat().st_size} bytes and should have {size}")
            if small and _checksum(path) != checksum:
                raise damaged(f"`{path}` does not hold the bytes that were written")
        except OSError as error:
            raise _unreadable(path, error) from None
    extra = {path.relative_to(folder).as_posix() for path in _data_files(folder)} - {name for name, _, _ in files}
    if extra:
        raise damaged(f"`{folder / min(extra)}` does not belong to the store")


def _unreadable(path: Path, error: OSError) -> EngineError:
    if isinstance(error, FileNotFoundError):
        return damaged(f"`{path}` is missing")
    return damaged(f"`{path}` cannot be read: {system_reason(error)}")


def _data_files(folder: Path) -> Iterator[Path]:
    """The files without the marks and checksums that Spark writes."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith((".", "_")))


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found = zlib.crc32(chunk, found)
    return found
