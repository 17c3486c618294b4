"""The rules of a program as the search reads them: positive literals, negated ones, built-ins, sources of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role
from upshot.engine.time_limit import check_time
from upshot.revise.built_ins import Binding
from upshot.revise.folds import Fold, fold_of
from upshot.revise.implied_guards import without_implied_guards
from upshot.revise.linear_rules import linear_clauses
from upshot.revise.request import Key, Row
from upshot.revise.term_values import UNKNOWN, are_same
from upshot.revise.unfolded_rules import unfolded_clauses
from upshot.rewrite.demand.request_rules import RequestRule, request_rule
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Constant, Term, Variable

Column = tuple[str, int]


@dataclass(frozen=True, eq=False)
class RuleParts(RequestRule):
    """A rule and what it asks of its body, as the search takes it. A rule that folds rows `is_aggregate`."""

    number: int = 0
    is_aggregate: bool = False

    def binding(self, row: Row) -> Binding | None:
        """The values of head variables for a row, or for its first columns, as far as they are known; None if no
        instance has this head."""
        known: Binding = {}
        for term, value in zip(self.clause.head.args, row, strict=False):
            if value is UNKNOWN:
                continue
            match term:
                case Constant(other) if not are_same(other, value):
                    return None
                case Variable(name):
                    if value is None and not self.types[name].nullable:
                        return None
                    if not are_same(known.setdefault(name, value), value):
                        return None
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
    check_time()
    made = request_rule(clause, program.schemas)
    return RuleParts(clause, made.all_of, made.built_ins, made.types, number, aggregate_of(clause) is not None)


@dataclass
class Rules:
    """The rules of a program in normal form, by view. `serves` has the views that users know for those they do not."""

    program: CheckedProgram
    serves: Mapping[str, str] = field(default_factory=dict)
    by_view: dict[str, list[RuleParts]] = field(default_factory=dict)
    _sources: dict[Column, frozenset[Column]] = field(default_factory=dict)
    _constants: dict[Column, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clauses = unfolded_clauses(linear_clauses(self.program), self.program)
        clauses = without_implied_guards(clauses, self.program)
        for number, clause in enumerate(dict.fromkeys(clauses)):
            parts = rule_parts(number, clause, self.program)
            self.by_view.setdefault(clause.head.relation, []).append(parts)

    @cached_property
    def folds(self) -> Mapping[str, Fold]:
        """The views whose rows are aggregates."""
        found = (fold_of(rule.clause, self.program.schemas) for rules in self.by_view.values() for rule in rules)
        return {each.view: each for each in found if each is not None}

    @cached_property
    def by_number(self) -> Mapping[int, RuleParts]:
        rules = (rule for rules in self.by_view.values() for rule in rules)
        return {rule.number: rule for rule in (*rules, *self.identities.values())}

    @cached_property
    def identities(self) -> Mapping[str, RuleParts]:
        """For each relation that an aggregate folds, a rule that derives its rows from themselves; such rules have
        negative numbers."""
        made: dict[str, RuleParts] = {}
        for fold in self.folds.values():
            columns = self.program.schemas[fold.below].columns
            atom = Atom(fold.below, tuple(Variable(f"X{place}") for place in range(len(columns))))
            types = {f"X{place}": column.type for place, column in enumerate(columns)}
            made.setdefault(fold.below, rule_parts(-1 - len(made), Clause(atom, (atom,), types), self.program))
        return made

    def shown(self, relation: str) -> str:
        """What users call a relation, or the view that it serves."""
        return self.serves.get(relation, relation)

    def is_base(self, relation: str) -> bool:
        return self.program.schemas[relation].role is Role.BASE

    def are_mutual(self, first: str, second: str) -> bool:
        """Whether two views rest on each other; so does one of a recursion on itself."""
        return first in self._components and self._components[first] == self._components.get(second)

    @cached_property
    def _components(self) -> Mapping[str, int]:
        return {view: number for number, views in enumerate(self.program.strata) for view in views}

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
            self._sources[column] = frozenset(each for each in self._flow(column) if self.is_base(each[0]))
        return self._sources[column]

    def constants(self, column: Column) -> list[Any]:
        """The values of a column that rules name in their heads."""
        if column not in self._constants:
            terms = (
                rule.clause.head.args[at] for name, at in self._flow(column) for rule in self.by_view.get(name, ())
            )
            self._constants[column] = list(dict.fromkeys(term.value for term in terms if isinstance(term, Constant)))
        return self._constants[column]

    def _flow(self, column: Column) -> list[Column]:
        """The columns that the values of a column come from, itself included."""
        seen, left = {column: None}, [column]
        while left:
            relation, place = left.pop()
            for rule in self.by_view.get(relation, ()):
                term = rule.clause.head.args[place]
                if isinstance(term, Variable):
                    found = (*columns_of(term.name, rule), *self._chosen_from(relation, place))
                    new = [each for each in found if each not in seen]
                    seen |= dict.fromkeys(new)
                    left += new
        return list(seen)

    def _chosen_from(self, relation: str, place: int) -> Iterator[Column]:
        """The column that a least or greatest value is one of."""
        fold = self.folds.get(relation)
        if fold is not None and fold.function in ("min", "max") and fold.target is not None and place == fold.width:
            yield fold.below, fold.target

    def is_made(self, variable: str, rule: RuleParts) -> bool:
        """Whether rows of views may have values for a variable that no base column has."""
        columns = [*columns_in(variable, rule.positive)]
        return bool(columns) and self._made_columns.issuperset(columns)

    def is_made_column(self, column: Column) -> bool:
        """Whether rules bring values of their own to a column."""
        return column in self._made_columns

    @cached_property
    def _made_columns(self) -> frozenset[Column]:
        """The columns of views to which rules bring values of their own: constants, and what they compute."""
        found: set[Column] = set()
        size = -1
        while len(found) != size:
            size = len(found)
            for rule in (each for rules in self.by_view.values() for each in rules):
                for place, term in enumerate(rule.clause.head.args):
                    columns = [*columns_in(term.name, rule.positive)] if isinstance(term, Variable) else []
                    if found.issuperset(columns):
                        found.add((rule.clause.head.relation, place))
        return frozenset(found)


def _atoms(rule: RuleParts) -> Iterator[Atom]:
    yield from (*rule.positive, *rule.negative)


def columns_of(variable: str, rule: RuleParts) -> Iterator[Column]:
    """The columns in which a variable occurs."""
    yield from columns_in(variable, _atoms(rule))


def columns_in(variable: str, atoms: Iterable[Atom]) -> Iterator[Column]:
    """The columns of these atoms in which a variable occurs."""
    for atom in atoms:
        for place, term in enumerate(atom.args):
            if isinstance(term, Variable) and term.name == variable:
                yield atom.relation, place


def free_variables(rule: RuleParts, binding: Mapping[str, object]) -> list[str]:
    """The variables without a value, in order of appearance."""
    literals: tuple[Literal, ...] = (*rule.positive, *rule.negative, *rule.built_ins)
    return list(dict.fromkeys(name for each in literals for name in variables(each) if name not in binding))
