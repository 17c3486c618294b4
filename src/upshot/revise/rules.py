"""The rules of a program as the search reads them: positive literals, negated ones, built-ins, sources of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.variables import all_names, fresh_name, variables
from upshot.core.schema import Role
from upshot.core.types import Kind, Type
from upshot.revise.built_ins import Binding
from upshot.revise.linear_rules import linear_clauses
from upshot.revise.request import Key, Row
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Variable, Wildcard

Column = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RuleParts:
    """One rule in normal form; in its atoms `_` has become a variable. A rule that folds rows `is_aggregate`."""

    number: int
    clause: Clause
    positive: tuple[Atom, ...]
    negative: tuple[Atom, ...]
    built_ins: tuple[Literal, ...]
    types: Mapping[str, Type]
    is_aggregate: bool = False

    def binding(self, row: Row) -> Binding | None:
        """The values of head variables for a row; None if no instance has this head."""
        known: Binding = {}
        for term, value in zip(self.clause.head.args, row, strict=True):
            match term:
                case Constant(other) if other != value:
                    return None
                case Variable(name):
                    if name in known and known[name] != value:
                        return None
                    known[name] = value
                case _:
                    pass
        return known


def ground(atom: Atom, binding: Mapping[str, object]) -> Key:
    """The row that an atom names once all its variables have values."""
    return atom.relation, tuple(_value(term, binding) for term in atom.args)


def _value(term: Term, binding: Mapping[str, object]) -> object:
    match term:
        case Variable(name):
            return binding[name]
        case Constant(value):
            return value
        case _:
            raise AssertionError("normal form has variables and constants only")


def rule_parts(number: int, clause: Clause, program: CheckedProgram) -> RuleParts:
    taken, types = set(all_names([clause.head, *clause.body])), dict(clause.types)

    def named(atom: Atom) -> Atom:
        args: list[Term] = []
        for term, column in zip(atom.args, program.schemas[atom.relation].columns, strict=True):
            if isinstance(term, Wildcard):
                term = Variable(fresh_name("Any", taken))
                taken.add(term.name)
                types[term.name] = column.type
            args.append(term)
        return replace(atom, args=tuple(args))

    positive = tuple(named(each) for each in clause.body if isinstance(each, Atom))
    negative = tuple(each.body for each in clause.body if isinstance(each, Not) and isinstance(each.body, Atom))
    rest = tuple(
        each for each in clause.body
        if not isinstance(each, Atom) and not (isinstance(each, Not) and isinstance(each.body, Atom))
    )  # fmt: skip
    return RuleParts(number, clause, positive, negative, rest, types, aggregate_of(clause) is not None)


@dataclass
class Rules:
    """The rules of a program in normal form, by view."""

    program: CheckedProgram
    by_view: dict[str, list[RuleParts]] = field(default_factory=dict)
    _sources: dict[Column, frozenset[Column]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, clause in enumerate(dict.fromkeys(linear_clauses(self.program))):
            parts = rule_parts(number, clause, self.program)
            self.by_view.setdefault(clause.head.relation, []).append(parts)

    @cached_property
    def landmarks(self) -> Mapping[Kind, tuple[Any, ...]]:
        """The constants that rules compare values with, in order: between two of them, all new values are alike."""
        found: dict[Kind, set[Any]] = {}
        for term in (side for each in self._comparisons() for side in (each.left, each.right)):
            if isinstance(term, Constant) and term.type is not None and term.value is not None:
                found.setdefault(term.type.kind, set()).add(term.value)
        return {kind: tuple(sorted(values)) for kind, values in found.items()}

    @cached_property
    def compares_values(self) -> bool:
        """Whether rules compare the order of values that come from relations, or of computed ones: then new values that
        lie between two landmarks need not be alike."""
        return any(
            each.op not in ("=", "!=") and not any(isinstance(side, Constant) for side in (each.left, each.right))
            for each in self._comparisons()
        ) or any(isinstance(side, Call) for each in self._comparisons() for side in (each.left, each.right))

    def _comparisons(self) -> Iterator[Comparison]:
        for rules in self.by_view.values():
            for rule in rules:
                yield from (each for each in rule.built_ins if isinstance(each, Comparison))

    def is_base(self, relation: str) -> bool:
        return self.program.schemas[relation].role is Role.BASE

    def below(self, relation: str) -> frozenset[str]:
        """The base relations that a relation rests on."""
        seen, left = {relation}, [relation]
        while left:
            for rule in self.by_view.get(left.pop(), ()):
                for atom in _atoms(rule):
                    if atom.relation not in seen:
                        seen.add(atom.relation)
                        left.append(atom.relation)
        return frozenset(name for name in seen if self.is_base(name))

    def leaves_columns_out(self, relations: Iterable[str]) -> bool:
        """Whether a rule that these relations rest on has variables that its head lacks: only such rules ask for new
        values, and without them a search ends by itself."""
        seen = set(relations)
        left = list(seen)
        while left:
            for rule in self.by_view.get(left.pop(), ()):
                if free_variables(rule, dict.fromkeys(variables(rule.clause.head))):
                    return True
                new = [atom.relation for atom in _atoms(rule) if atom.relation not in seen]
                seen.update(new)
                left += new
        return False

    def sources(self, column: Column) -> frozenset[Column]:
        """The base columns that the values of a column come from."""
        if column not in self._sources:
            seen, left = {column}, [column]
            while left:
                relation, place = left.pop()
                for rule in self.by_view.get(relation, ()):
                    term = rule.clause.head.args[place]
                    if isinstance(term, Variable):
                        new = [each for each in columns_of(term.name, rule) if each not in seen]
                        seen.update(new)
                        left += new
            self._sources[column] = frozenset(each for each in seen if self.is_base(each[0]))
        return self._sources[column]


def _atoms(rule: RuleParts) -> Iterator[Atom]:
    yield from (*rule.positive, *rule.negative)


def columns_of(variable: str, rule: RuleParts) -> Iterator[Column]:
    """The columns in which a variable occurs."""
    for atom in _atoms(rule):
        for place, term in enumerate(atom.args):
            if isinstance(term, Variable) and term.name == variable:
                yield atom.relation, place


def free_variables(rule: RuleParts, binding: Mapping[str, object]) -> list[str]:
    """The variables without a value, in order of appearance."""
    literals: tuple[Literal, ...] = (*rule.positive, *rule.negative, *rule.built_ins)
    return list(dict.fromkeys(name for each in literals for name in variables(each) if name not in binding))
