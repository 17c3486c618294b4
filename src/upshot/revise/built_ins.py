"""Comparisons, arithmetic and tests of a rule, with some of its variables known: what they determine, what is left."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upshot.check.findings import Findings
from upshot.check.ground import evaluate
from upshot.check.program import Literal
from upshot.check.variables import variables
from upshot.core.errors import DataError
from upshot.core.types import Kind, Type
from upshot.engine.local.patterns import pattern as compiled
from upshot.engine.time_limit import check_time
from upshot.rewrite.term_type import term_type
from upshot.syntax.ast import Call, Comparison, Constant, Not, Term, Test, Variable

Binding = dict[str, Any]

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class _Unknown:
    """No value is known, or there is none."""


UNKNOWN = _Unknown()


def determined(literals: Sequence[Literal], binding: Binding, types: Mapping[str, Type]) -> Binding | None:
    """The binding with all values that equations give; None if a literal is false."""
    # Whatever goes through many values comes by here.
    check_time()
    known = dict(binding)
    left, moved = list(literals), True
    while moved:
        moved = False
        for literal in list(left):
            if all(name in known for name in variables(literal)):
                if not holds(literal, known, types):
                    return None
                left.remove(literal)
                moved = True
            elif isinstance(literal, Comparison) and literal.op == "=" and _solve(literal, known, types):
                moved = True
            elif isinstance(literal, Test) and literal.name == "is_null" and isinstance(literal.args[0], Variable):
                known[literal.args[0].name] = None
                moved = True
    return known


def holds(literal: Literal, binding: Mapping[str, Any], types: Mapping[str, Type]) -> bool:
    """Whether a built-in holds for values of all its variables."""
    match literal:
        case Comparison(op, left, right):
            first, second = value_of(left, binding, types), value_of(right, binding, types)
            if first is None or second is None or first is UNKNOWN or second is UNKNOWN:
                return False
            if first != first or second != second:
                return op in ("=", "<=", ">=") if first != first and second != second else op == "!="
            return _ORDER[op](first, second)
        case Test(name, args):
            return _test(name, [value_of(arg, binding, types) for arg in args]) is True
        case Not(Test() as test):
            values = [value_of(arg, binding, types) for arg in test.args]
            return (test.name == "is_null" or None not in values) and _test(test.name, values) is False
        case _:
            raise AssertionError(f"{literal} is no built-in")


def _test(name: str, values: list[Any]) -> bool | None:
    """Whether the test holds; None if it cannot be made: then the rule is an error for these values."""
    match name, values:
        case "is_null", [value]:
            return value is None
        case "true", []:
            return True
        case "false", []:
            return False
        case _, _ if None in values:
            return False
        case "contains", [needle, text]:
            return needle in text
        case "match", [pattern, text]:
            try:
                return compiled(pattern).matches(text)
            except DataError:
                return None
        case _:
            raise AssertionError(f"no test {name} of {len(values)} values")


def value_of(term: Term, binding: Mapping[str, Any], types: Mapping[str, Type]) -> Any:
    """What a term comes to; `UNKNOWN` if a variable has no value or the term has none."""
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
            constants = tuple(Constant(v, term_type(arg, types)) for v, arg in zip(values, args, strict=True))
            made = evaluate(Call(function, constants), term_type(term, types), Findings())
            return UNKNOWN if made is None else made.value
        case _:
            return UNKNOWN


def _solve(equation: Comparison, known: Binding, types: Mapping[str, Type]) -> bool:
    """Whether the equation gives its only unknown variable a value, which is entered."""
    for unknown, other in ((equation.left, equation.right), (equation.right, equation.left)):
        value = value_of(other, known, types)
        if value is UNKNOWN or value is None:
            continue
        match unknown:
            case Variable(name) if name not in known:
                known[name] = value
                return True
            case Call(function, args):
                open_ = [place for place, arg in enumerate(args) if isinstance(arg, Variable) and arg.name not in known]
                if len(open_) == 1 and term_type(unknown, types).kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL):
                    found = _inverse(function, [value_of(arg, known, types) for arg in args], open_[0], value)
                    variable = args[open_[0]]
                    if found is not UNKNOWN and isinstance(variable, Variable):
                        known[variable.name] = found
                        return True
            case _:
                pass
    return False


def _inverse(function: str, args: list[Any], place: int, value: Any) -> Any:
    """The argument that makes a sum, a difference or a product this value, if there is just one."""
    match function, args, place:
        case "neg", [_], 0:
            return -value
        case "+", [_, other], 0:
            return value - other
        case "+", [other, _], 1:
            return value - other
        case "-", [_, other], 0:
            return value + other
        case "-", [other, _], 1:
            return other - value
        case "*", [first, second], _:
            other = second if place == 0 else first
            exact = isinstance(other, int) and isinstance(value, int) and other and value % other == 0
            return value // other if exact else UNKNOWN
        case _:
            return UNKNOWN
