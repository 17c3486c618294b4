"""The database as the search uses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from upshot.core.rows import Rows
from upshot.reasons.concrete import Question
from upshot.revise.request import Key, Row


class World(Protocol):
    """A database in which changes can be tried: `stage` makes them and propagates them, `undo` takes them back. Queries
    (`ask`, `holds`) read the state that is staged, `stored` the committed one."""

    is_local: bool

    def stage(self, insert: Iterable[Key], delete: Iterable[Key]) -> None: ...
    def undo(self) -> None: ...
    def added(self, relation: str) -> Collection[Row]:
        """The rows that the staged change inserts into a relation."""

    def affected(self) -> frozenset[Key]:
        """The rows of views that users know which the staged change inserts or deletes."""

    def key_conflicts(self) -> Sequence[tuple[Key, Key]]:
        """Pairs of rows that share a key in the staged state."""

    def holds(self, key: Key) -> bool: ...
    def holding(self, keys: Sequence[Key]) -> list[bool]: ...
    def stored(self, key: Key) -> bool: ...
    def look_up(self, keys: Iterable[Key]) -> None:
        """Looks up together which rows are stored."""

    def ask(self, question: Question, rows: list[Row]) -> Rows: ...
    def column(self, relation: str, place: int) -> Iterable[Any]:
        """The committed values of a column of a base relation, each once; in order, if they are not very many."""

    def occurs(self, value: Any, columns: Iterable[tuple[str, int]]) -> bool:
        """Whether one of these columns of base relations has the value in a committed row."""
