"""Resources of the process: the memory it may use, and the errors that mean a resource ran out."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upshot.core.errors import EngineError, Error

_UNBOUNDED = 1 << 60
"""The limit that an unbounded control group reports, or more."""


def available_memory(root: Path = Path("/")) -> int:
    """The bytes of memory available to this process: those of the machine, or the limit of a control group."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_bounds(root)])


def address_space_left() -> int | None:
    """The bytes of address space that this process can still map; None if unbounded or unknown."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _text(Path("/proc/self/statm")).split() if limit != resource.RLIM_INFINITY else ()
    return max(limit - int(pages[0]) * resource.getpagesize(), 0) if pages else None


_SCARCE = 4 << 30


def spare_address_space() -> None:
    """Make Arrow use the system allocator if address space is scarce, unless another one is set. Its own allocators
    reserve large blocks, and abort the process if they cannot. Arrow reads the setting when it is imported."""
    left = address_space_left()
    if left is not None and left < _SCARCE:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _bounds(root: Path) -> list[int]:
    """The memory limits of the control groups of this process, including outer ones; versions 1 and 2."""
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
    "can't start new thread": "threads",
}
_LIMITS = {
    "file descriptors": "`ulimit -n` bounds them",
    "memory": "`ulimit -v` bounds it",
    "threads": "`ulimit -u` bounds them, and `ulimit -v` their memory",
}


def exhausted(error: BaseException | None) -> str:
    """The resource that ran out, `file descriptors`, `memory` or `threads`; nothing for any other error.

    >>> exhausted(OSError(errno.EMFILE, "Too many open files")), exhausted(MemoryError()), exhausted(ValueError())
    ('file descriptors', 'memory', '')
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return "memory"
        if isinstance(error, OSError) and error.errno in _FILES:
            return "file descriptors"
        if isinstance(error, ImportError | OSError | RuntimeError):
            # Failures to load a library or to start a thread are recognized only by their messages.
            for words, what in _WORDS.items():
                if words in str(error):
                    return what
        error = error.__cause__ or error.__context__
    return ""


def more_of(what: str) -> str:
    """The help for an exhausted resource.

    >>> more_of("file descriptors")
    'allow more file descriptors: `ulimit -n` bounds them'
    """
    return f"allow more {what}: {_LIMITS[what]}"


def ran_out(error: BaseException, during: str) -> EngineError | None:
    """The error that replaces one caused by an exhausted resource; None for any other.

    >>> print(ran_out(MemoryError(), "a commit"))
    error[out-of-memory]: no memory left for a commit
      = help: allow more memory: `ulimit -v` bounds it
    """
    what = exhausted(error) if isinstance(error, Exception) and not isinstance(error, Error) else ""
    if not what:
        return None
    code = "too-few-descriptors" if what == "file descriptors" else "out-of-memory"
    return EngineError(f"no {what} left for {during}", code=code, help=more_of(what))


@contextmanager
def enough_resources(during: str) -> Iterator[None]:
    """Replace errors caused by exhausted resources, as `ran_out` does."""
    try:
        yield
    except Exception as error:
        if named := ran_out(error, during):
            raise named from error
        raise
