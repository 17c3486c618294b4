"""A case of the random suites: a program, what its base relations hold, and the transactions that change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.scripts.script_file import show_row

Row = tuple[Any, ...]
Base = Mapping[str, frozenset[Row]]


@dataclass(frozen=True, slots=True)
class Change:
    """One insertion (`+`) or deletion (`-`) of a fact of a base relation."""

    sign: str
    relation: str
    row: Row

    def __str__(self) -> str:
        return f"{self.sign}{self.relation}{show_row(self.row)}"


Transaction = tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A program, what its base relations hold first, and what then happens to them."""

    seed: int
    declarations: tuple[str, ...]
    rules: tuple[str, ...]
    base: Base
    transactions: tuple[Transaction, ...]

    def text(self, options: Sequence[str] = ()) -> str:
        return "\n".join([*self.declarations, *options, *self.rules]) + "\n"


def after(state: Base, transaction: Transaction) -> Base:
    """The base relations once the changes have been made, in order."""
    result = {name: set(rows) for name, rows in state.items()}
    for change in transaction:
        rows = result.setdefault(change.relation, set())
        (rows.add if change.sign == "+" else rows.discard)(change.row)
    return {name: frozenset(rows) for name, rows in result.items()}
