"""What terms come to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from upshot.check.findings import Findings
from upshot.check.types.ground import evaluate
from upshot.core.types import Type
from upshot.rewrite.normalize.term_type import term_type
from upshot.syntax.ast import Call, Constant, Term, Variable
from upshot.values import inverses

UNKNOWN = inverses.UNKNOWN


def are_same(one: Any, other: Any) -> bool:
    """Whether two values are equal in programs, where NaN equals itself."""
    return bool(one == other or (one != one and other != other))


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
            given = tuple(term_type(arg, types) for arg in args)
            return _computed(function, tuple(values), given, term_type(term, types))
        case _:
            return UNKNOWN


@lru_cache(maxsize=20_000)
def _computed(function: str, values: tuple[Any, ...], types: tuple[Type, ...], type: Type) -> Any:
    constants = tuple(Constant(value, each) for value, each in zip(values, types, strict=True))
    made = evaluate(Call(function, constants), type, Findings())
    return UNKNOWN if made is None else made.value
