"""Numbers in sentences."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """`1 view`, `2,000 views`, `0.5 seconds`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun}{'s' * (number != 1)}"
