"""Memory and processor time of this process and its descendants: Python, Java and Spark's workers together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def resident_bytes() -> int:
    """Current resident bytes; shared memory counts proportionally for each process."""
    return sum(_read(Path(f"/proc/{process}/smaps_rollup"), _proportional) for process in _tree())


def processor_seconds() -> float:
    """Seconds of processor time so far, ended children included."""
    return sum(_read(Path(f"/proc/{process}/stat"), _ticks) for process in _tree()) / _TICKS


def _tree() -> Iterator[int]:
    """This process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _read(entry / "stat", lambda text: int(_fields(text)[1]))
            children.setdefault(parent, []).append(int(entry.name))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return iter(found)


def _fields(stat: str) -> list[str]:
    """The fields after the name of the program, which may contain anything."""
    return stat.rpartition(")")[2].split()


def _ticks(stat: str) -> int:
    return sum(map(int, _fields(stat)[11:15]))


def _proportional(text: str) -> int:
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


def _read(path: Path, parsed: Callable[[str], int]) -> int:
    """Zero for a process that has ended."""
    try:
        return parsed(path.read_text())
    except (OSError, StopIteration):
        return 0
