"""The folder where an engine keeps its files: found by its owner only, gone when the owner is."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from upshot.core.errors import EngineError

SETTING = "upshot.scratch"
"""The Spark setting that names the root; on a cluster it must be a folder that every node sees."""

_PREFIX = "upshot-scratch-"
_OWNER = "owner.json"
_GRACE = 3600
"""A folder without a readable owner is left alone for so many seconds: its owner may just be making it."""

_numbers = itertools.count()
_open: set[Path] = set()
"""The folders of this process, and of the one it was forked from."""


class Scratch:
    """A folder of its own under `root`. Whatever is kept in it is removed by name; what a killed process left there is
    removed when the next one starts."""

    def __init__(self, root: Any = None) -> None:
        """`root` is a path, or a Spark session that may name one; without it, the system's folder for such files."""
        self.root = _root(root)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.root)
            self.path = self.root / f"{_PREFIX}{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
            self.path.mkdir()
            (self.path / _OWNER).write_text(json.dumps(_owner()))
        except OSError as error:
            raise EngineError(
                f"scratch folder `{self.root}` cannot be used: {(error.strerror or str(error)).lower()}",
                code="scratch-unusable",
                help=f"name a folder that can be written, in the setting `{SETTING}`",
            ) from error
        self._next = itertools.count()
        _open.add(self.path)

    def new(self, label: str = "rows") -> Path:
        """The path of a folder that is not there yet."""
        return self.path / f"{label}-{next(self._next)}"

    def folder(self, label: str = "rows") -> Path:
        """A new, empty folder."""
        path = self.new(label)
        path.mkdir()
        return path

    def keep_only(self, paths: Collection[Path]) -> None:
        """Remove every folder and file that is not among these."""
        wanted = {path.name for path in paths if path.parent == self.path}
        for entry in self._entries():
            if entry.name in wanted:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def bytes(self) -> int:
        """What is kept here takes so much on disk."""
        own = [Path(entry.path) for entry in self._entries()]
        inside = [file for path in own if path.is_dir() for file in path.rglob("*")]
        return sum(file.stat().st_size for file in (*own, *inside) if file.is_file())

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        if not self.path.exists():
            return
        with os.scandir(self.path) as entries:
            yield from [entry for entry in entries if entry.name != _OWNER]

    def remove(self) -> None:
        """Remove everything; nothing may be kept here any more."""
        _open.discard(self.path)
        shutil.rmtree(self.path, ignore_errors=True)


def _root(given: Any) -> Path:
    if given is not None and hasattr(given, "conf"):
        given = given.conf.get(SETTING, None)
    return Path(given) if given else Path(tempfile.gettempdir())


def remove_leftovers(root: Path) -> None:
    """Remove the scratch folders under `root` whose owners ran on this host and are dead."""
    for folder in root.glob(f"{_PREFIX}*"):
        try:
            owner = json.loads((folder / _OWNER).read_text())
            dead = owner["host"] == socket.gethostname() and not _is_running(owner["pid"], owner["started"])
        except (OSError, ValueError, KeyError, TypeError):
            dead = _age(folder) > _GRACE
        if dead:
            shutil.rmtree(folder, ignore_errors=True)


def _owner() -> dict[str, object]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": _started(os.getpid())}


def _is_running(pid: int, started: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, as somebody else
    # The number may have gone to another process since.
    return started is None or _started(pid) in (None, started)


def _started(pid: int) -> str | None:
    """When the process began, in the system's own ticks; None where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may hold anything.
    return stat.rpartition(")")[2].split()[19]


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


@atexit.register
def _close_all() -> None:
    """Whoever forgot to close leaves nothing either. A forked child does not own its parent's folders."""
    for path in _open:
        if path.name.startswith(f"{_PREFIX}{os.getpid()}-"):
            shutil.rmtree(path, ignore_errors=True)
