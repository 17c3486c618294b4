"""The kernel's machine code on disk: its folder, its completeness, and the process that compiles it.

Compiling takes 20 to 30 seconds, once per version of Upshot and Numba. It runs in a separate process, while this one
continues with the plain form.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from upshot.engine.local.kernel.plain import SOURCES

log = logging.getLogger("upshot.engine")

_COMPLETE = "complete"
_SOURCES = (*SOURCES, "compiled", "layout", "memory")
_WARM = "upshot.engine.local.warm"
_NOTICE = "compiling the engine, once: about 30 seconds, in the background (`upshot warm` does it ahead of time)"


def cache_folder() -> Path | None:
    """The folder of the machine code, or None if nothing can be written.

    Numba's own cache checks only the file of the compiled function, so the name of the folder depends on all sources of
    the kernel.
    """
    # First, since without file descriptors `version` would report a missing package.
    sources = [(Path(__file__).parent / f"{source}.py").read_bytes() for source in _SOURCES]
    digest = hashlib.sha256(version("numba").encode())
    for source in sources:
        digest.update(source)
    name = f"kernel-{digest.hexdigest()[:16]}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (Path(__file__).parent / "__pycache__" / name, home / "upshot" / name):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) or is_complete(folder):
            return folder
    return None


def is_complete(folder: Path | None) -> bool:
    return folder is not None and (folder / _COMPLETE).exists()


@contextmanager
def sole_compiler() -> Iterator[None]:
    """A section in which no other process compiles into the folder."""
    folder = cache_folder()
    if folder is None or is_complete(folder):
        yield
        return
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mark_complete(folder: Path | None) -> None:
    """Record that every function is on disk; a folder that cannot be written stays unmarked."""
    if folder is not None and not is_complete(folder) and os.access(folder, os.W_OK):
        (folder / _COMPLETE).touch()


class Compilation:
    """A process that compiles into the cache folder; it starts only if machine code is missing and can be stored."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._tried = False

    def start(self) -> None:
        folder = cache_folder()
        if self._tried or folder is None or is_complete(folder) or not sys.executable:
            return
        self._tried = True
        package = str(Path(__file__).parents[4])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _WARM],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return  # this process compiles later
        log.warning(_NOTICE)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self) -> None:
        """Wait for the process. If it failed, this process compiles and raises the error."""
        if self._process is not None and self._process.wait() != 0:
            log.warning("the process that compiles the engine ended with code %s", self._process.returncode)
            self._process = None
