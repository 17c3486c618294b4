"""The types of the terms that rewritings make."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import assert_never

from upshot.check.names.variables import fold
from upshot.check.program import Clause
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.syntax.ast import Aggregate, Call, Constant, Parameter, Term, Variable, Wildcard
from upshot.values.aggregates import AGGREGATES
from upshot.values.functions import FUNCTIONS


def term_type(term: Term, types: Mapping[str, Type]) -> Type:
    """The type of a term; nullable if one of its arguments is."""

    def visit(node: Term, parts: tuple[Type, ...]) -> Type:
        match node:
            case Variable(name):
                return types[name]
            case Constant(value, type) if type is not None:
                return type.optional() if value is None else type
            case Call(function):
                made = FUNCTIONS[function].result(parts)
                return made.optional() if any(part.nullable for part in parts) else made
            case Aggregate(function, target, _):
                return AGGREGATES[function].result(None if target is None else term_type(target, types))
            case Constant() | Wildcard() | Parameter():
                raise AssertionError(f"check leaves no untyped term: {node}")
            case _:
                assert_never(node)

    return fold(term, visit)


def too_long_columns(clause: Clause, schema: Schema) -> tuple[int, ...]:
    """The columns for which the clause may derive a decimal with more digits than they declare; `schema` is that of
    its head."""
    places = enumerate(zip(clause.head.args, schema.types, strict=True))
    return tuple(place for place, (term, type) in places if term_type(term, clause.types).exceeds(type))


def zero(type: Type) -> Constant:
    """The value of `sum` over nothing, in its type."""
    value: object
    match type.kind:
        case Kind.FLOAT:
            value = 0.0
        case Kind.DECIMAL:
            value = Decimal(0).scaleb(-type.scale)
        case _:
            value = 0
    return Constant(value, type.required())
