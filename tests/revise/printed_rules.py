"""The printed rules of view updating, R∇ and R∇τ, carried out literally over a finite domain.

A branch is a set of requests and base changes. A rule whose body holds in it, and none of whose heads does, makes one
branch for each head; state literals read the perfect model of the branch as the oracle computes it. A branch in which
no rule has anything left to say, and in which the request and the constraints hold, is a realization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tests.revise.brute_force import Update, checked
from tests.revise.random_requests import Case, Fact
from upshot.check.program import CheckedProgram, Literal
from upshot.engine.naive import evaluate
from upshot.engine.naive_values import compare
from upshot.revise.minimal_realizations import minimal
from upshot.rewrite import normal_form
from upshot.rewrite.demand.request_rules import CHANGE, DELETE, INSERT, REQUEST, Signed
from upshot.rewrite.normalize.operators import operators
from upshot.rewrite.view_updates import ViewUpdateRule, ViewUpdates, view_updates
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Term, Variable

Binding = dict[str, Any]
Ground = tuple[str, str, Fact]
"""The kind of a signed fact, its sign, and the fact."""
Model = Mapping[str, set[tuple[Any, ...]]]


class TooMany(Exception):
    """More branches than the caller wants to wait for."""


@dataclass(frozen=True, slots=True)
class Branch:
    asked: frozenset[Ground]
    changes: frozenset[Ground] = frozenset()


@dataclass(slots=True)
class PrintedRules:
    """The rules for the program of a case, and the models of its database under changes."""

    case: Case
    program: CheckedProgram = field(init=False)
    rules: ViewUpdates = field(init=False)
    _models: dict[frozenset[Ground], Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        normal = normal_form(checked(self.case.text))
        self.program = operators(normal, [view for layer in normal.strata for view in layer])
        self.rules = view_updates(self.program)

    def realizations(self, most: int) -> set[Update]:
        """The minimal ones; raises `TooMany` rather than look at more branches than that."""
        signed = [(INSERT, self.case.insert), (DELETE, self.case.delete)]
        start = Branch(frozenset((REQUEST, sign, fact) for sign, facts in signed for fact in facts))
        found: list[frozenset[Ground]] = []
        left, seen = [start], {start}
        while left:
            branch = left.pop()
            if len(seen) > most:
                raise TooMany
            heads = self._heads(branch)
            if heads is None:
                if self._is_met(branch):
                    found.append(branch.changes)
                continue
            new = {_with(branch, head) for head in heads} - seen
            seen |= new
            left += new
        return {
            (
                frozenset(fact for _, sign, fact in changes if sign == INSERT),
                frozenset(fact for _, sign, fact in changes if sign == DELETE),
            )
            for changes in minimal(found)
        }

    def _is_met(self, branch: Branch) -> bool:
        """Whether the request holds and no constraint is newly violated: a repair that was asked for may be one that
        only it itself would bring about."""
        model, before = self._model(branch.changes), self._model(frozenset())
        return (
            all(row in model[name] for name, row in self.case.insert)
            and not any(row in model[name] for name, row in self.case.delete)
            and all(model[name] <= before[name] for name in self.program.constraints)
        )

    def _model(self, changes: frozenset[Ground]) -> Model:
        if changes not in self._models:
            facts = set(self.case.facts)
            facts |= {fact for _, sign, fact in changes if sign == INSERT}
            facts -= {fact for _, sign, fact in changes if sign == DELETE}
            base: dict[str, set[tuple[Any, ...]]] = {name: set() for name in self.program.schemas}
            for name, row in facts:
                base[name].add(row)
            self._models[changes] = {**base, **evaluate(self.program, base)}
        return self._models[changes]

    def _heads(self, branch: Branch) -> list[Ground] | None:
        """The heads of the rule with the fewest that has something to say; None if there is none."""
        best: list[Ground] | None = None
        for rule in (*self.rules.transitions, *self.rules.requests):
            for binding in self._solutions(rule, branch):
                heads = list(self._grounded(rule, binding))
                if not any(head in branch.asked or head in branch.changes for head in heads):
                    if not heads:
                        return []
                    if best is None or len(heads) < len(best):
                        best = heads
        return best

    def _grounded(self, rule: ViewUpdateRule, binding: Binding) -> Iterator[Ground]:
        for head in rule.heads:
            names = [arg.name for place in rule.free if isinstance(arg := head.atom.args[place], Variable)]
            for values in product(self.case.domain, repeat=len(set(names))):
                longer = {**binding, **dict(zip(dict.fromkeys(names), values, strict=True))}
                yield head.kind, head.sign, _fact(head.atom, longer)

    def _solutions(self, rule: ViewUpdateRule, branch: Branch) -> list[Binding]:
        model = self._model(branch.changes)
        found: list[Binding] = [{}]
        for given in rule.conditions:
            rows = self._signed_rows(given, branch)
            found = [longer for binding in found for longer in _matches(given.atom, rows, binding)]
        # Negated literals and comparisons after those that bind their variables.
        for literal in sorted(rule.tests, key=lambda each: not isinstance(each, Atom)):
            found = [longer for binding in found for longer in _tested(literal, model, binding)]
        return found

    def _signed_rows(self, given: Signed, branch: Branch) -> Iterable[tuple[Any, ...]]:
        name = given.atom.relation
        if given.kind == CHANGE:
            before, after = self._model(frozenset())[name], self._model(branch.changes)[name]
            return after - before if given.sign == INSERT else before - after
        return [row for _, sign, (other, row) in branch.asked if (sign, other) == (given.sign, name)]


def _with(branch: Branch, head: Ground) -> Branch:
    if head[0] == CHANGE:
        return replace(branch, changes=branch.changes | {head})
    return replace(branch, asked=branch.asked | {head})


def _tested(literal: Literal, model: Model, binding: Binding) -> Iterator[Binding]:
    match literal:
        case Atom(relation):
            yield from _matches(literal, model[relation], binding)
        case Not(Atom(relation) as atom):
            if not any(_matches(atom, model[relation], binding)):
                yield binding
        case Comparison(op, left, right):
            if compare(op, _value(left, binding), _value(right, binding)):
                yield binding
        case _:
            raise AssertionError("the cases have no other tests")


def _matches(atom: Atom, rows: Iterable[Sequence[Any]], binding: Binding) -> Iterator[Binding]:
    for row in rows:
        longer = dict(binding)
        for term, value in zip(atom.args, row, strict=True):
            wanted = longer.setdefault(term.name, value) if isinstance(term, Variable) else _value(term, longer)
            if wanted != value:
                break
        else:
            yield longer


def _fact(atom: Atom, binding: Binding) -> Fact:
    return atom.relation, tuple(_value(term, binding) for term in atom.args)


def _value(term: Term, binding: Binding) -> Any:
    match term:
        case Constant(value):
            return value
        case Variable(name):
            return binding[name]
        case _:
            raise AssertionError("operators have variables and constants only")
