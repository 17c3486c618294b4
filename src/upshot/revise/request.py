"""What is asked for: facts to become true and false, what may be touched at what price, how far to look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.core.search_bounds import Bounds as Bounds

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
class Preferences:
    """`frozen`: pairs of a base relation and a sign that may not be touched so. `cost`: the price of one change, by the
    same pairs; 1 where none is named. With `least_side_effects` the number of other rows of views that changes affect
    counts before their price."""

    frozen: frozenset[tuple[str, str]] = frozenset()
    cost: Mapping[tuple[str, str], float] = field(default_factory=dict)
    least_side_effects: bool = False

    def is_frozen(self, relation: str, sign: str) -> bool:
        return (relation, sign) in self.frozen

    def price(self, relation: str, sign: str) -> float:
        return self.cost.get((relation, sign), 1)

    def total(self, insert: Iterable[Key], delete: Iterable[Key]) -> float:
        """What changes cost together, in whatever order they come."""
        prices = [self.price(name, sign) for keys, sign in ((insert, INSERT), (delete, DELETE)) for name, _ in keys]
        return sum(prices) if all(isinstance(each, int) for each in prices) else math.fsum(prices)
