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


_LOGS = {
    "_delta_log": ("is a Delta table", 'say `format = "delta"`: files that are no longer in the table are still there'),
    "_spark_metadata": (
        "was written by a stream of Spark",
        "files of batches that were never finished may be among the others: let the stream write a Delta table, or "
        "write with `foreachBatch` under names that begin with `_`, and rename them",
    ),
}
"""Folders that say which of the files beside them count."""


def files_of(folder: Path, relation: str, *, anew: bool = False) -> list[FoundFile]:
    """The files of the folder and the folders in it, by name. Names that begin with `_` or `.` and names that end in
    `.tmp` or `.crc` are drafts and marks of other programs and are passed over. `anew` looks again even within
    `one_look`; from then on, that is what was seen.

    A folder of which only a log knows the files that count is refused, and so is anything inside of one.
    """
    seen = _SEEN.get()
    if seen is not None and folder in seen and not anew:
        return seen[folder]
    for above in (folder, *folder.absolute().parents):
        for log in _LOGS:
            if (above / log).is_dir():
                raise _counted_elsewhere(above, log, relation)
    if not folder.exists():
        raise missing(f"there is no `{folder}`, the source of `{relation}`", "check `path`; an empty folder will do")
    found = [_found(folder, folder.name)] if folder.is_file() else list(_below(folder, "", relation))
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


def _counted_elsewhere(folder: Path, log: str, relation: str) -> DataError:
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
            if entry.name.startswith(("_", ".")) or entry.name.endswith((".tmp", ".crc")):
                continue
            if not entry.name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in entry.name):
                raise _not_utf8(folder, entry.name)
            try:
                if entry.is_dir():
                    yield from _below(Path(entry.path), f"{prefix}{entry.name}/", relation)
                elif entry.is_file():
                    yield _found(Path(entry.path), prefix + entry.name)
            except FileNotFoundError:
                # Renamed or removed since it was listed: the next look sees what became of it.
                continue


def _found(path: Path, name: str) -> FoundFile:
    status = path.stat()
    return FoundFile(path, name, status.st_size, status.st_mtime_ns)
