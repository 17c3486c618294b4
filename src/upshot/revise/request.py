"""What is asked for: facts to become true and false, what may be touched at what price, how far to look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
Key = tuple[str, Row]
"""A row of a relation."""

INSERT, DELETE = "+", "-"


@dataclass(frozen=True, slots=True)
class Request:
    """Facts that are to be there, and facts that are not to be there, after the change."""

    insert: frozenset[Key]
    delete: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a search ends that has not ended by itself.

    `rounds`: how often one branch may ask downwards and propagate upwards. `new_constants`: how many values that do
    not occur yet one realisation may need. `size`: how many base changes it may have. `seconds`: how long all of
    it may take. `constants` are tried wherever any value would do, beside those of the columns in question.
    """

    rounds: int = 40
    new_constants: int = 2
    size: int | None = None
    seconds: float = 10.0
    constants: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Preferences:
    """`frozen`: pairs of a base relation and a sign that may not be touched so. `cost`: the price of one change, by the
    same pairs; 1 where none is named."""

    frozen: frozenset[tuple[str, str]] = frozenset()
    cost: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def is_frozen(self, relation: str, sign: str) -> bool:
        return (relation, sign) in self.frozen

    def price(self, relation: str, sign: str) -> float:
        return self.cost.get((relation, sign), 1)
