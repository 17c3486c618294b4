"""Resources of the process: the memory it may use, and the errors that mean a resource ran out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_UNBOUNDED = 1 << 60
"""The limit that an unbounded control group reports, or more."""


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that this process can have: the machine's memory, or less where a control group bounds it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_bounds(root)])


def _bounds(root: Path) -> list[int]:
    """The bounds of the control groups that this process is in, outer ones included; versions 1 and 2."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        top, file = (
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes") if controllers else ("sys/fs/cgroup", "memory.max")
        )
        group = Path(path.lstrip("/"))
        for part in (group, *group.parents):
            bound = _text(root / top / part / file).strip()
            if bound.isdigit() and 0 < int(bound) < _UNBOUNDED:
                found.append(int(bound))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


_FILES = (errno.EMFILE, errno.ENFILE)
_WORDS = {
    "Too many open files": "file descriptors",
    "annot allocate memory": "memory",
    "failed to map segment": "memory",
}


def exhausted(error: BaseException | None) -> str:
    """The resource that ran out, `file descriptors` or `memory`; nothing for any other error.

    >>> exhausted(OSError(errno.EMFILE, "Too many open files")), exhausted(MemoryError()), exhausted(ValueError())
    ('file descriptors', 'memory', '')
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return "memory"
        if isinstance(error, OSError) and error.errno in _FILES:
            return "file descriptors"
        if isinstance(error, ImportError):
            # A library that could not be loaded only says so.
            for words, what in _WORDS.items():
                if words in str(error):
                    return what
        error = error.__cause__ or error.__context__
    return ""
