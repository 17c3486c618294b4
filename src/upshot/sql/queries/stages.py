"""Compute values with many cases in a view before they are used: then the numbers of rules add up, and do not multiply.

The view has all variables of the SELECT, so that it replaces the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from upshot.core.types import Type
from upshot.sql.expressions.values import Value, plain
from upshot.sql.translation import Branch
from upshot.syntax.ast import And, Atom, Formula, Or, Variable

if TYPE_CHECKING:
    from upshot.sql.queries.block import Block

MOST_RULES = 8
"""The most rules for which a value is inlined into the rules that use it."""


def weight(value: Value) -> int:
    """The number of rules for the cases of a value."""
    return sum(prod(map(_alternatives, case.when)) for case in value.cases)


def _alternatives(formula: Formula) -> int:
    match formula:
        case Or(parts):
            return sum(map(_alternatives, parts))
        case And(parts):
            return prod(map(_alternatives, parts))
        case _:
            return 1


def staged(block: Block, value: Value) -> Value:
    """The value, as a variable of a view if it has many cases and the block can have one."""
    if value.type is None or weight(value) <= MOST_RULES or not _has_place(block, [value]):
        return value
    return _stage(block, value)


def staged_columns(block: Block, values: Sequence[Value]) -> tuple[Value, ...]:
    """The columns of a SELECT; those with most cases are computed in views until few combinations remain."""
    made = list(values)
    while prod(map(weight, made)) > MOST_RULES:
        place = max(range(len(made)), key=lambda at: weight(made[at]))
        value = made[place]
        if value.type is None or weight(value) <= 1 or not _has_place(block, made):
            break
        made[place] = _stage(block, value)
    return tuple(made)


def _has_place(block: Block, values: Sequence[Value]) -> bool:
    """Test whether the block can have a view: it uses no values of outer queries."""
    nodes = Branch(block.parts, tuple(values)).nodes
    return not block.translation.correlated(block.scope, nodes) and bool(block.scope.sources)


def _stage(block: Block, value: Value) -> Value:
    translation = block.translation
    known = _variables(block)
    assert value.type is not None
    result = translation.variable("value")
    names = [translation.variable(variable.name).name for variable, _ in known]
    values = (*(plain(variable, type) for variable, type in known), value)
    types = [*(type for _, type in known), value.type]
    relation = translation.view("step", [*names, result.name], types, [Branch(block.parts, values)])
    block.stage = Atom(relation, (*(variable for variable, _ in known), result), span=translation.statement.span)
    block.conditions = []
    block.computed.append((result, value.type))
    return plain(result, value.type)


def _variables(block: Block) -> list[tuple[Variable, Type]]:
    """All variables that expressions of the block can use."""
    found: dict[str, tuple[Variable, Type]] = {}
    every = [each for source in block.scope.sources for each in source.identity()]
    for value in (block.groups or {}).values():
        if isinstance(value.term, Variable) and value.type is not None:
            every.append((Variable(value.term.name), value.type))
    for variable, type in (*every, *block.computed):
        found.setdefault(variable.name, (variable, type))
    return list(found.values())
