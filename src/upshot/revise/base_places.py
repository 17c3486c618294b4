"""The rows of base relations that the rows of views can hang on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from upshot.revise.request import Key, Row
from upshot.revise.rules import RuleParts, Rules
from upshot.revise.term_values import are_same
from upshot.syntax.ast import Constant, Term, Variable

MOST = 64
"""Places that one row is followed to."""


class _AnyValue:
    def __repr__(self) -> str:
        return "*"


ANY = _AnyValue()
"""Stands for every value."""

Place = tuple[str, Row]
"""A base relation and a row of it, with `ANY` where values may be anything: all rows of that form."""


@dataclass(slots=True)
class BasePlaces:
    """For rows of views, the places where base rows have to change before they can come or go."""

    rules: Rules
    _known: dict[Key, tuple[Place, ...] | None] = field(default_factory=dict)

    def below(self, key: Key) -> tuple[Place, ...] | None:
        """Where a row can be changed from; None if it may hang on anything, as all rows below an aggregate do."""
        if key not in self._known:
            self._known[key] = self._followed(key)
        return self._known[key]

    def _followed(self, key: Key) -> tuple[Place, ...] | None:
        start = key[0], tuple(value if value == value else ANY for value in key[1])
        seen, left = {start: None}, [start]
        while left:
            relation, row = left.pop()
            if self.rules.is_base(relation):
                continue
            rules = self.rules.by_view.get(relation, ())
            if relation in self.rules.folds or any(rule.is_aggregate for rule in rules) or len(seen) > MOST:
                return None
            new = [each for rule in rules for each in _body(rule, row) if each not in seen]
            seen |= dict.fromkeys(new)
            left += new
        return tuple(place for place in seen if self.rules.is_base(place[0]))


def _body(rule: RuleParts, row: Row) -> Iterator[Place]:
    """The places of the body for a head of this form; none if the rule has no such head."""
    known: dict[str, Any] = {}
    for term, value in zip(rule.clause.head.args, row, strict=True):
        if value is ANY:
            continue
        if isinstance(term, Constant) and term.value == term.value and term.value != value:
            return
        if isinstance(term, Variable) and not are_same(known.setdefault(term.name, value), value):
            return
    for atom in (*rule.positive, *rule.negative):
        yield atom.relation, tuple(_value(term, known) for term in atom.args)


def _value(term: Term, known: dict[str, Any]) -> Any:
    match term:
        case Variable(name):
            return known.get(name, ANY)
        case Constant(value) if value == value:
            return value
        case _:
            return ANY


@dataclass(slots=True)
class TakenPlaces:
    """Places, found by what they have rows in common with."""

    _all: set[Place] = field(default_factory=set)
    _exact: dict[str, list[Row]] = field(default_factory=dict)
    _wide: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, places: Iterable[Place]) -> None:
        for place in places:
            relation, row = place
            self._all.add(place)
            (self._wide if ANY in row else self._exact).setdefault(relation, []).append(row)

    def meet(self, places: Iterable[Place]) -> bool:
        """Whether one of the places has a row in common with one of these."""
        if not self._all.isdisjoint(places):
            return True
        for relation, row in places:
            if relation in self._wide and any(_overlap(row, each) for each in self._wide[relation]):
                return True
            if ANY in row and any(_overlap(row, each) for each in self._exact.get(relation, ())):
                return True
        return False


def _overlap(row: Row, other: Row) -> bool:
    return all(a is ANY or b is ANY or a == b for a, b in zip(row, other, strict=True))
