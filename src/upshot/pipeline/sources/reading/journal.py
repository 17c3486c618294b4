"""An append-only list that outlives the process, in which a position is a number of entries.

Each line is one entry as JSON with the digest of all entries up to it, so that a position identifies its journal. In a
state on a disk a line is durable before a position counts it; half a line, left by a crash, is overwritten. In a state
on a lake the lines are records of the store, and become durable with the batch that reads up to them. A reader changes
nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from upshot.core.errors import DataError
from upshot.database.durable.records import Records
from upshot.pipeline.lock import writing
from upshot.spark.lake_path import AnyPath, LakePath
from upshot.spark.location import files_of

Entry = dict[str, Any]


class Lines(Protocol):
    """The storage of the lines."""

    name: str

    def load(self) -> list[bytes]:
        """Every whole line."""

    def append(self, lines: Sequence[bytes]) -> None: ...

    def cut(self, count: int) -> None:
        """Keep the first `count` lines."""


class FileLines:
    """The lines of a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.name = f"{file.parent.name}/{file.name}"
        self._size = 0
        """Bytes of whole lines."""

    def load(self) -> list[bytes]:
        if not self._file.exists():
            return []
        data = self._file.read_bytes()
        self._size = data.rfind(b"\n") + 1
        return data[: self._size].split(b"\n")[:-1]

    def append(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        with writing(self._file.parent):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with open(self._file, "ab") as stream:
                stream.truncate(self._size)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        self._size += len(data)

    def cut(self, count: int) -> None:
        lines = [line + b"\n" for line in self._file.read_bytes().split(b"\n")[:count]]
        draft = self._file.with_name(f".{self._file.name}")
        with writing(self._file.parent):
            with open(draft, "wb") as stream:
                stream.writelines(lines)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, self._file)
        self._size = sum(map(len, lines))


class RecordLines:
    """The lines as records of a store, which become durable with its next commit."""

    def __init__(self, records: Records, name: str) -> None:
        self.name = name
        self._records = records
        self._count = 0

    def load(self) -> list[bytes]:
        lines = [json.dumps(record, separators=(",", ":")).encode("ascii") for record in self._records.all().values()]
        self._count = len(lines)
        return lines

    def append(self, lines: Sequence[bytes]) -> None:
        added = {_numbered(self._count + place): json.loads(line) for place, line in enumerate(lines)}
        self._records.put_all(added, lazy=True)
        self._count += len(lines)

    def cut(self, count: int) -> None:
        self._records.put_all({_numbered(place): None for place in range(count, self._count)}, lazy=True)
        self._count = count


def _numbered(place: int) -> str:
    return f"{place:012}"


class SourceJournal:
    def __init__(self, lines: Path | Lines) -> None:
        """A path means the file there."""
        self._lines: Lines = FileLines(lines) if isinstance(lines, Path) else lines
        self._entries: list[Entry] = []
        self._digests: list[str] = []
        self._load()

    @property
    def entries(self) -> Sequence[Entry]:
        return self._entries

    def digest(self, count: int) -> str:
        """The digest of the first `count` entries."""
        return self._digests[count - 1] if count else ""

    def check(self, count: int, digest: str) -> None:
        """Refuse a position of another journal."""
        if count > len(self._entries) or self.digest(count) != digest:
            raise torn_state(f"{self._named} does not match the checkpoint")

    @property
    def _named(self) -> str:
        return f"`{self._lines.name}` in the pipeline's state"

    def append(self, entries: Iterable[Entry]) -> None:
        lines = []
        digests = list(self._digests)
        added = list(entries)
        for entry in added:
            digests.append(_digest(digests[-1] if digests else "", entry))
            lines.append(json.dumps({**entry, "digest": digests[-1]}, separators=(",", ":")).encode("ascii"))
        if not added:
            return
        self._lines.append(lines)
        self._entries += added
        self._digests = digests

    def cut(self, count: int) -> None:
        """Remove all but the first `count` entries: no recorded position counts the others."""
        self._lines.cut(count)
        del self._entries[count:], self._digests[count:]

    def _load(self) -> None:
        for line in self._lines.load():
            try:
                entry = json.loads(line)
                digest = entry.pop("digest")
            except (ValueError, KeyError, AttributeError, TypeError):
                raise torn_state(f"{self._named} is damaged") from None
            if digest != _digest(self._digests[-1] if self._digests else "", entry):
                raise torn_state(f"{self._named} was changed by hand")
            self._entries.append(entry)
            self._digests.append(digest)


@dataclass(frozen=True, slots=True)
class Staging:
    """The files of a source in the state: a directory for copies of rows, and journals. In a state on a lake the
    journals are records of the store, by the name of the source."""

    folder: AnyPath
    records: Callable[[str], Records] | None = None

    def journal(self, name: str) -> SourceJournal:
        if self.records is not None:
            kind = f"journal/{self.folder.name}/{name}"
            return SourceJournal(RecordLines(self.records(kind), kind))
        assert isinstance(self.folder, Path), "a state on a lake has records"
        return SourceJournal(self.folder / f"{name}.ndjson")


def data_files(folder: AnyPath) -> dict[str, int]:
    """The Parquet files of staged rows and their sizes."""
    entries = folder.entries() if isinstance(folder, LakePath) else files_of(None, str(folder)).entries(str(folder))
    return {entry.name: entry.size for entry in entries if entry.name.endswith(".parquet")}


def require_files(folder: AnyPath, written: dict[str, int] | None, relation: str) -> None:
    """`state-mismatch` if staged rows lost a file or have another. Earlier versions of Upshot wrote no list."""
    found = data_files(folder)
    if written is not None and written != found:
        name = min(written.items() ^ found.items())[0]
        raise torn_state(f"`{folder / name}`, staged for `{relation}`, is not as it was written")


def torn_state(message: str) -> DataError:
    help = "restore the whole `state` directory from one backup, or start with an empty one"
    return DataError(message, code="state-mismatch", help=help)


def other_source(relation: str) -> DataError:
    """The error for a position of another kind of source."""
    return DataError(
        f"the state was made with another kind of source for `{relation}`",
        code="state-mismatch",
        help="give the relation its old source, or start with an empty `state`",
    )


def _digest(before: str, entry: Entry) -> str:
    text = before + json.dumps(entry, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
