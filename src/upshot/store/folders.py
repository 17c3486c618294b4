"""The layout of a store, and files that are on the disk before anything speaks of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from upshot.core.errors import EngineError, system_reason
from upshot.store.trouble import damaged

LOG = "log.sqlite"
NEW_LOG = "log.sqlite.new"
UNFINISHED = "log.sqlite.unfinished"
"""The log of a backup until all of it is there."""
LOCK = "lock"
ACKNOWLEDGED = "acknowledged"
SNAPSHOTS = "snapshots"
DELTAS = "deltas"

StoredFile = tuple[str, int, int]
"""The name of a file in its folder, its size, the CRC-32 of its bytes."""

CHECKED_BYTES = 4 << 30
"""Folders up to this size are compared with their checksums when a store is opened, larger ones only by size."""

_CHUNK = 1 << 20
_LONGEST_NAME = 100


def version_folder(version: int) -> str:
    """
    >>> version_folder(123)
    'v000123'
    """
    return f"v{version:06}"


def version_of(name: str) -> int | None:
    """The inverse of `version_folder`; nothing for another name.

    >>> version_of("v000123"), version_of("v000123-0a1b2c3d"), version_of("other")
    (123, 123, None)
    """
    found = re.fullmatch(r"v(\d{6,})(-[0-9a-f]{8})?", name)
    return int(found[1]) if found else None


def folder_names(relations: Iterable[str]) -> dict[str, str]:
    """A folder name for each relation: its own name, where every file system and every reader of Parquet can take it.

    >>> folder_names(["edge", "Edge", "ok?"])
    {'edge': 'edge', 'Edge': 'Edge-2', 'ok?': 'ok-'}
    """
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for relation in relations:
        # A leading `_` or `.` hides a file from readers of Parquet folders.
        wish = re.sub(r"[^A-Za-z0-9_]", "-", relation)[:_LONGEST_NAME]
        wish, number = ("r" + wish if wish.startswith("_") else wish), 1
        name = wish
        while name.lower() in taken:
            number += 1
            name = f"{wish}-{number}"
        taken.add(name.lower())
        chosen[relation] = name
    return chosen


def folder_of_saved(saved: str) -> Iterator[tuple[str, tuple[StoredFile, ...]]]:
    """The folders of a snapshot, relative to the store, and their files, from the text of its record."""
    for each in json.loads(saved).values():
        if each["rows"]:
            yield each["folder"], tuple((name, size, checksum) for name, size, checksum in each["files"])


def make_folder(folder: Path) -> None:
    """An empty folder; what an earlier attempt left there goes."""
    remove_folder(folder)
    folder.mkdir(parents=True)


def remove_folder(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


def settle_files(folder: Path) -> tuple[StoredFile, ...]:
    """The data files of a folder, once all of them have reached the disk."""
    files = []
    for path in _data_files(folder):
        settle(path)
        files.append((path.relative_to(folder).as_posix(), path.stat().st_size, _checksum(path)))
    for inner in {folder, *(path.parent for path in _data_files(folder))}:
        settle(inner)
    return tuple(files)


def settle(path: Path) -> None:
    """The bytes of the file, or the names in the folder, have reached the disk when this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_files(folder: Path, files: Sequence[StoredFile]) -> None:
    """`EngineError` unless the files are there, with the bytes they were written with."""
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
    """Not the marks and checksums that Spark leaves beside them."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith((".", "_")))


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found = zlib.crc32(chunk, found)
    return found
