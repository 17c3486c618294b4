"""What an expression stands for: one term, or one for each of several cases that exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from upshot.core.types import BOOLEAN, Kind, Type
from upshot.sql.expressions.formulas import conjunction, conjuncts
from upshot.syntax.ast import Constant, Formula, Term

MOST_CASES = 256


class TooManyCases(Exception):
    """The cases of an expression are too many to be written as rules."""


@dataclass(frozen=True, slots=True)
class Case:
    """The term, wherever the conditions hold."""

    when: tuple[Formula, ...]
    term: Term


@dataclass(frozen=True, slots=True)
class Value:
    """The cases of an expression: in every row exactly one holds. `type` is None for NULL alone, which has no type of
    its own; `type.nullable` says whether any of them can be NULL."""

    cases: tuple[Case, ...]
    type: Type | None

    @property
    def term(self) -> Term | None:
        """The one term, if there are no cases to tell apart."""
        return self.cases[0].term if len(self.cases) == 1 and not self.cases[0].when else None

    @property
    def constant(self) -> Constant | None:
        return self.term if isinstance(self.term, Constant) else None

    @property
    def nullable(self) -> bool:
        return self.type is None or self.type.nullable

    @property
    def kind(self) -> Kind | None:
        return None if self.type is None else self.type.kind


def plain(term: Term, type: Type | None) -> Value:
    return Value((Case((), term),), type)


def is_nothing(term: Term) -> bool:
    """Whether the term is NULL itself."""
    return isinstance(term, Constant) and term.value is None


NULL = plain(Constant(None), None)
TRUE_VALUE = plain(Constant(True, BOOLEAN), BOOLEAN)


def combined(values: Sequence[Value], make: Callable[[Sequence[Term]], Term], type: Type | None) -> Value:
    """The value of a function of values, case by case; a function of NULL is NULL."""
    cases = tuple(
        Case(when, Constant(None) if any(map(is_nothing, terms)) else make(terms))
        for when, terms in combinations(values)
    )
    nullable = any(value.nullable for value in values)
    return Value(cases, type if type is None else replace(type, nullable=nullable))


def combinations(values: Sequence[Value]) -> list[tuple[tuple[Formula, ...], tuple[Term, ...]]]:
    """Every choice of one case of each value, with all that must hold for it."""
    count = 1
    for value in values:
        count *= len(value.cases)
        if count > MOST_CASES:
            raise TooManyCases
    return [
        (conjuncts(conjunction(part for case in chosen for part in case.when)), tuple(case.term for case in chosen))
        for chosen in product(*(value.cases for value in values))
    ]
