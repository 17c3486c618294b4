"""The memory budget of the local engine: as the user states it, or a share of the machine's memory."""

from __future__ import annotations

import re

from upshot.core.errors import UsageError
from upshot.core.resources import available_memory

SHARE = 4
"""The default budget is the machine's memory divided by this: Python, Spark's driver and results need memory too."""

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*\Z")


def memory_budget(size: int | str | None) -> int:
    """The budget in bytes; the default without an argument.

    >>> memory_budget("1.5 GiB"), memory_budget("64MB"), memory_budget(1 << 20)
    (1610612736, 64000000, 1048576)
    """
    return available_memory() // SHARE if size is None else byte_count("memory", size)


def byte_count(name: str, value: object) -> int:
    """A number of bytes, or text such as "1.5 GiB", as bytes; `name` is its name in messages."""
    size: float | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.match(value)) and match[2].lower() in _UNITS:
        size = float(match[1]) * _UNITS[match[2].lower()]
    if size is None or size < 1:
        hint = 'pass a number of bytes, or text such as "4GiB" or "500MB"'
        raise UsageError(f"`{name}` cannot be {value!r}", code="wrong-argument", help=hint)
    return int(size)
