"""Rows, literals and rules as text, in the notation of programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upshot.check.names.variables import fold
from upshot.check.printing import print_clause
from upshot.check.program import CheckedProgram, Clause
from upshot.core.schema import Role
from upshot.core.types import Type
from upshot.reasons.concrete import Row
from upshot.reasons.derivation import RuleText
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Constant, Formula, Not, Or, Term, Test, Variable
from upshot.syntax.printing import print_atom, print_formula

_COMMENT = re.compile(r"//|/\*")

GIVEN = RuleText("given as a fact")


def row_text(program: CheckedProgram, relation: str, row: Row) -> str:
    """`closure(1, 3)`"""
    columns = program.schemas[relation].columns
    args = tuple(Constant(value, column.type) for value, column in zip(row, columns, strict=True))
    return print_atom(Atom(shown_name(program, relation), args))


def shown_name(program: CheckedProgram, relation: str) -> str:
    """The name that users know: the view for its facts, the rule for the view of its condition."""
    if relation in program.hidden:
        for rule in program.rules:
            if any(table.name == relation for table in rule.bindings):
                return f"active_{rule.name}"
        return next((rule.name for rule in program.rules if rule.becomes == relation), relation)
    return next((view for view, hidden in program.input_part.items() if hidden == relation), relation)


def literal_text(literal: Formula, values: Mapping[str, Any], types: Mapping[str, Type]) -> str:
    return print_formula(substituted(literal, values, types))


def substituted(formula: Formula, values: Mapping[str, Any], types: Mapping[str, Type]) -> Formula:
    """The formula with constants for the variables that have values, also inside aggregates."""

    def term(node: Term) -> Term:
        return fold(node, lambda each, parts: made(each, parts))

    def made(each: Term, parts: tuple[Term, ...]) -> Term:
        match each:
            case Variable(name) if name in values:
                return Constant(values[name], types.get(name))
            case Call():
                return replace(each, args=parts)
            case Aggregate(function, target, body):
                return Aggregate(function, None if target is None else term(target), substituted(body, values, types))
            case _:
                return each

    match formula:
        case Atom(_, args) | Test(_, args):
            return replace(formula, args=tuple(map(term, args)))
        case Comparison(op, left, right):
            return Comparison(op, term(left), term(right))
        case Not(body):
            return Not(substituted(body, values, types))
        case And(parts) | Or(parts):
            return replace(formula, parts=tuple(substituted(part, values, types) for part in parts))


def absence_text(literal: Not, values: Mapping[str, Any], types: Mapping[str, Type]) -> str:
    """`no row matches edge(3, _)`"""
    return f"no row matches {literal_text(literal.body, values, types)}"


def rule_text(clause: Clause, program: CheckedProgram) -> RuleText:
    """The rule that a clause comes from, on one line."""
    if is_given(clause, program):
        return GIVEN
    origin = clause.origin
    if origin is None:
        return RuleText(_printed(clause, program))
    written = " ".join(origin.text.split())
    if _COMMENT.search(origin.text) or not written:
        written = _printed(clause, program)
    return RuleText(written, f"{origin.source.name}:{origin.line}")


def _printed(clause: Clause, program: CheckedProgram) -> str:
    denied = program.schemas[clause.head.relation].role is Role.CONSTRAINT
    return f"{'.deny ' * denied}{print_clause(clause)}"


def is_given(clause: Clause, program: CheckedProgram) -> bool:
    """Test whether the clause stands for the facts of a view."""
    match clause.body:
        case (Atom(relation),):
            return program.input_part.get(clause.head.relation) == relation
        case _:
            return False
