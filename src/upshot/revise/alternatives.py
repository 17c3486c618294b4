"""Ways on from a branch that are made when they are wanted, and what kept a search from others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from upshot.core.counted import counted
from upshot.revise.branch import Branch
from upshot.revise.request import Key
from upshot.revise.rules import Column

MOST = 1_000
"""Branches with too many changes that are remembered."""


@dataclass(slots=True)
class Limits:
    """What kept the search from looking further: bounds that were reached, frozen relations that were in the way."""

    reached: dict[str, None] = field(default_factory=dict)
    frozen: dict[str, None] = field(default_factory=dict)
    excluded: dict[str, None] = field(default_factory=dict)
    """Why no rows at all would do for an aggregate."""
    keyed: dict[Key, None] = field(default_factory=dict)
    """Rows whose keys others had that were needed beside them."""
    untried: dict[Column, dict[Column, None]] = field(default_factory=dict)
    """For columns of new values, those with which rules join them and whose many values were not offered."""
    too_large: list[Branch] = field(default_factory=list)
    """Branches with too many changes: if realisations that were found are part of them, nothing is lost with them."""

    def note(self, words: str) -> None:
        self.reached[words] = None

    def note_size(self, branch: Branch, size: int) -> None:
        """Notes that a branch has more changes than it may have."""
        if len(self.too_large) < MOST:
            self.too_large.append(branch)
        else:
            self.note(counted(size, "change"))


@dataclass(slots=True)
class Alternatives:
    """Branches that are made from another when they are asked for, to make a row true or false; each has at least so
    many more changes."""

    source: Branch
    about: Key
    changes: int
    price: float
    branches: Iterator[Branch]
    is_empty: bool = True
