"""For which values of a variable a term comes to a given value: all of them where they are few, else some.

`Y = X * X` has two answers for 9 and none for 8; `Y = X % 3` has endlessly many for 1, of which some are made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upshot.check.names.variables import variables
from upshot.core.types import Type
from upshot.revise.term_values import value_of
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Call, Term, Variable
from upshot.values.functions import FUNCTIONS
from upshot.values.inverses import NONE, SOME, Image, Roots


def roots(
    term: Term, value: Any, name: str, known: Mapping[str, Any], types: Mapping[str, Type], number: int = 1
) -> Roots:
    """The values of the variable for which the term comes to this value. For each `number` others are made up."""
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
