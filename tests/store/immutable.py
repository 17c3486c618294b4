"""Files that nobody can write, not even root, and not even through a file that is open already."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def missing() -> str:
    """Why a test cannot make files immutable here; empty if it can."""
    if shutil.which("chattr") is None:
        return "needs chattr (Debian: e2fsprogs)"
    if os.geteuid() != 0:
        return "only root can make files immutable"
    with tempfile.NamedTemporaryFile() as file:
        tried = subprocess.run(["chattr", "+i", file.name], capture_output=True, check=False)
        subprocess.run(["chattr", "-i", file.name], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "files of this file system cannot be made immutable"


@contextmanager
def immutable(place: Path) -> Iterator[None]:
    """A file, or a folder with all that is in it. What SQLite maps into memory is left out: a write there would end the
    process, as no disk does that is read-only."""
    files = [place, *(path for path in place.rglob("*") if not path.name.endswith("-shm"))]
    try:
        subprocess.run(["chattr", "+i", *files], check=True)
        yield
    finally:
        subprocess.run(["chattr", "-i", *(path for path in files if path.exists())], check=True)
