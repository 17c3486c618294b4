"""A disk that fails: every write of a store passes here, is counted, and can be made to go wrong."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import upshot
from upshot.core.rows import Rows
from upshot.engine.local import LocalEngine


class Disk:
    """`before(number, what)` is called before each write; what it raises is what the write fails with. A write for
    which `late` holds is done all the same: it reached the disk and only the answer was lost."""

    def __init__(self, db: upshot.Database, patch: pytest.MonkeyPatch) -> None:
        self.writes: list[str] = []
        self.fail_at = 0
        self.late = False
        self.before: Callable[[str], None] = lambda what: None
        self._log = db._state.journal.store.log
        self._log._connection = _Connection(self._log._connection, self)
        self._patch(patch, os, "fsync", "fsync", OSError(errno.EIO, "Input/output error"))
        self._patch(patch, Path, "mkdir", "mkdir", OSError(errno.ENOSPC, "No space left on device"))
        self._patch_folder(patch, Rows, "to_parquet")
        self._patch_folder(patch, LocalEngine, "save")

    def write(self, what: str, error: Exception, do: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        self.before(what)
        self.writes.append(what)
        if len(self.writes) == self.fail_at:
            do() if self.late else half()
            raise error
        return do()

    def _patch(self, patch: pytest.MonkeyPatch, owner: Any, name: str, what: str, error: Exception) -> None:
        real = getattr(owner, name)
        patch.setattr(owner, name, lambda *given, **named: self.write(what, error, lambda: real(*given, **named)))

    def _patch_folder(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        """A file that is cut off in the middle."""
        real = getattr(owner, name)

        def write(*given: Any) -> Any:
            folder: Path = given[-1]

            def half() -> None:
                real(*given)
                for file in folder.iterdir():
                    os.truncate(file, file.stat().st_size // 2)

            full = OSError(errno.ENOSPC, "No space left on device")
            return self.write(f"Parquet {folder.name}", full, lambda: real(*given), half)

        patch.setattr(owner, name, write)

    @contextlib.contextmanager
    def failing_at(self, number: int, *, late: bool) -> Iterator[None]:
        self.writes, self.fail_at, self.late = [], number, late
        try:
            yield
        finally:
            self.fail_at = 0


class _Connection:
    """SQLite as the log uses it."""

    def __init__(self, real: sqlite3.Connection, disk: Disk) -> None:
        self._real, self._disk = real, disk

    def execute(self, text: str, values: Any = ()) -> Any:
        if text.startswith("SELECT"):
            return self._real.execute(text, values)
        error = sqlite3.OperationalError("disk I/O error")
        return self._disk.write(text.split("VALUES")[0], error, lambda: self._real.execute(text, values))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
