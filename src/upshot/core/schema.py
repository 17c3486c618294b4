"""Schemas of relations: columns, keys, role, lattice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from upshot.core.span import Span
from upshot.core.types import Type


class Role(Enum):
    BASE = "base"
    """Stored facts; transactions change them."""
    VIEW = "view"
    """Defined by rules."""
    CONSTRAINT = "constraint"
    """A view that must stay empty."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Lattice:
    """The column whose least (`min`) or greatest (`max`) derived value is kept, for each value of the other columns."""

    column: int
    function: str

    def group(self, arity: int) -> tuple[int, ...]:
        """The places of the other columns."""
        return tuple(place for place in range(arity) if place != self.column)


@dataclass(frozen=True, slots=True)
class Schema:
    """A relation's name and shape; `keys` are tuples of column positions."""

    name: str
    columns: tuple[Column, ...]
    role: Role = Role.BASE
    keys: tuple[tuple[int, ...], ...] = ()
    span: Span | None = field(default=None, compare=False)
    lattice: Lattice | None = None

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(c.type for c in self.columns)

    def widest(self) -> Schema:
        """The schema with columns wide enough for every decimal that a rule can compute."""
        return replace(self, columns=tuple(Column(c.name, c.type.widest()) for c in self.columns))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{c.name}: {c.type}' for c in self.columns)})"
