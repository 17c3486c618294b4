"""Occurrences of variables, the variables that a conjunction binds, and substitution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar, assert_never

from upshot.check.names.variables import variables
from upshot.check.program import Literal
from upshot.syntax.ast import Aggregate, Atom, Comparison, Formula, Not, Term, Test, Variable
from upshot.syntax.rebuild import rebuilt

Node = TypeVar("Node", bound=Formula | Term | tuple[Literal, ...])


def visible(head: Atom, body: Iterable[Literal]) -> frozenset[str]:
    """The variables of a clause that occur outside aggregates; an aggregate that uses one means the same variable."""
    names = set(variables(head))
    for literal in body:
        names.update(variables(literal, inside_aggregates=False))
    return frozenset(names)


def injected(aggregate: Aggregate, outside: Collection[str]) -> tuple[str, ...]:
    """The variables of an aggregate that also occur outside it, in order of first appearance."""
    return tuple(name for name in variables(aggregate) if name in outside)


def binders(literals: Sequence[Literal], outside: Collection[str]) -> dict[str, int]:
    """Every variable that a conjunction binds, with the position of the literal that can bind it first; `outside` as
    `visible` returns it."""
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
    """The variables that a literal can bind."""
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
    """The variables that must be bound before the literal can bind the variable `name`."""
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


def substitute(node: Node, change: Callable[[Variable], Term]) -> Node:
    """The term, formula or body with every variable replaced, those of aggregates included."""
    return rebuilt(node, lambda each: change(each) if isinstance(each, Variable) else each)
