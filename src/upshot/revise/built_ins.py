"""Comparisons, arithmetic and tests of a rule, with some of its variables known: what they determine, what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from upshot.check.names.variables import variables as variables_of
from upshot.check.program import Literal
from upshot.core.errors import DataError
from upshot.core.types import Type
from upshot.revise.inverses import roots
from upshot.revise.term_values import UNKNOWN, value_of
from upshot.syntax.ast import Call, Comparison, Not, Term, Test, Variable
from upshot.values.conditions import COMPARISONS, TESTS

Binding = dict[str, Any]

LINEAR = ("+", "-", "neg")


@lru_cache(maxsize=4_096)
def variables(node: Literal | Term) -> tuple[str, ...]:
    """The names of the variables in a built-in or a term: rules have few, which are asked about all the time."""
    return variables_of(node)


def holds(literal: Literal, binding: Mapping[str, Any], types: Mapping[str, Type]) -> bool:
    """Whether a built-in holds for values of all its variables."""
    match literal:
        case Comparison(op, left, right):
            first, second = value_of(left, binding, types), value_of(right, binding, types)
            if first is None or second is None or first is UNKNOWN or second is UNKNOWN:
                return False
            if first != first or second != second:
                return op in ("=", "<=", ">=") if first != first and second != second else op == "!="
            return bool(COMPARISONS[op].python(first, second))
        case Test(name, args):
            return _test(name, [value_of(arg, binding, types) for arg in args]) is True
        case Not(Test() as test):
            values = [value_of(arg, binding, types) for arg in test.args]
            return (test.name == "is_null" or None not in values) and _test(test.name, values) is False
        case _:
            raise AssertionError(f"{literal} is no built-in")


def _test(name: str, values: list[Any]) -> bool | None:
    """Whether the test holds; None if it cannot be made: then the rule is an error for these values."""
    test = TESTS[name]
    if None in values and not test.sees_null:
        return False
    try:
        return test.python(*values)
    except DataError:
        return None


def listed(
    literals: Sequence[Literal], binding: Binding, names: Collection[str], types: Mapping[str, Type]
) -> tuple[str, tuple[Any, ...]] | None:
    """One of the variables that an equation leaves only a few values to, and those."""
    for literal in literals:
        for side, value in _sides(literal, binding, types):
            for name in variables(side):
                if value is not None and name in names and (found := roots(side, value, name, binding, types)).are_all:
                    return name, found.values
    return None


def _sides(literal: Literal, known: Binding, types: Mapping[str, Type]) -> Iterator[tuple[Term, Any]]:
    """The sides of an equation that have variables without a value, where the other has all; and what that comes to,
    which is None if it has no value, and equal to nothing."""
    if isinstance(literal, Comparison) and literal.op == "=":
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if any(name not in known for name in variables(side)):
                value = value_of(other, known, types)
                if value is not UNKNOWN:
                    yield side, value
                elif all(name in known for name in variables(other)):
                    yield side, None


def solved(equation: Literal, known: Binding, types: Mapping[str, Type]) -> Binding | None:
    """What an equation says about a variable if it is the only one without a value; None if nothing makes it true."""
    for side, value in _sides(equation, known, types):
        if value is None:
            return None
        names = {name for name in variables(side) if name not in known}
        if len(names) == 1:
            (name,) = names
            found = roots(side, value, name, known, types)
            if found.are_all and len(found.values) <= 1:
                return {name: found.values[0]} if found.values else None
    return {}


def first_to_fill(literals: Sequence[Literal], free: Sequence[str]) -> str:
    """The variable that is to get a value first: one that others are computed from rather than one of those, but for
    sums and differences, which can be worked out either way."""
    computed = set()
    for literal in literals:
        match literal:
            case Comparison("=", Variable(name), Call(function, _) as call) | Comparison(
                "=", Call(function, _) as call, Variable(name)
            ) if function not in LINEAR and any(each in free for each in variables(call)):
                computed.add(name)
    return next((name for name in free if name not in computed), free[0])
