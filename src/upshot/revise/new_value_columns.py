"""Where new values get to, as the rows that a change brings there show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshot.revise.linear import Linear, Symbolic, new_value
from upshot.revise.moving_columns import moving_columns
from upshot.revise.request import Key
from upshot.revise.rules import Column, Rules

Columns = Mapping[str, frozenset[Column]]
"""By name of a new value."""


@dataclass(slots=True)
class NewValueColumns:
    """Finds the columns to which new values come."""

    rules: Rules
    _reached: dict[frozenset[Column], frozenset[Column]] = field(default_factory=dict)

    def of(self, rows: Iterable[tuple[str, tuple[Symbolic, ...]]]) -> Columns:
        """Those of the new values in these rows."""
        brought: dict[str, set[Column]] = {}
        for relation, row in rows:
            for at, value in enumerate(row):
                if isinstance(value, Linear) and value.is_bare:
                    brought.setdefault(value.parts[0][0], set()).add((relation, at))
        return {name: self._reached_from(frozenset(columns)) for name, columns in brought.items()}

    def _reached_from(self, columns: frozenset[Column]) -> frozenset[Column]:
        if columns not in self._reached:
            self._reached[columns] = moving_columns(self.rules, columns)
        return self._reached[columns]


def named(key: Key, values: Mapping[str, Any], columns: Columns) -> tuple[Symbolic, ...]:
    """A row that a change has brought about, with the new values that it has in columns to which they come: while
    they are new, nothing else could have brought them there."""
    relation, row = key
    here = {
        (at, value): new_value(name)
        for name, value in values.items() for at in range(len(row)) if (relation, at) in columns.get(name, ())
    }  # fmt: skip
    return tuple(here.get((at, value), value) for at, value in enumerate(row))
