"""Numbers in sentences."""

from __future__ import annotations

from upshot.core.errors import counted as counted


def equal_recomputation(views: int) -> str:
    """The result of a verification of this number of views.

    >>> equal_recomputation(1), equal_recomputation(2)
    ('equals its recomputation', 'equal their recomputation')
    """
    return "equals its recomputation" if views == 1 else "equal their recomputation"


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
