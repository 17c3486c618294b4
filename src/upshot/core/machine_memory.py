"""How much memory there is: of the machine, or of the control group that this process is in."""

from __future__ import annotations

import os
from pathlib import Path

_UNBOUNDED = 1 << 60
"""What a control group without a bound is said to have, or more."""


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
