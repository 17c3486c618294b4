"""Symbols: undecided values in the search. Placeholders and formulas: such values in realizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from upshot.core.types import Type
from upshot.revise.request import Column, Row
from upshot.syntax.ast import Term, Variable


@dataclass(frozen=True, slots=True, repr=False)
class Symbol:
    """An undecided value: a fresh constant of a family, the value of a `group`, or a `term` of other symbols. In
    conditions it is a variable."""

    name: str
    type: Type = field(compare=False)
    family: Column = field(compare=False)
    term: Term | None = field(default=None, compare=False)
    group: tuple[str, tuple[Any, ...]] | None = field(default=None, compare=False)

    @property
    def is_fresh(self) -> bool:
        return self.term is None and self.group is None

    @property
    def written(self) -> Term:
        """The symbol as a term of conditions."""
        return Variable(self.name) if self.term is None else self.term

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Placeholder:
    """A fresh value of a type, which the user chooses. `witness` is the value with which the realization was proven."""

    name: str
    type: Type
    witness: Any

    def __repr__(self) -> str:
        """The spelling in rows: `?1`."""
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Formula:
    """A value that is computed from placeholders: `name` is its text, `witness` its value for their witnesses."""

    name: str
    witness: Any = field(compare=False, default=None)

    def __repr__(self) -> str:
        """The spelling in rows: `?1 - 19`."""
        return self.name


def by_place(placeholders: Sequence[Placeholder]) -> Callable[[Row], str]:
    """A sort key of rows with placeholders: by witnesses, as if these were in the order of the names."""
    places: dict[str, str] = {}
    for kind in {each.type.kind for each in placeholders}:
        alike = [each for each in placeholders if each.type.kind is kind]
        shown = sorted(repr(each.witness) for each in alike)
        places |= zip(sorted(each.name for each in alike), shown, strict=True)

    def place(row: Row) -> str:
        values = [places[each.name] if isinstance(each, Placeholder) else repr(each) for each in row]
        return f"({', '.join(values)})"

    return place
