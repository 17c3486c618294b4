"""How many bytes the local engine may take: as a user says it, or a share of what the machine has."""

from __future__ import annotations

import os
import re
from pathlib import Path

from upshot.core.errors import UsageError

SHARE = 4
"""One part in so many of the machine's memory is the budget when nobody says otherwise: Python, Spark's driver and
answers in users' hands take their part too."""

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*\Z")
_UNBOUNDED = 1 << 60
"""What a control group without a bound is said to have, or more."""


def memory_budget(given: int | str | None) -> int:
    """Bytes; a quarter of the memory that this process can have if nothing is given.

    >>> memory_budget("1.5 GiB"), memory_budget("64MB"), memory_budget(1 << 20)
    (1610612736, 64000000, 1048576)
    """
    if given is None:
        return available_memory() // SHARE
    size: float | None = None
    if isinstance(given, int) and not isinstance(given, bool):
        size = given
    elif isinstance(given, str) and (match := _SIZE.match(given)) and match[2].lower() in _UNITS:
        size = float(match[1]) * _UNITS[match[2].lower()]
    if size is None or size < 1:
        hint = 'pass a number of bytes, or text such as "4GiB" or "500MB"'
        raise UsageError(f"`memory` cannot be {given!r}", code="wrong-argument", help=hint)
    return int(size)


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
