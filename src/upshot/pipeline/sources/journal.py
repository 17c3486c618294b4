"""An append-only list on disk, in which a position is a number of entries.

Each line is one entry as JSON with the digest of everything up to it, so that a position tells whether the journal it
was taken from is still the same. A line is on disk before its number is handed out; half a line, left by a crash, was
never handed out and is written over. Who only reads changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from upshot.core.errors import DataError

Entry = dict[str, Any]


class Journal:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries: list[Entry] = []
        self._digests: list[str] = []
        self._size = 0
        """Bytes of whole lines."""
        self._load()

    @property
    def entries(self) -> Sequence[Entry]:
        return self._entries

    def digest(self, count: int) -> str:
        """What the first `count` entries come to."""
        return self._digests[count - 1] if count else ""

    def check(self, count: int, digest: str) -> None:
        """Refuses a position that this journal did not hand out."""
        if count > len(self._entries) or self.digest(count) != digest:
            raise torn_state(f"{self._named} does not go with the checkpoint")

    @property
    def _named(self) -> str:
        return f"`{self._file.parent.name}/{self._file.name}` in the pipeline's state"

    def append(self, entries: Iterable[Entry]) -> None:
        lines = b""
        digests = list(self._digests)
        added = list(entries)
        for entry in added:
            digests.append(_digest(digests[-1] if digests else "", entry))
            lines += json.dumps({**entry, "digest": digests[-1]}, separators=(",", ":")).encode("ascii") + b"\n"
        if not added:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with open(self._file, "ab") as stream:
            stream.truncate(self._size)
            stream.write(lines)
            stream.flush()
            os.fsync(stream.fileno())
        self._size += len(lines)
        self._entries += added
        self._digests = digests

    def cut(self, count: int) -> None:
        """Forgets what comes after the first `count` entries: no position that counts has reached it."""
        lines = [line + b"\n" for line in self._file.read_bytes().split(b"\n")[:count]]
        draft = self._file.with_name(f".{self._file.name}")
        with open(draft, "wb") as stream:
            stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, self._file)
        self._size = sum(map(len, lines))
        del self._entries[count:], self._digests[count:]

    def _load(self) -> None:
        if not self._file.exists():
            return
        data = self._file.read_bytes()
        self._size = data.rfind(b"\n") + 1
        for line in data[: self._size].split(b"\n")[:-1]:
            try:
                entry = json.loads(line)
                digest = entry.pop("digest")
            except (ValueError, KeyError, AttributeError, TypeError):
                raise torn_state(f"{self._named} is damaged") from None
            if digest != _digest(self._digests[-1] if self._digests else "", entry):
                raise torn_state(f"{self._named} was changed by hand")
            self._entries.append(entry)
            self._digests.append(digest)


def torn_state(message: str) -> DataError:
    help = "restore the whole `state` folder from one backup, or start with an empty one"
    return DataError(message, code="state-mismatch", help=help)


def other_source(relation: str) -> DataError:
    """The error for a position that a source of another kind has left."""
    return DataError(
        f"the state was made with another kind of source for `{relation}`",
        code="state-mismatch",
        help="give the relation its old source, or start with an empty `state`",
    )


def _digest(before: str, entry: Entry) -> str:
    text = before + json.dumps(entry, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
