"""Occurrences of variables, the variables that a conjunction binds, and substitution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import assert_never

from upshot.check.names.variables import fold, variables
from upshot.check.program import Literal
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Formula, Not, Or, Term, Test, Variable


def visible(head: Atom, body: Iterable[Literal]) -> frozenset[str]:
    """The variables of a clause that occur outside aggregates: inside one they mean the same."""
    names = set(variables(head))
    for literal in body:
        names.update(variables(literal, inside_aggregates=False))
    return frozenset(names)


def injected(aggregate: Aggregate, outside: Collection[str]) -> tuple[str, ...]:
    """The variables of an aggregate that also occur outside it, in order of first appearance."""
    return tuple(name for name in variables(aggregate) if name in outside)


def binders(literals: Sequence[Literal], outside: Collection[str]) -> dict[str, int]:
    """Every variable that a conjunction binds, with the position of the literal that can bind it first.

    `outside` are the variables visible around aggregates, see `visible`.
    """
    found: dict[str, int] = {}
    grown = True
    while grown:
        grown = False
        for position, literal in enumerate(literals):
            for name in _bindable(literal):
                if name not in found and all(each in found for each in needed_by(literal, name, outside)):
                    found[name] = position
                    grown = True
    return found


def _bindable(literal: Literal) -> list[str]:
    """The variables a literal can give a value to."""
    match literal:
        case Atom(_, args):
            return [arg.name for arg in args if isinstance(arg, Variable)]
        case Comparison("=", left, right):
            return [side.name for side in (left, right) if isinstance(side, Variable)]
        case Comparison() | Not() | Test():
            return []
        case _:
            assert_never(literal)


def needed_by(literal: Literal, name: str, outside: Collection[str] = ()) -> tuple[str, ...]:
    """The variables that must have a value before the literal can give one to the variable `name`."""
    match literal:
        case Atom(_, args):
            return tuple(each for each in variables(literal) if Variable(each) not in args)
        case Comparison(_, Variable(left), Aggregate() as aggregate) if left == name:
            return injected(aggregate, outside)
        case Comparison(_, Variable(left), right) if left == name:
            return variables(right)
        case Comparison(_, left, _):
            return variables(left)
        case Not() | Test():
            return variables(literal)
        case _:
            assert_never(literal)


Change = Callable[[Variable], Term]


def substitute(term: Term, change: Change) -> Term:
    """The term with every variable replaced, those of aggregates included."""

    def visit(node: Term, parts: tuple[Term, ...]) -> Term:
        match node:
            case Variable():
                return change(node)
            case Call(function):
                return Call(function, parts, span=node.span)
            case Aggregate(function, target, body):
                goal = None if target is None else substitute(target, change)
                return Aggregate(function, goal, substitute_in(body, change), span=node.span)
            case _:
                return node

    return fold(term, visit)


def substitute_in(formula: Formula, change: Change) -> Formula:
    """The formula with every variable replaced."""
    match formula:
        case And(parts):
            return And(tuple(substitute_in(part, change) for part in parts), span=formula.span)
        case Or(parts):
            return Or(tuple(substitute_in(part, change) for part in parts), span=formula.span)
        case Not(body):
            return Not(substitute_in(body, change), span=formula.span)
        case Atom(relation, args, state):
            return Atom(relation, tuple(substitute(arg, change) for arg in args), state, span=formula.span)
        case Comparison(op, left, right):
            return Comparison(op, substitute(left, change), substitute(right, change), span=formula.span)
        case Test(name, args):
            return Test(name, tuple(substitute(arg, change) for arg in args), span=formula.span)
        case _:
            assert_never(formula)
