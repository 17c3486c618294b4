"""A request: rows to insert and delete, the relations that may change and their costs, the bounds of the search."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from upshot.core.search_bounds import Bounds as Bounds

if TYPE_CHECKING:
    from upshot.core.rows import Rows
    from upshot.reasons.concrete import InstanceQuery

Row = tuple[Any, ...]
Key = tuple[str, Row]
"""A row of a relation."""
Column = tuple[str, int]
"""A column of a relation, by its place."""

INSERT, DELETE = "+", "-"


@dataclass(frozen=True, slots=True)
class Request:
    """Rows that must be present, and rows that must be absent, after the change."""

    insert: frozenset[Key]
    delete: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Preferences:
    """`frozen`: pairs of a base relation and a sign; such changes are not permitted. `cost`: the price of one change by
    such pairs; the default is 1. With `least_side_effects` the number of other rows of views that changes affect counts
    before their price."""

    frozen: frozenset[tuple[str, str]] = frozenset()
    cost: Mapping[tuple[str, str], float] = field(default_factory=dict)
    least_side_effects: bool = False

    def is_frozen(self, relation: str, sign: str) -> bool:
        return (relation, sign) in self.frozen

    def price(self, relation: str, sign: str) -> float:
        return self.cost.get((relation, sign), 1)

    def total(self, insert: Iterable[Key], delete: Iterable[Key]) -> float:
        """The cost of changes, independent of their order."""
        prices = [self.price(name, sign) for keys, sign in ((insert, INSERT), (delete, DELETE)) for name, _ in keys]
        return sum(prices) if all(isinstance(each, int) for each in prices) else math.fsum(prices)


# ---- the database ----------------------------------------------------------------------------------------------------


class World(Protocol):
    """A database in which changes can be tried: `stage` applies and propagates them, `undo` reverts them. Queries
    (`ask_all`, `holds`) read the staged state, `stored` the committed one."""

    is_local: bool

    def stage(self, insert: Iterable[Key], delete: Iterable[Key]) -> None: ...
    def undo(self) -> None: ...
    def added(self, relation: str) -> Collection[Row]:
        """The rows that the staged change inserts into a relation."""

    def affected(self) -> frozenset[Key]:
        """The rows of users' views that the staged change inserts or deletes."""

    def key_conflicts(self) -> Sequence[tuple[Key, Key]]:
        """Pairs of rows that share a key in the staged state."""

    def holds(self, key: Key) -> bool: ...
    def holding(self, keys: Sequence[Key]) -> list[bool]: ...
    def stored(self, key: Key) -> bool: ...
    def look_up(self, keys: Iterable[Key]) -> None:
        """Look up together which rows are stored."""

    def ask_all(self, asked: Sequence[tuple[InstanceQuery, list[Row]]]) -> list[Rows]: ...
    def look_up_columns(self, columns: Iterable[Column]) -> None:
        """Register columns whose values are read together with the next answers, where that saves a job."""

    def column(self, relation: str, place: int) -> Iterable[Any]:
        """The distinct committed values of a column of a base relation; in order, if there are not very many."""

    def occurs(self, value: Any, columns: Iterable[Column]) -> bool:
        """Test whether one of these columns of base relations has the value in a committed row."""
