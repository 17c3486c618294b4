"""Bounds that end a computation with an error rather than never."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_rounds`: the most rounds a recursive component may take, load or change."""

    max_rounds: int = 1_000_000
