"""The rules of a program as the search reads them: positive literals, negated ones, built-ins, aggregates.

In normal form every aggregate is a view of its own, `total(G…, V) :- rows(G…, _…), V = sum T : { rows(G…, T, …) }`: a
row for each group that has rows, and none for a group that has not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role, Schema
from upshot.core.types import Type
from upshot.engine.time_limit import check_time
from upshot.revise.built_ins import Binding, are_same
from upshot.revise.placeholders import Symbol
from upshot.revise.request import DELETE, INSERT, Column, Key, Row
from upshot.revise.rule_forms import (
    cells,
    linear_clauses,
    made_columns,
    reached,
    unfolded_clauses,
    whole_structures,
    without_repeated,
)
from upshot.rewrite.demand.request_rules import request_rule
from upshot.rewrite.shapes import aggregate_of, conjunction
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable

if TYPE_CHECKING:
    from upshot.reasons.concrete import InstanceQuery

# ---- aggregates ------------------------------------------------------------------------------------------------------


COUNT = "count"


@dataclass(frozen=True, slots=True)
class InnerAggregate:
    """The column `place` of a view has the values of another aggregate, `view`, of the group in the columns `group`;
    `default` has its value for groups without rows, if the view has rows for them. No two rows differ only in this
    column."""

    place: int
    view: str
    group: tuple[int, ...]
    default: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupedView:
    """An aggregate: the first `width` columns of `view` are the groups of the rows of `below`; its last column has the
    value of `function` over their column `target`, or over a `constant` for each row; else rows are counted."""

    view: str
    below: str
    function: str
    width: int
    type: Type
    target: int | None = None
    constant: Any = None
    amount_type: Type | None = None
    """The type of the column `target`."""
    inner: InnerAggregate | None = None
    """The column of `below` with values of another aggregate, unless it is the target."""

    @property
    def is_weighed(self) -> bool:
        """Test whether the solver computes the function; for others it chooses any value, and a trial decides."""
        return self.function in (COUNT, "sum", "mean", "min", "max")

    def same(self, key: Key) -> Key:
        """A representative of the rows of which at most one can be present."""
        return key if self.inner is None else self.with_value(key, None)

    def with_value(self, key: Key, value: Any) -> Key:
        """A row of `below` with another value of the inner aggregate."""
        assert self.inner is not None, "there is one"
        relation, row = key
        return relation, (*row[: self.inner.place], value, *row[self.inner.place + 1 :])

    def amount_in(self, row: Row) -> Any:
        """The value of a row in the aggregate; None if it has none."""
        if self.function == COUNT:
            return 1
        return self.constant if self.target is None else row[self.target]


def fold_of(clause: Clause, schemas: Mapping[str, Schema]) -> GroupedView | None:
    """The aggregate that a clause in normal form defines, if it defines one."""
    aggregate = aggregate_of(clause)
    if aggregate is None:
        return None
    (inner,) = conjunction(aggregate.body)
    assert isinstance(inner, Atom), "an aggregate folds the rows of one relation"
    view, width = clause.head.relation, len(clause.head.args) - 1
    assert inner.args[:width] == clause.head.args[:width], "the group comes first"
    type = schemas[view].columns[-1].type
    match aggregate.target:
        case Variable() as variable:
            place = inner.args.index(variable)
            amount = schemas[inner.relation].columns[place].type
            return GroupedView(view, inner.relation, aggregate.function, width, type, place, amount_type=amount)
        case Constant(value):
            return GroupedView(view, inner.relation, aggregate.function, width, type, None, value)
        case _:
            return GroupedView(view, inner.relation, aggregate.function, width, type)


# ---- rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuleParts:
    """A rule in the form that the search reads. Its atoms have variables only: `constants` are replaced by variables
    that are compared with them, so that fresh values are compared, too."""

    clause: Clause
    number: int
    head: Atom
    positive: tuple[Atom, ...]
    negative: tuple[Atom, ...]
    built_ins: tuple[Literal, ...]
    types: Mapping[str, Type]
    constants: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Literal, ...] = ()
    """Tests and fields of records, for which `built_ins` has equations that can be solved in both directions."""

    def binding(self, row: Row) -> Binding | None:
        """The values of the head variables in a row, and of the constants; None if no instance has this head."""
        known: Binding = {}
        for name, value in zip(arguments(self.head), row, strict=True):
            if value is None and not self.types[name].nullable:
                return None
            if not are_same(known.setdefault(name, value), value):
                return None
        return self.with_constants(known)

    def with_constants(self, known: Binding) -> Binding | None:
        """Add the values of the constants' variables to the binding; None if it has others. A fresh value is compared
        later."""
        for name, value in self.constants.items():
            other = known.setdefault(name, value)
            if not isinstance(other, Symbol) and not are_same(other, value):
                return None
        return known

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its variables, in order of appearance."""
        literals: tuple[Literal, ...] = (*self.positive, *self.negative, *self.built_ins)
        return tuple(dict.fromkeys(name for each in literals for name in variables(each)))


def ground(atom: Atom, binding: Mapping[str, Any]) -> Key:
    """The row of an atom whose variables all have values."""
    return atom.relation, tuple(binding[name] for name in arguments(atom))


def arguments(atom: Atom) -> tuple[str, ...]:
    """The arguments of an atom in the form that the search reads: all are variables."""
    return tuple(term.name for term in atom.args if isinstance(term, Variable))


def rule_parts(number: int, clause: Clause, program: CheckedProgram) -> RuleParts:
    check_time()
    general, constants = _without_constants(clause, program)
    whole, parts = whole_structures(general)
    form = request_rule(whole, program.schemas)
    head, positive, negative = form.clause.head, form.positive, form.negative
    atoms = (head, *positive, *negative)
    assert all(isinstance(term, Variable) for atom in atoms for term in atom.args), "its atoms have variables only"
    return RuleParts(clause, number, head, positive, negative, form.built_ins, form.types, constants, parts)


def _without_constants(clause: Clause, program: CheckedProgram) -> tuple[Clause, dict[str, Any]]:
    """Replace the constants in atoms by variables that are compared with them; the clause and these constants."""
    types, constants, equal = dict(clause.types), dict[str, Any](), list[Literal]()

    def named(atom: Atom) -> Atom:
        args: list[Term] = []
        for term, column in zip(atom.args, program.schemas[atom.relation].columns, strict=True):
            if isinstance(term, Constant):
                variable = Variable(fresh_name("C", types))
                is_null = term.value is None
                types[variable.name] = column.type if is_null else column.type.required()
                constants[variable.name] = term.value
                same = Comparison("=", variable, Constant(term.value, types[variable.name]))
                equal.append(Test("is_null", (variable,)) if is_null else same)
                args.append(variable)
            else:
                args.append(term)
        return replace(atom, args=tuple(args))

    def general(literal: Literal) -> Literal:
        match literal:
            case Atom():
                return named(literal)
            case Not(Atom() as atom):
                return Not(named(atom))
            case _:
                return literal

    head, body = named(clause.head), tuple(map(general, clause.body))
    return (replace(clause, head=head, body=(*body, *equal), types=types) if constants else clause), constants


@dataclass
class Rules:
    """The rules of a program in normal form, by view; aggregates have a `GroupedView` instead. `serves` maps auxiliary
    views to users' views."""

    program: CheckedProgram
    serves: Mapping[str, str] = field(default_factory=dict)
    by_view: dict[str, list[RuleParts]] = field(default_factory=dict)
    folds: dict[str, GroupedView] = field(default_factory=dict)
    queries: dict[object, tuple[InstanceQuery, tuple[str, ...]]] = field(default_factory=dict)
    """The queries for instances, with the variables that they bind."""
    unbounded: dict[object, tuple[str, ...]] = field(default_factory=dict)
    """The views that can need any number of fresh values, by request."""

    def __post_init__(self) -> None:
        clauses = unfolded_clauses(linear_clauses(self.program), self.program)
        for number, clause in enumerate(dict.fromkeys(map(without_repeated, clauses))):
            fold = fold_of(clause, self.program.schemas) if aggregate_of(clause) is not None else None
            if fold is not None:
                self.folds[fold.view] = fold
            else:
                self.by_view.setdefault(clause.head.relation, []).append(rule_parts(number, clause, self.program))
        for name, fold in self.folds.items():
            inner = self._inner_aggregate(fold.below)
            if inner is not None and inner.place >= fold.width and inner.place != fold.target:
                self.folds[name] = replace(fold, inner=inner)

    @cached_property
    def computing(self) -> frozenset[str]:
        """The views that compute values and are not recursive: their rows are enumerated through their rules."""
        made = {name for name, _ in made_columns(rule.clause for rule in self.every)}
        return frozenset(name for name in made if name not in self.folds and name not in self.below(self.inputs(name)))

    def _inner_aggregate(self, view: str) -> InnerAggregate | None:
        """The column of a view with the values of an aggregate: the view is one itself, or one rule passes the value on
        and a second one, if any, adds the groups without rows."""
        if view in self.folds:
            width = self.folds[view].width
            return InnerAggregate(width, view, tuple(range(width)))
        if view not in self.by_view:
            return None
        first, *others = sorted(self.by_view[view], key=lambda rule: self._passed_on(rule) is None)
        inner = self._passed_on(first)
        if inner is None or not others:
            return inner
        absent = [self._absent_group(others[0], atom) for atom in others[0].negative]
        name, values = others[0].head.args[inner.place], list[Any]()
        for literal in others[0].built_ins:
            match literal:
                case Comparison("=", one, Constant(value)) | Comparison("=", Constant(value), one) if one == name:
                    values.append(value)
        if len(others) > 1 or not values or (inner.view, inner.group) not in absent:
            return None
        return replace(inner, default=(values[0],))

    def _passed_on(self, rule: RuleParts) -> InnerAggregate | None:
        """The head column with the value of an aggregate, if other columns are its group."""
        args = rule.head.args
        for atom in rule.positive:
            if atom.relation in self.folds and atom.args[-1] in args and {*atom.args[:-1]} <= {*args}:
                place, group = args.index(atom.args[-1]), tuple(args.index(term) for term in atom.args[:-1])
                if place not in group:
                    return InnerAggregate(place, atom.relation, group)
        return None

    def _absent_group(self, rule: RuleParts, atom: Atom) -> tuple[str, tuple[int, ...]] | None:
        """The aggregate whose group is empty if a negated atom holds, and the columns of the group."""
        rules, args = self.by_view.get(atom.relation, []), rule.head.args
        if len(rules) != 1 or len(rules[0].positive) != 1 or rules[0].negative or not {*atom.args} <= {*args}:
            return None
        (inner,) = rules[0].positive
        if inner.relation not in self.folds or inner.args[:-1] != rules[0].head.args or rules[0].built_ins:
            return None
        return inner.relation, tuple(args.index(term) for term in atom.args)

    @cached_property
    def computes(self) -> bool:
        """Test whether equations compute values."""
        literals = (each for rule in self.every for each in rule.built_ins)
        return any(isinstance(each, Comparison) and isinstance(side, Call) for each in literals
                   for side in ((each.left, each.right) if isinstance(each, Comparison) else ()))  # fmt: skip

    @cached_property
    def every(self) -> tuple[RuleParts, ...]:
        """The rules of all views."""
        return tuple(chain.from_iterable(self.by_view.values()))

    @cached_property
    def users(self) -> dict[str, list[tuple[RuleParts, int]]]:
        """The rules that read each relation, and the positive literals that do."""
        found: dict[str, list[tuple[RuleParts, int]]] = {}
        for rule in self.every:
            for place, atom in enumerate(rule.positive):
                found.setdefault(atom.relation, []).append((rule, place))
        return found

    @cached_property
    def negators(self) -> dict[str, list[tuple[RuleParts, Atom]]]:
        """The rules that negate each relation, and the literals that do."""
        found: dict[str, list[tuple[RuleParts, Atom]]] = {}
        for rule in self.every:
            for atom in rule.negative:
                found.setdefault(atom.relation, []).append((rule, atom))
        return found

    def shown(self, relation: str) -> str:
        """The name of a relation for users: its own, or that of the view for which it is auxiliary."""
        return self.serves.get(relation, relation)

    def is_base(self, relation: str) -> bool:
        return self.program.schemas[relation].role is Role.BASE

    def read(self, view: str) -> Iterator[tuple[str, int]]:
        """The relations that the rules of a view read: 1 if more rows there can add rows to it, -1 if fewer can."""
        if view in self.folds:
            yield from ((self.folds[view].below, sign) for sign in (1, -1))
        for rule in self.by_view.get(view, ()):
            yield from ((atom.relation, 1) for atom in rule.positive)
            yield from ((atom.relation, -1) for atom in rule.negative)

    def inputs(self, view: str) -> Iterator[str]:
        """The relations that the rules of a view read."""
        yield from (name for name, _ in self.read(view))

    def below(self, relations: Iterable[str]) -> frozenset[str]:
        """The relations that these depend on, themselves included."""
        return frozenset(reached(relations, self.inputs))

    def unchangeable(self, frozen: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """The relations that cannot gain rows (`+`), or cannot lose rows (`-`), because of `frozen` base relations."""
        views = {*self.by_view, *self.folds}
        found = {*frozen, *((name, sign) for name in views for sign in (INSERT, DELETE))}
        size = -1
        while len(found) != size:
            size = len(found)
            for name, sign in [each for each in found if each[0] in views]:
                other = DELETE if sign == INSERT else INSERT
                parts = ((each, sign if own > 0 else other) for each, own in self.read(name))
                if not found.issuperset(parts):
                    found.discard((name, sign))
        return frozenset(found)

    def sources(self, column: Column) -> frozenset[Column]:
        """The base columns that the values of a column come from."""
        return frozenset(each for each in reached([column], self._sources) if self.is_base(each[0]))

    def _sources(self, column: Column) -> Iterator[Column]:
        relation, place = column
        for rule in self.by_view.get(relation, ()):
            own = arguments(rule.head)[place]
            names = {own, *(name for each in rule.built_ins if own in variables(each) for name in variables(each))}
            yield from (each for name in names for each in columns_in(name, rule.positive))
        fold = self.folds.get(relation)
        if fold is not None and place == fold.width and fold.target is not None:
            yield fold.below, fold.target


def columns_in(variable: str, atoms: Iterable[Atom]) -> Iterator[Column]:
    """The columns of these atoms in which a variable occurs."""
    yield from (column for name, column in cells(atoms) if name == variable)
