"""The last acknowledged version, in a file beside the log.

SQLite ends its write-ahead log at the first frame with a wrong checksum, and drops the rest: after a flipped bit, or
without the `-wal` file, an older version would open silently. The file `acknowledged` says how far the log must reach.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from upshot.core.diagnostic import Diagnostic, Severity
from upshot.core.errors import EngineError
from upshot.store.errors import damaged
from upshot.store.folders import ACKNOWLEDGED, LOG, sync

log = logging.getLogger("upshot.store")

_BYTES = 96


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """The last version, and the number of writes of records, cursors and tasks."""

    version: int = 0
    writes: int = 0


class MarkFile:
    """A lower bound of the log. It is written without `fsync`, after the log itself: the system keeps it when the
    process is killed, and a power failure may leave an older bound, never a newer one."""

    def __init__(self, root: Path, reached: Mark) -> None:
        """Without a readable mark, the log must reach as far as it does now."""
        self._path = root / ACKNOWLEDGED
        is_new = not self._path.exists()
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if read_mark(root) is None:
                self._write(reached)
            if is_new:
                sync(root)
        except BaseException:
            self.close()
            raise

    def advance(self, mark: Mark) -> None:
        """Note that the log up to this mark is on disk. On a failure the older bound remains, and the commit does not
        fail."""
        try:
            self._write(mark)
        except OSError as error:
            log.warning("`%s` still names an earlier version: %s", self._path, error)

    def lower(self, mark: Mark) -> None:
        """Note that the log after this mark is about to be removed; raises `OSError` on failure."""
        self._write(mark)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Closing twice is allowed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, mark: Mark) -> None:
        text = json.dumps({"version": mark.version, "writes": mark.writes, "crc": _checksum(mark)})
        # One sector of constant length: it is written atomically.
        os.pwrite(self._descriptor, text.encode().ljust(_BYTES - 1) + b"\n", 0)


def read_mark(root: Path) -> Mark | None:
    """None if there is no mark, or its checksum is wrong."""
    try:
        found = json.loads((root / ACKNOWLEDGED).read_bytes())
        mark = Mark(int(found["version"]), int(found["writes"]))
        return mark if found["crc"] == _checksum(mark) else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def refuse_lost(root: Path, found: Mark) -> None:
    """`store-damaged` if the log does not reach the acknowledged mark."""
    mark = read_mark(root)
    if mark is not None and (mark.version > found.version or mark.writes > found.writes):
        raise _lost(root, found, mark)


def unmarked(root: Path, found: Mark) -> tuple[Diagnostic, ...]:
    """A warning if the end of the log may be lost without a mark."""
    if found == Mark() or read_mark(root) is not None:
        return ()
    words = f"it is unknown whether commits after version {found.version} are lost"
    hint = "compare the version with what was committed last, or restore the whole database directory from a backup; "
    return (
        Diagnostic(
            "acknowledged-missing",
            f"`{ACKNOWLEDGED}` is missing or damaged: {words}",
            help=f"{hint}the file is written anew",
            severity=Severity.WARNING,
        ),
    )


def _lost(root: Path, found: Mark, mark: Mark) -> EngineError:
    if mark.version > found.version:
        first, last = found.version + 1, mark.version
        subject = f"version {last} was" if first == last else f"versions {first} to {last} were"
        message = f"{subject} committed and cannot be read from `{LOG}` and `{LOG}-wal`"
    else:
        message = f"records or cursors written after version {found.version} cannot be read from `{LOG}-wal`"
    accept = f"continue from version {found.version}: `upshot accept-loss {root}`"
    return damaged(message, help=f"restore the whole database directory from a backup, or {accept}")


def _checksum(mark: Mark) -> int:
    return zlib.crc32(f"{mark.version} {mark.writes}".encode())
