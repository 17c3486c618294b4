"""What the search asks of a database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from upshot.check.program import Clause
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.reasons.concrete import Question
from upshot.revise.request import Key, Row


class World(Protocol):
    """A database in which changes can be tried: `stage` makes them and works out what they mean, `undo` takes them
    back. Questions (`ask`, `query`, `holds`) are about the state that is staged, `stored` about the committed one."""

    tag: str
    is_local: bool

    def stage(self, insert: Iterable[Key], delete: Iterable[Key]) -> None: ...
    def undo(self) -> None: ...
    def added(self, relation: str) -> Collection[Row]:
        """The rows that the staged change brings to a relation."""

    def removed(self, relation: str) -> Collection[Row]:
        """The rows that the staged change takes from a relation."""

    def key_conflicts(self) -> Sequence[tuple[Key, Key]]:
        """Pairs of rows that share a key in the staged state."""

    def holds(self, key: Key) -> bool: ...
    def stored(self, key: Key) -> bool: ...
    def look_up(self, keys: Iterable[Key]) -> None:
        """Finds out which rows are stored, together: each is soon asked about."""

    def ask(self, question: Question, rows: list[Row]) -> Rows: ...
    def ask_all(self, asked: Sequence[tuple[Question, list[Row]]]) -> list[Rows]:
        """The answers to several questions, which are remembered where asking is slow."""

    def query(self, schema: Schema, clauses: tuple[Clause, ...]) -> Rows: ...
    def query_all(self, queries: Sequence[tuple[Schema, tuple[Clause, ...]]]) -> list[Rows]: ...
    def size(self, relation: str) -> int:
        """The number of committed rows of a base relation."""

    def column(self, relation: str, place: int) -> Iterable[Any]:
        """The committed values of a column of a base relation, each once; in order, if they are not very many."""

    def occurs(self, value: Any, columns: Iterable[tuple[str, int]]) -> bool:
        """Whether one of these columns of base relations has the value in a committed row."""
