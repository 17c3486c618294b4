"""Families of columns that rules join, and the domains of variables.

`access(P, R) :- member(P, T), granted(T, R)` joins the teams of `member` with those of `granted`: both columns are in
one family. A fresh value of a family occurs in none of its columns. The domain of a variable has the values in the
columns of its family, the constants of rules and the request there, and a bounded number of fresh values.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from upshot.check.types.constants import fit
from upshot.core.types import Kind, Type
from upshot.revise.built_ins import UNKNOWN, is_value_of, variables
from upshot.revise.placeholders import Symbol
from upshot.revise.request import Column, Key, World
from upshot.revise.rule_forms import cells
from upshot.revise.rules import RuleParts, Rules, columns_in
from upshot.syntax.ast import Comparison, Constant, Term, Variable

MOST_FOUND = 8
"""Values computed by equations for requested rows that are added to the domains."""


class Families:
    """The families of a program's columns, and the domains of its variables for one request."""

    def __init__(self, rules: Rules, world: World, named: Iterable[Key], constants: Iterable[Any], fresh: int) -> None:
        self._rules, self._world, self.fresh = rules, world, fresh
        self._extra = tuple(constants)
        self._parent: dict[Column, Column] = {}
        self._constants: dict[Column, dict[Any, None]] = {}
        self._named: dict[Column, dict[Any, None]] = {}
        self._found: dict[Column, dict[Any, None]] = {}
        self.found = 0
        for rule in rules.every:
            self._join_rule(rule)
        for fold in rules.folds.values():
            for place in range(fold.width):
                self._join((fold.view, place), (fold.below, place))
            if fold.function in ("min", "max") and fold.target is not None:
                self._join((fold.view, fold.width), (fold.below, fold.target))
        for rule in rules.every:
            self._note_constants(rule)
        for relation, row in sorted(named, key=repr):
            for place, value in enumerate(row):
                self._named.setdefault(self.of((relation, place)), {})[value] = None

    def of(self, column: Column) -> Column:
        """The representative column of the family of a column."""
        parent = self._parent.get(column, column)
        if parent == column:
            return column
        root = self.of(parent)
        self._parent[column] = root
        return root

    def _join(self, one: Column, other: Column) -> None:
        first, second = self.of(one), self.of(other)
        if first != second:
            self._parent[first] = second

    def _join_rule(self, rule: RuleParts) -> None:
        places: dict[str, Column] = {}
        for name, column in cells((rule.head, *rule.positive, *rule.negative)):
            self._join(places.setdefault(name, column), column)
        for literal in rule.built_ins:
            match literal:
                case Comparison("=" | "!=", Variable(one), Variable(other)) if one in places and other in places:
                    self._join(places[one], places[other])

    def _note_constants(self, rule: RuleParts) -> None:
        for literal in rule.built_ins:
            match literal:
                case Comparison("=" | "!=", Variable(name), Constant(value)) | Comparison(
                    "=" | "!=", Constant(value), Variable(name)
                ):
                    for column in columns_in(name, (*rule.positive, *rule.negative, rule.head)):
                        self._constants.setdefault(self.of(column), {})[value] = None

    @cached_property
    def _members(self) -> dict[Column, list[Column]]:
        """The base columns of each family."""
        found: dict[Column, list[Column]] = {}
        for name, schema in self._rules.program.schemas.items():
            if self._rules.is_base(name):
                for place in range(schema.arity):
                    found.setdefault(self.of((name, place)), []).append((name, place))
        return found

    @cached_property
    def computed(self) -> frozenset[Column]:
        """Families with values that rules compute: a symbol in one can equal a value of the family."""
        return frozenset(
            self.of(column)
            for column, terms in self._head_terms.items()
            if any(not isinstance(term, Constant) for term in terms)
        )

    @cached_property
    def _head_terms(self) -> dict[Column, list[Term]]:
        """The terms that rules compute for columns of views, without variables that come from body atoms."""
        found: dict[Column, list[Term]] = {}
        for rule in self._rules.every:
            for name, column in cells([rule.head]):
                is_joined = any(True for _ in columns_in(name, rule.positive))
                term = Constant(rule.constants[name]) if name in rule.constants else Variable(name)
                found.setdefault(column, []).extend([] if is_joined else [term])
        return found

    @cached_property
    def _compared(self) -> dict[Column, Column]:
        """The representative of the families whose values rules compare, or compute from each other."""
        found: dict[Column, Column] = {}

        def join(families: Iterable[Column]) -> None:
            roots = {found.get(each, each) for each in families}
            for each, root in list(found.items()):
                if root in roots:
                    found[each] = min(roots)
            found.update((each, min(roots)) for each in roots)

        for rule in self._rules.every:
            for literal in rule.built_ins:
                join([self.variable(name, rule) for name in variables(literal)] or [("", 0)])
        for fold in self._rules.folds.values():
            if fold.target is not None:
                join([self.of((fold.view, fold.width)), self.of((fold.below, fold.target))])
        return found

    def compared(self, family: Column) -> Column:
        """The representative of the families that rules compare with this one; values of others can be equal."""
        return self._compared.get(family, family)

    def base_columns(self, family: Column) -> list[Column]:
        return self._members.get(family, [])

    def variable(self, name: str, rule: RuleParts) -> Column:
        """The family of a variable; a variable in no atom has a family of its own."""
        column = next(columns_in(name, (*rule.positive, *rule.negative, rule.head)), None)
        return (f"rule {rule.number}", rule.names.index(name)) if column is None else self.of(column)

    def domain(self, name: str, rule: RuleParts) -> Iterator[Any]:
        """The values of a variable of a rule: those of its own columns first."""
        yield from self._values(self._own_columns(name, rule), self.variable(name, rule), rule.types[name])

    def _own_columns(self, name: str, rule: RuleParts) -> list[Column]:
        return [column for column in columns_in(name, rule.positive) if self._rules.is_base(column[0])]

    def columns_of(self, name: str, rule: RuleParts) -> list[Column]:
        """The columns of base relations in the domain of a variable."""
        return list(dict.fromkeys((*self._own_columns(name, rule), *self.base_columns(self.variable(name, rule)))))

    def column_domain(self, column: Column, type: Type) -> Iterator[Any]:
        """The domain of a column."""
        own = [column] if self._rules.is_base(column[0]) else []
        yield from self._values(own, self.of(column), type)

    def _values(self, own: list[Column], family: Column, type: Type) -> Iterator[Any]:
        if type.kind is Kind.BOOLEAN:
            yield from (False, True)
            return
        seen: set[Any] = set()
        yield from self._fresh(family, type)
        for values in self._sources(own, family):
            for value in (of_type(each, type) for each in values):
                if value is not UNKNOWN and value not in seen:
                    seen.add(value)
                    yield value

    def _sources(self, own: list[Column], family: Column) -> Iterator[Iterable[Any]]:
        yield self._named.get(family, ())
        yield self._constants.get(family, ())
        yield tuple(self._found.get(family, ()))
        yield self._extra
        columns = dict.fromkeys((*own, *self._members.get(family, ())))
        self._world.look_up_columns(columns)
        for column in columns:
            yield self._world.column(*column)

    def _fresh(self, family: Column, type: Type) -> Iterator[Symbol]:
        yield from (fresh_symbol(family, type, number) for number in range(1, self.fresh + 1))

    def is_taken(self, value: Any, family: Column) -> bool:
        """Test whether a value occurs in the family or in the request: then it is not fresh."""
        return value in self._named.get(family, ()) or self._world.occurs(value, self._members.get(family, ()))

    def is_known(self, value: Any, family: Column) -> bool:
        """Test whether a value is in the domain of the family itself: fresh values differ from it."""
        return self.is_taken(value, family) or self.is_constant(value, family)

    def is_apart(self, key: Key) -> bool:
        """Test whether a row has a fresh value that no column of its family can have."""
        return any(
            isinstance(value, Symbol)
            and value.is_fresh
            and value.family == self.of((key[0], place))
            and value.family not in self.computed
            for place, value in enumerate(key[1])
        )

    def note(self, key: Key) -> None:
        """Add the values of a row that equations computed to the domains, at most `MOST_FOUND`."""
        for place, value in enumerate(key[1]):
            family = self.of((key[0], place))
            known = (self._named, self._constants, self._found)
            if (
                self.found < MOST_FOUND
                and not isinstance(value, Symbol)
                and value is not None
                and value not in self._extra
                and not any(value in each.get(family, ()) for each in known)
                and not self._world.occurs(value, self._members.get(family, ()))
            ):
                self._found.setdefault(family, {})[value] = None
                self.found += 1

    def is_constant(self, value: Any, family: Column) -> bool:
        """Test whether a value is a constant of rules in the family, or of the bounds: it is in the domain."""
        return value in self._constants.get(family, ()) or value in self._extra


def fresh_symbol(family: Column, type: Type, number: int) -> Symbol:
    """The fresh constant of a family with this number."""
    return Symbol(f"{family[0]}.{family[1]}#{number}", type.required(), family)


def of_type(value: Any, type: Type) -> Any:
    """Convert a value to a type; `UNKNOWN` if it is no value of the type."""
    if value is None or value is UNKNOWN or (isinstance(value, datetime.datetime) and value.tzinfo is None):
        return UNKNOWN
    held, problem = fit(value, type)
    return UNKNOWN if problem or not is_value_of(held, type) else held
