"""Check values for placeholders against the conditions of a realization."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from upshot.check.names.variables import fold, terms_of, variables
from upshot.check.program import Literal
from upshot.check.types.constants import fit
from upshot.check.types.kinds import is_structure
from upshot.core.errors import DataError, ProgramError
from upshot.core.fact_text import spelled
from upshot.core.types import NUMBER, Kind, Type
from upshot.database.realization import Realization
from upshot.revise.built_ins import UNKNOWN, holds
from upshot.revise.families import of_type
from upshot.revise.ordered_values import number_of
from upshot.syntax import parse_query
from upshot.syntax.ast import Call, Comparison, Constant, Not, Term, Test, Variable, subterms

_PLACES = re.compile(r'"(?:[^"\\]|\\.)*"|\?(\d+)')
_EXACT = (Kind.NUMBER, Kind.UNSIGNED, Kind.DECIMAL)


def require_conditions(realization: Realization, values: Mapping[str, Any]) -> None:
    """`condition-not-met` if values for the placeholders violate a condition of the realization: they may bring about
    the request, but not with the fewest changes. A condition that cannot be tested here, because it has other
    variables, or the value is NULL or of another type, is left to the trial."""
    types = {each.name: each.type for each in realization.placeholders}
    known = {name: value for name, type in types.items() if (value := of_type(values[name], type)) is not UNKNOWN}
    for condition in realization.conditions:
        names = [f"?{number}" for number in _PLACES.findall(condition) if number]
        if known.keys() >= {*names} and _is_met(condition, known, types) is False:
            assignments = [f"`{name} = {spelled(known[name], types[name])}`" for name in dict.fromkeys(names)]
            verb = "does" if len(assignments) == 1 else "do"
            raise DataError(
                f"{' and '.join(assignments)} {verb} not meet the condition `{condition}` of this realization",
                code="condition-not-met",
                help="give a value that meets it, or repeat `db.realize` with this one among the `constants` of "
                "its bounds",
            )


def _is_met(condition: str, values: Mapping[str, Any], types: Mapping[str, Type]) -> bool | None:
    """Test whether values satisfy a condition; None if that is undecided."""
    text = _PLACES.sub(lambda found: f"New{found[1]}" if found[1] else found[0], condition)
    try:
        literal = parse_query(text)
    except ProgramError:
        return None
    if any(is_structure(part) for term in terms_of(literal) for part in subterms(term)):
        return None
    match literal:
        case Comparison() | Test() | Not(body=Test()):
            pass
        case _:
            return None
    used = {name: f"?{name.removeprefix('New')}" for name in variables(literal)}
    of = {name: types[placeholder] for name, placeholder in used.items()}
    binding = {name: values[placeholder] for name, placeholder in used.items()}
    numeric = next((type for type in of.values() if type.kind in (*_EXACT, Kind.FLOAT)), NUMBER)
    if isinstance(literal, Comparison) and numeric.kind in _EXACT:
        sides = _number(literal.left, binding), _number(literal.right, binding)
        if None not in sides:
            left, right = (Constant(each) for each in sides)
            return holds(Comparison(literal.op, left, right), {}, {})
    return holds(_typed(literal, numeric), binding, of)


def _number(term: Term, binding: Mapping[str, Any]) -> Fraction | None:
    """The value of a term of sums and products of numbers; None for any other."""

    def visit(node: Term, parts: tuple[Fraction | None, ...]) -> Fraction | None:
        match node, parts:
            case Constant(float() as value), _:
                return Fraction(str(value))
            case Constant(int() | Decimal() as value), _:
                return number_of(value)
            case Variable(name), _ if isinstance(binding[name], int | Decimal):
                return number_of(binding[name])
            case Call("neg"), [Fraction() as one]:
                return -one
            case Call("+"), [Fraction() as one, Fraction() as other]:
                return one + other
            case Call("-"), [Fraction() as one, Fraction() as other]:
                return one - other
            case Call("*"), [Fraction() as one, Fraction() as other]:
                return one * other
            case _:
                return None

    return fold(term, visit)


def _typed(literal: Literal, numeric: Type) -> Literal:
    """The literal with a type for every number in it."""

    def visit(node: Term, parts: tuple[Term, ...]) -> Term:
        match node:
            case Constant(int() as value, None):
                return Constant(fit(value, numeric)[0], numeric)
            case Call():
                return replace(node, args=parts)
            case _:
                return node

    match literal:
        case Comparison(op, left, right):
            return Comparison(op, fold(left, visit), fold(right, visit))
        case Test(name, args):
            return Test(name, tuple(fold(each, visit) for each in args))
        case _:
            return literal
