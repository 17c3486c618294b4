"""The lock of a store: one process at a time has it open."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from upshot.core.errors import UsageError
from upshot.store.folders import LOCK


class StoreLock:
    """Held until `release` or the end of the process: the system keeps the lock, not the file."""

    def __init__(self, root: Path) -> None:
        path = root / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 4096, 0)
            os.close(self._descriptor)
            raise _locked(root, owner) from None
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        """Releasing twice is allowed. The file stays: removing it could break the lock of another process."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(root: Path, owner: bytes) -> UsageError:
    try:
        found = json.loads(owner)
        who = "this process" if _is_this(found) else f"process {found['pid']} on `{found['host']}`"
    except (ValueError, KeyError, TypeError):
        who = "another process"
    return UsageError(
        f"the store `{root}` is open in {who}",
        code="store-locked",
        help="close it there first; one process at a time opens a store",
    )


def _is_this(owner: dict[str, object]) -> bool:
    return owner["pid"] == os.getpid() and owner["host"] == socket.gethostname()
