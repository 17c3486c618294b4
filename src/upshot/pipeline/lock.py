"""The lock of a state, which admits one run at a time: a locked file that names the running process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from upshot.core.errors import UsageError, system_reason
from upshot.spark.lake_path import AnyPath


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Lock the state for this process. The lock ends with the process, however it ends."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        # Opened for appending: a process that finds it locked must not have emptied it.
        opened = open(state / "lock", "a+", encoding="utf-8")  # noqa: SIM115 - closed by the block below
    except OSError as error:
        raise unusable_state(state, error) from None
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _running(state, _holder(state)) from None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with writing(state):
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}))
            file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def writing(state: AnyPath) -> Iterator[None]:
    """Raise errors of the file system inside the block as `unusable-state`."""
    try:
        yield
    except OSError as error:
        raise unusable_state(state, error) from error


def unusable_state(state: AnyPath, error: OSError) -> UsageError:
    """The error for a `state` that is no folder, or one that cannot be read and written."""
    reason = system_reason(error)
    where = f": `{error.filename}`" if error.filename and str(error.filename) != str(state) else ""
    return UsageError(
        f"the state `{state}` cannot be used: {reason}{where}",
        code="unusable-state",
        help="let `state` name a new directory, or one with free space and write permission",
    )


def _holder(state: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        found = json.loads((state / "lock").read_text(encoding="utf-8"))
        return f"process {found['pid']} on {found['host']}, since {found['since']}"
    return "another process"


def _running(state: Path, holder: str) -> UsageError:
    return UsageError(
        f"a pipeline is already running on `{state}`: {holder}",
        code="pipeline-running",
        help="wait for it or stop it; a second pipeline needs another `state`",
    )
