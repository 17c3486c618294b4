"""The resident memory of this process, read where the kernel keeps it."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def reset_peak() -> int:
    """The resident bytes now; the peak counts from here on, where the kernel allows it."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return peak()
    return _field("VmRSS")


def peak() -> int:
    """The largest resident size since `reset_peak`, in bytes.

    Not `ru_maxrss`: Linux carries it over from the parent process when a program is started.
    """
    if _STATUS.exists():
        return _field("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {name}")
