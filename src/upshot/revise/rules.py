"""The rules of a program as the search reads them: positive literals, negated ones, built-ins, aggregates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role
from upshot.engine.time_limit import check_time
from upshot.revise.folds import Fold, fold_of
from upshot.revise.placeholders import Symbol
from upshot.revise.request import DELETE, INSERT, Key, Row
from upshot.revise.rule_forms import linear_clauses, made_columns, unfolded_clauses, without_repeated
from upshot.revise.term_values import are_same
from upshot.rewrite.demand.request_rules import RequestRule, request_rule
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Call, Comparison, Constant, Not, Term, Test, Variable

Column = tuple[str, int]
Binding = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RuleParts(RequestRule):
    """A rule and what it asks of its body, as the search takes it. The atoms of its `form` have variables only: those
    that stand for `constants` are compared with them, so that a fresh value in their place is compared as well."""

    form: RequestRule
    number: int
    constants: Mapping[str, Any]

    @property
    def head(self) -> Atom:
        return self.form.clause.head

    @cached_property
    def positive(self) -> tuple[Atom, ...]:
        return self.form.positive

    @cached_property
    def negative(self) -> tuple[Atom, ...]:
        return self.form.negative

    def binding(self, row: Row) -> Binding | None:
        """The values of head variables for a row, and of constants; None if no instance has this head."""
        known: Binding = {}
        for term, value in zip(self.head.args, row, strict=True):
            assert isinstance(term, Variable), "its atoms have variables only"
            if value is None and not self.types[term.name].nullable:
                return None
            if not are_same(known.setdefault(term.name, value), value):
                return None
        return self.with_constants(known)

    def with_constants(self, known: Binding) -> Binding | None:
        """The binding with values for the variables that stand for constants; None if it has others for them. A fresh
        value is compared later on."""
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
    """The row that an atom names once all its variables have values."""
    return atom.relation, tuple(_value(term, binding) for term in atom.args)


def _value(term: Term, binding: Mapping[str, Any]) -> Any:
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
    general, constants = _without_constants(clause, program)
    form = request_rule(general, program.schemas)
    return RuleParts(clause, made.all_of, form.built_ins, form.types, form, number, constants)


def _without_constants(clause: Clause, program: CheckedProgram) -> tuple[Clause, dict[str, Any]]:
    """The clause with variables in the place of the constants in its atoms, which it compares with them, and those."""
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
    """The rules of a program in normal form, by view; views of aggregates have a `Fold` instead. `serves` has the views
    that users know for those they do not."""

    program: CheckedProgram
    serves: Mapping[str, str] = field(default_factory=dict)
    by_view: dict[str, list[RuleParts]] = field(default_factory=dict)
    folds: dict[str, Fold] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clauses = unfolded_clauses(linear_clauses(self.program), self.program)
        for number, clause in enumerate(dict.fromkeys(map(without_repeated, clauses))):
            fold = fold_of(clause, self.program.schemas) if aggregate_of(clause) is not None else None
            if fold is not None:
                self.folds[fold.view] = fold
            else:
                self.by_view.setdefault(clause.head.relation, []).append(rule_parts(number, clause, self.program))

    @cached_property
    def making(self) -> frozenset[str]:
        """The views that make values, and are not recursive: rows of them are found by way of their rules."""
        made = {name for name, _ in made_columns(rule.clause for rules in self.by_view.values() for rule in rules)}
        return frozenset(name for name in made if name not in self.folds and name not in self.below(self.inputs(name)))

    @cached_property
    def computes(self) -> bool:
        """Whether equations compute values."""
        literals = (each for rules in self.by_view.values() for rule in rules for each in rule.built_ins)
        return any(isinstance(each, Comparison) and isinstance(side, Call) for each in literals
                   for side in ((each.left, each.right) if isinstance(each, Comparison) else ()))  # fmt: skip

    def shown(self, relation: str) -> str:
        """The name by which users know a relation, or the view that it serves."""
        return self.serves.get(relation, relation)

    def is_base(self, relation: str) -> bool:
        return self.program.schemas[relation].role is Role.BASE

    def inputs(self, relation: str) -> Iterator[str]:
        """The relations that the rules of a view read."""
        if relation in self.folds:
            yield self.folds[relation].below
        for rule in self.by_view.get(relation, ()):
            yield from (atom.relation for atom in (*rule.positive, *rule.negative))

    def below(self, relations: Iterable[str]) -> frozenset[str]:
        """The relations that these depend on, themselves included."""
        seen = set(relations)
        left = list(seen)
        while left:
            new = {each for each in self.inputs(left.pop()) if each not in seen}
            seen |= new
            left += new
        return frozenset(seen)

    def settled(self, frozen: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """The relations that cannot gain rows (`+`), or lose any (`-`), if base relations are `frozen` so."""
        views = {*self.by_view, *self.folds}
        found = {*frozen, *((name, sign) for name in views for sign in (INSERT, DELETE))}
        size = -1
        while len(found) != size:
            size = len(found)
            for name, sign in [each for each in found if each[0] in views]:
                other = DELETE if sign == INSERT else INSERT
                parts = [(atom.relation, sign) for rule in self.by_view.get(name, ()) for atom in rule.positive]
                parts += [(atom.relation, other) for rule in self.by_view.get(name, ()) for atom in rule.negative]
                if name in self.folds:
                    parts = [(self.folds[name].below, each) for each in (INSERT, DELETE)]
                if not found.issuperset(parts):
                    found.discard((name, sign))
        return frozenset(found)

    def sources(self, column: Column) -> frozenset[Column]:
        """The base columns that the values of a column come from."""
        seen, left = {column}, [column]
        while left:
            relation, place = left.pop()
            found: list[Column] = []
            for rule in self.by_view.get(relation, ()):
                term = rule.head.args[place]
                if isinstance(term, Variable):
                    names = {term.name}
                    for literal in rule.built_ins:
                        names |= {*variables(literal)} if term.name in variables(literal) else set()
                    found += [each for name in names for each in columns_in(name, rule.positive)]
            fold = self.folds.get(relation)
            if fold is not None and place == fold.width and fold.target is not None:
                found.append((fold.below, fold.target))
            new = [each for each in found if each not in seen]
            seen.update(new)
            left += new
        return frozenset(each for each in seen if self.is_base(each[0]))


def columns_in(variable: str, atoms: Iterable[Atom]) -> Iterator[Column]:
    """The columns of these atoms in which a variable occurs."""
    for atom in atoms:
        for place, term in enumerate(atom.args):
            if isinstance(term, Variable) and term.name == variable:
                yield atom.relation, place
