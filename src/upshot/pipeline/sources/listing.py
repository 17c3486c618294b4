"""The files of a folder, with what tells whether one was rewritten."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from upshot.core.errors import DataError

SMALL_FILE = 4 * 1024 * 1024
"""Up to this size the hash is over the whole file."""
_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class FoundFile:
    """`name` is the path below the folder, with `/`."""

    path: Path
    name: str
    size: int
    modified: int
    """Nanoseconds."""


def files_of(folder: Path, relation: str) -> list[FoundFile]:
    """The files of the folder and the folders in it, by name. Names that begin with `_` or `.` and names that end in
    `.tmp` or `.crc` are drafts and marks of other programs and are passed over."""
    seen = _SEEN.get()
    if seen is not None and folder in seen:
        return seen[folder]
    if not folder.exists():
        raise missing(f"there is no `{folder}`, the source of `{relation}`", "check `path`; an empty folder will do")
    found = [_found(folder, folder.name)] if folder.is_file() else list(_below(folder, ""))
    found.sort(key=lambda file: file.name)
    if seen is not None:
        seen[folder] = found
    return found


_SEEN: ContextVar[dict[Path, list[FoundFile]] | None] = ContextVar("seen", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Inside, a folder is listed once: sources that share it take the same files, so that no transaction in them is
    torn in two."""
    before = _SEEN.set({})
    try:
        yield
    finally:
        _SEEN.reset(before)


def being_written(folder: Path) -> bool:
    """Whether a Spark job is writing there at this moment."""
    return (folder / "_temporary").exists()


def fingerprint(file: FoundFile) -> str:
    """The hash of a small file; of a large one the hash of its first and last blocks and its time of change.

    `all:` and `ends:` say which of the two it is.
    """
    with open(file.path, "rb") as stream:
        if file.size <= SMALL_FILE:
            return f"all:{hashlib.blake2b(stream.read(), digest_size=16).hexdigest()}"
        ends = hashlib.blake2b(stream.read(_BLOCK), digest_size=16)
        stream.seek(-_BLOCK, os.SEEK_END)
        ends.update(stream.read(_BLOCK))
        return f"ends:{ends.hexdigest()}:{file.modified}"


def missing(message: str, help: str) -> DataError:
    return DataError(message, code="source-missing", help=help)


def _below(folder: Path, prefix: str) -> Iterator[FoundFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(("_", ".")) or entry.name.endswith((".tmp", ".crc")):
                continue
            try:
                if entry.is_dir():
                    yield from _below(Path(entry.path), f"{prefix}{entry.name}/")
                elif entry.is_file():
                    yield _found(Path(entry.path), prefix + entry.name)
            except FileNotFoundError:
                # Renamed or removed since it was listed: the next look sees what became of it.
                continue


def _found(path: Path, name: str) -> FoundFile:
    status = path.stat()
    return FoundFile(path, name, status.st_size, status.st_mtime_ns)
