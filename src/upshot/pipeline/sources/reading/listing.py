"""The files of a folder, with fingerprints that detect a rewrite."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from upshot.core.errors import DataError, EngineError
from upshot.spark.lake_path import AnyPath, LakePath
from upshot.spark.location import LocationEntry

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SMALL_FILE = 4 * 1024 * 1024
"""Up to this size the hash is over the whole file."""
_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class FoundFile:
    """`name` is the path below the folder, with `/`."""

    path: AnyPath
    name: str
    size: int
    modified: int
    """Nanoseconds."""

    def part(self, start: int, length: int) -> bytes:
        """At most this many bytes of it."""
        length = min(length, self.size - start)
        if not isinstance(self.path, LakePath):
            with open(self.path, "rb") as stream:
                stream.seek(start)
                return stream.read(length)
        try:
            return self.path.files.read_part(self.path.uri, start, length)
        except EngineError:
            if self.path.exists():
                raise
            raise FileNotFoundError(2, "no such file", self.path.uri) from None


class FileStream(io.RawIOBase):
    """A file of a disk or a lake as a Python stream."""

    def __init__(self, file: FoundFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        found = self._file.part(self._at, len(view)) if self._at < self._file.size else b""
        view[: len(found)] = found
        self._at += len(found)
        return len(found)


_LOGS = {
    "_delta_log": (
        "is a Delta table",
        'use `format = "delta"`: the directory may have files that are no longer in the table',
    ),
    "_spark_metadata": (
        "was written by a stream of Spark",
        "files of batches that were never finished may be among the others: let the stream write a Delta table, or "
        "write with `foreachBatch` under names that begin with `_`, and rename them",
    ),
}
"""Folders with a log that names the valid files beside them."""


def files_of(folder: AnyPath, relation: str, *, anew: bool = False) -> list[FoundFile]:
    """The files of the folder and the folders in it, by name. Names that begin with `_` or `.` and names that end in
    `.tmp` or `.crc` are drafts and marks of other programs and are ignored. `anew` lists again even within `one_look`,
    and replaces the listing there.

    A folder with a log of valid files is refused, and so is anything inside of one.
    """
    seen = _SEEN.get()
    if seen is not None and folder in seen and not anew:
        return seen[folder]
    found = _on_lake(folder, relation) if isinstance(folder, LakePath) else _on_disk(folder, relation)
    found.sort(key=lambda file: file.name)
    if seen is not None:
        seen[folder] = found
    return found


def _on_disk(folder: Path, relation: str) -> list[FoundFile]:
    for above in (folder, *folder.absolute().parents):
        for log in _LOGS:
            if (above / log).is_dir():
                raise _counted_elsewhere(above, log, relation)
    if not folder.exists():
        raise _no_folder(folder, relation)
    return [_found(folder, folder.name)] if folder.is_file() else list(_below(folder, "", relation))


def _on_lake(folder: LakePath, relation: str) -> list[FoundFile]:
    """Parent folders are not listed: on a lake that may be forbidden."""
    status = folder.status()
    if status is None:
        raise _no_folder(folder, relation)
    if not status.is_folder:
        return [_listed(folder, folder.name, status)]
    return list(_below_on_lake(folder, "", relation))


def _no_folder(folder: AnyPath, relation: str) -> DataError:
    return missing(
        f"directory `{folder}`, the source of `{relation}`, does not exist", "check `path`; the directory may be empty"
    )


_SEEN: ContextVar[dict[AnyPath, list[FoundFile]] | None] = ContextVar("seen", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Inside, a folder is listed once: sources that share it read the same files, so that no transaction in them is
    split."""
    before = _SEEN.set({})
    try:
        yield
    finally:
        _SEEN.reset(before)


def being_written(folder: AnyPath) -> bool:
    """Test whether a Spark job is writing there."""
    return (folder / "_temporary").exists()


def fingerprint(file: FoundFile) -> str:
    """The hash of a small file; of a large one the hash of its first and last blocks and its time of change.

    `all:` and `ends:` say which of the two it is.
    """
    if file.size <= SMALL_FILE:
        return f"all:{hashlib.blake2b(file.part(0, file.size), digest_size=16).hexdigest()}"
    ends = hashlib.blake2b(file.part(0, _BLOCK), digest_size=16)
    ends.update(file.part(file.size - _BLOCK, _BLOCK))
    return f"ends:{ends.hexdigest()}:{file.modified}"


def file_at(path: AnyPath, name: str) -> FoundFile | None:
    """The file at a path; None if there is none."""
    if isinstance(path, LakePath):
        status = path.status()
        return None if status is None else _listed(path, name, status)
    try:
        return _found(path, name)
    except FileNotFoundError:
        return None


def missing(message: str, help: str) -> DataError:
    return DataError(message, code="source-missing", help=help)


def _counted_elsewhere(folder: AnyPath, log: str, relation: str) -> DataError:
    what, help = _LOGS[log]
    return DataError(
        f"`{folder}`, which has the files of `{relation}`, {what}: there is a `{log}`", code="source-format", help=help
    )


def _not_utf8(folder: Path, name: str) -> DataError:
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    return DataError(
        f"the name of a file is not UTF-8: `{shown}` in `{folder}`", code="unreadable-source", help="rename the file"
    )


def _below(folder: Path, prefix: str, relation: str) -> Iterator[FoundFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _LOGS and entry.is_dir():
                raise _counted_elsewhere(folder, entry.name, relation)
            if is_draft(entry.name):
                continue
            if not entry.name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in entry.name):
                raise _not_utf8(folder, entry.name)
            try:
                if entry.is_dir():
                    yield from _below(Path(entry.path), f"{prefix}{entry.name}/", relation)
                elif entry.is_file():
                    yield _found(Path(entry.path), prefix + entry.name)
            except FileNotFoundError:
                # Renamed or removed since it was listed: the next listing is right.
                continue


def is_draft(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith((".tmp", ".crc"))


def _below_on_lake(folder: LakePath, prefix: str, relation: str) -> Iterator[FoundFile]:
    for entry in folder.entries():
        if entry.name in _LOGS and entry.is_folder:
            raise _counted_elsewhere(folder, entry.name, relation)
        if is_draft(entry.name):
            continue
        if entry.is_folder:
            yield from _below_on_lake(folder / entry.name, f"{prefix}{entry.name}/", relation)
        else:
            yield _listed(folder / entry.name, prefix + entry.name, entry)


def _listed(path: LakePath, name: str, entry: LocationEntry) -> FoundFile:
    return FoundFile(path, name, entry.size, round(entry.modified * 1000) * 1_000_000)


def _found(path: Path, name: str) -> FoundFile:
    status = path.stat()
    return FoundFile(path, name, status.st_size, status.st_mtime_ns)
