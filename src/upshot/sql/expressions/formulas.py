"""Formulas put together so that they print and read back the same: flat, without constants that decide nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from upshot.check.names.variables import occurrences
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Not,
    Or,
    Term,
    Test,
    Variable,
    Wildcard,
)

TRUE = Test("true", ())
FALSE = Test("false", ())
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conjunction(parts: Iterable[Formula]) -> Formula:
    """All of them, each once."""
    flat: list[Formula] = []
    for part in parts:
        for each in part.parts if isinstance(part, And) else (part,):
            if each == FALSE:
                return FALSE
            if each != TRUE and each not in flat:
                flat.append(each)
    return TRUE if not flat else flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Formula]) -> Formula:
    """At least one of them."""
    flat: list[Formula] = []
    for part in parts:
        for each in part.parts if isinstance(part, Or) else (part,):
            if each == TRUE:
                return TRUE
            if each != FALSE and each not in flat:
                flat.append(each)
    return FALSE if not flat else flat[0] if len(flat) == 1 else Or(tuple(flat))


def is_null(term: Term) -> Formula:
    """The formula for the term being NULL: a function is NULL if one of its arguments is."""
    match term:
        case Variable():
            return Test("is_null", (term,))
        case Constant(value):
            return TRUE if value is None else FALSE
        case Call(_, args):
            return disjunction(map(is_null, args))
        case _:
            return FALSE


def is_given(term: Term) -> Formula:
    """The formula for the term not being NULL."""
    match term:
        case Variable():
            return Not(Test("is_null", (term,)))
        case Constant(value):
            return FALSE if value is None else TRUE
        case Call(_, args):
            return conjunction(map(is_given, args))
        case _:
            return TRUE


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    """The parts that all have to hold; none if nothing has to."""
    if formula == TRUE:
        return ()
    return formula.parts if isinstance(formula, And) else (formula,)


def without_idle_names(head: Sequence[Term], parts: Sequence[Formula]) -> tuple[Formula, ...]:
    """The parts with `_` for each variable that stands in one place only, as an argument of an atom."""
    counts = Counter(v.name for node in (*head, *parts) for v in occurrences(node))

    def argument(term: Term) -> Term:
        idle = isinstance(term, Variable) and counts[term.name] == 1
        return Wildcard(span=term.span) if idle else in_term(term, formula)

    def formula(node: Formula) -> Formula:
        if isinstance(node, Atom):
            return replace(node, args=tuple(map(argument, node.args)))
        return in_formula(node, formula)

    return tuple(map(formula, parts))


def in_formula(node: Formula, change: Callable[[Formula], Formula]) -> Formula:
    """The node with its parts changed, and the bodies of its aggregates."""
    match node:
        case And(parts) | Or(parts):
            return replace(node, parts=tuple(map(change, parts)))
        case Not(body):
            return replace(node, body=change(body))
        case Comparison(_, left, right):
            return replace(node, left=in_term(left, change), right=in_term(right, change))
        case Atom(_, args) | Test(_, args):
            return replace(node, args=tuple(in_term(term, change) for term in args))


def in_term(term: Term, change: Callable[[Formula], Formula]) -> Term:
    """The term with the bodies of its aggregates changed."""
    match term:
        case Aggregate():
            return replace(term, body=change(term.body))
        case Call(_, args):
            return replace(term, args=tuple(in_term(each, change) for each in args))
        case _:
            return term


def bound_names(parts: Iterable[Formula]) -> set[str]:
    """The variables that a positive atom among the parts, or in a conjunction among them, has for an argument."""
    atoms = (each for part in parts for each in (part.parts if isinstance(part, And) else (part,)))
    return {term.name for atom in atoms if isinstance(atom, Atom) for term in atom.args if isinstance(term, Variable)}
