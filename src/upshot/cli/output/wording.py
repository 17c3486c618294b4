"""Numbers in sentences."""

from __future__ import annotations

from upshot.core.errors import counted as counted


def its(number: int) -> str:
    """The possessive that goes with so many things."""
    return "its" if number == 1 else "their"


def duration(seconds: float) -> str:
    """A time to three digits, in the unit a person would use.

    >>> duration(0.0000042), duration(0.0123), duration(4.5)
    ('4.2 µs', '12.3 ms', '4.5 s')
    """
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"
