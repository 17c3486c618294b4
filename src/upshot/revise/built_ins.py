"""Evaluation and inversion of terms, comparisons and tests of a rule under a partial binding.

`Y = X * X` has two roots for 9 and none for 8; `Y = X % 3` has infinitely many for 1, of which some are generated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from upshot.check.clause.facts import evaluate
from upshot.check.findings import Findings
from upshot.check.names.variables import variables as variables_of
from upshot.check.program import Literal
from upshot.core.errors import DataError
from upshot.core.types import NUMBER_RANGE, UNSIGNED_RANGE, Kind, Type
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Call, Comparison, Constant, Not, Term, Test, Variable
from upshot.values import inverses
from upshot.values.conditions import COMPARISONS, TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.inverses import NONE, SOME, Image, Roots

# ---- terms -----------------------------------------------------------------------------------------------------------


UNKNOWN = inverses.UNKNOWN


def are_same(one: Any, other: Any) -> bool:
    """Test whether two values are equal in programs, where NaN equals itself."""
    return bool(one == other or (one != one and other != other))


def value_of(term: Term, binding: Mapping[str, Any], types: Mapping[str, Type]) -> Any:
    """The value of a term; `UNKNOWN` if a variable has no value or the term has none."""
    match term:
        case Constant(value):
            return value
        case Variable(name):
            return binding.get(name, UNKNOWN)
        case Call(function, args):
            values = [value_of(arg, binding, types) for arg in args]
            if UNKNOWN in values:
                return UNKNOWN
            if None in values:
                return None
            given = tuple(term_type(arg, types) for arg in args)
            return _computed(function, tuple(values), given, term_type(term, types))
        case _:
            return UNKNOWN


@lru_cache(maxsize=20_000)
def _computed(function: str, values: tuple[Any, ...], types: tuple[Type, ...], type: Type) -> Any:
    constants = tuple(Constant(value, each) for value, each in zip(values, types, strict=True))
    made = evaluate(Call(function, constants), type, Findings())
    return UNKNOWN if made is None else made.value


def roots(
    term: Term, value: Any, name: str, known: Mapping[str, Any], types: Mapping[str, Type], number: int = 1
) -> Roots:
    """The values of the variable for which the term has this value; of infinitely many, others for each `number`."""
    match term:
        case Variable(other) if other == name:
            return Roots((value,), are_all=True)
        case Call(function, args):
            places = [place for place, arg in enumerate(args) if name in variables(arg)]
            found = _argument(function, args, places, value, known, types, number)
            made = [roots(args[places[0]], each, name, known, types, number) for each in found.values]
            values = dict.fromkeys(each for one in made for each in one.values)
            return Roots(tuple(values), found.are_all and all(each.are_all for each in made))
        case _:
            return SOME


def _argument(
    function: str,
    args: tuple[Term, ...],
    places: list[int],
    value: Any,
    known: Mapping[str, Any],
    types: Mapping[str, Type],
    number: int,
) -> Roots:
    """The values that the first of these arguments, which contains the variable, must have."""
    place, others = places[0], [value_of(arg, known, types) for arg in args]
    if any(each is None for at, each in enumerate(others) if at not in places):
        return NONE
    inverse = FUNCTIONS[function].meanings[term_type(args[0], types).kind].inverse
    squared = len(places) == 2 == len(args) and args[0] == args[1]
    type = term_type(args[place], types)
    image = Image(value, tuple(others), place, type, number, repeated=len(places) > 1, squared=squared)
    return SOME if inverse is None else inverse(image)


def is_value_of(value: Any, type: Type) -> bool:
    """Test whether a value of the kind of the type is one of the type."""
    if value is None:
        return type.nullable
    match type.kind:
        case Kind.NUMBER:
            least = NUMBER_RANGE[0] + type.nullable  # the code of NULL
            return isinstance(value, int) and least <= value <= NUMBER_RANGE[-1]
        case Kind.UNSIGNED:
            return isinstance(value, int) and 0 <= value <= UNSIGNED_RANGE[-1] - type.nullable
        case Kind.DECIMAL:
            scaled = Fraction(value) * 10**type.scale
            return bool(scaled.denominator == 1 and abs(scaled) < 10**type.precision)
        case _:
            return True


# ---- built-ins -------------------------------------------------------------------------------------------------------


Binding = dict[str, Any]

LINEAR = ("+", "-", "neg")


@lru_cache(maxsize=4_096)
def variables(node: Literal | Term) -> tuple[str, ...]:
    """The names of the variables in a built-in or a term, cached."""
    return variables_of(node)


def holds(literal: Literal, binding: Mapping[str, Any], types: Mapping[str, Type]) -> bool:
    """Test whether a built-in holds for values of all its variables."""
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
    """Evaluate the test; None if it raises an error."""
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
    """A variable for which an equation has finitely many solutions, and the solutions."""
    for literal in literals:
        for side, value in _sides(literal, binding, types):
            for name in variables(side):
                if value is not None and name in names and (found := roots(side, value, name, binding, types)).are_all:
                    return name, found.values
    return None


def _sides(literal: Literal, known: Binding, types: Mapping[str, Type]) -> Iterator[tuple[Term, Any]]:
    """The sides of an equation with unbound variables whose other side is bound, with the value of the other side; None
    if that has no value and equals nothing."""
    if isinstance(literal, Comparison) and literal.op == "=":
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if any(name not in known for name in variables(side)):
                value = value_of(other, known, types)
                if value is not UNKNOWN:
                    yield side, value
                elif all(name in known for name in variables(other)):
                    yield side, None


def solved(equation: Literal, known: Binding, types: Mapping[str, Type]) -> Binding | None:
    """Solve an equation for its only unbound variable; None if it has no solution."""
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
    """The variable to bind first: one that is not computed from others, except by sums and differences, which can be
    solved for each of their variables."""
    computed = set()
    for literal in literals:
        match literal:
            case Comparison("=", Variable(name), Call(function, _) as call) | Comparison(
                "=", Call(function, _) as call, Variable(name)
            ) if function not in LINEAR and any(each in free for each in variables(call)):
                computed.add(name)
    return next((name for name in free if name not in computed), free[0])
