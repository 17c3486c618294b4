"""The value of an expression: one term, or a term for each of several disjoint cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from upshot.core.errors import DataError
from upshot.core.structures import NEUTRAL
from upshot.core.types import NUMBER, Kind, Type
from upshot.sql.expressions.formulas import conjunction, conjuncts
from upshot.syntax import literals
from upshot.syntax.ast import Call, Constant, Formula, Term
from upshot.values.functions import FUNCTIONS

MOST_CASES = 256


class TooManyCases(Exception):
    """An expression has too many cases to translate them into rules."""


@dataclass(frozen=True, slots=True)
class Case:
    """The term is the value if the conditions hold."""

    when: tuple[Formula, ...]
    term: Term


@dataclass(frozen=True, slots=True)
class Value:
    """The cases of an expression, of which exactly one holds in every row. `type` is None for the literal NULL, which
    has no type; `type.nullable` if any case can be NULL."""

    cases: tuple[Case, ...]
    type: Type | None

    @property
    def term(self) -> Term | None:
        """The term of the only case, if it has no conditions."""
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

    @property
    def nodes(self) -> Iterator[Formula | Term]:
        """The conditions and the terms of all cases."""
        return (each for case in self.cases for each in (*case.when, case.term))


def plain(term: Term, type: Type | None) -> Value:
    return Value((Case((), term),), type)


def filler(type: Type) -> Constant:
    """A value of the type that is stored in place of NULL."""
    if type.kind is Kind.DECIMAL:
        return literals.tagged("decimal", f"{0:.{type.scale}f}")
    own = {Kind.NUMBER: None, Kind.RECORD: type.required()}.get(type.kind, Type(type.kind))
    return Constant(NEUTRAL[type.kind], own)


def is_nothing(term: Term) -> bool:
    """Test whether the term is NULL itself."""
    return isinstance(term, Constant) and term.value is None


NULL = plain(Constant(None), None)


def combined(values: Sequence[Value], make: Callable[[Sequence[Term]], Term], type: Type | None) -> Value:
    """The value of a function of values, case by case; a function of NULL is NULL."""
    cases = tuple(
        Case(when, Constant(None) if any(map(is_nothing, terms)) else make(terms))
        for when, terms in combinations(values)
    )
    nullable = any(value.nullable for value in values)
    return Value(cases, type if type is None else replace(type, nullable=nullable))


def applied(name: str, values: Sequence[Value], type: Type | None) -> Value:
    """A built-in function of values, case by case."""
    return combined(values, lambda terms: call(name, terms), type)


def call(name: str, terms: Sequence[Term]) -> Term:
    """A built-in function of terms, folded if all are constants and it has a value. Parameters are not folded, since
    the next run of the query has other values."""
    constants = [term for term in terms if isinstance(term, Constant) and term.value is not None]
    constants = [each for each in constants if each.span is None or not each.span.text.startswith(":")]
    if len(constants) < len(terms):
        return Call(name, tuple(terms))
    function, types = FUNCTIONS[name], [each.type or NUMBER for each in constants]
    result = function.result(types)
    try:
        value = function.call(types[0].kind, result)(*(each.value for each in constants))
    except DataError:
        return Call(name, tuple(terms))
    match result.kind:
        case Kind.NUMBER:
            return Constant(value)
        case Kind.DECIMAL:
            return literals.tagged("decimal", f"{value:f}")
        case _:
            return Constant(value, result)


def combinations(values: Sequence[Value]) -> list[tuple[tuple[Formula, ...], tuple[Term, ...]]]:
    """Every combination of one case of each value, with the conditions of all of them."""
    count = 1
    for value in values:
        count *= len(value.cases)
        if count > MOST_CASES:
            raise TooManyCases
    return [
        (conjuncts(conjunction(part for case in chosen for part in case.when)), tuple(case.term for case in chosen))
        for chosen in product(*(value.cases for value in values))
    ]
