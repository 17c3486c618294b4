"""Build formulas in a normal form, so that printing and parsing preserves them: flat, without `true` and `false`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from upshot.check.names.variables import occurrences
from upshot.syntax.ast import And, Atom, Call, Constant, Formula, Not, Or, Term, Test, Variable, Wildcard
from upshot.syntax.rebuild import rebuilt

TRUE = Test("true", ())
FALSE = Test("false", ())


def conjunction(parts: Iterable[Formula]) -> Formula:
    """The conjunction of the parts, each once."""
    flat: list[Formula] = []
    for part in parts:
        for each in part.parts if isinstance(part, And) else (part,):
            if each == FALSE:
                return FALSE
            if each != TRUE and each not in flat:
                flat.append(each)
    return TRUE if not flat else flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: Iterable[Formula]) -> Formula:
    """The disjunction of the parts, each once."""
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
    """The parts of a conjunction; none for `true`."""
    if formula == TRUE:
        return ()
    return formula.parts if isinstance(formula, And) else (formula,)


def without_idle_names(head: Sequence[Term], parts: Sequence[Formula]) -> tuple[Formula, ...]:
    """The parts with `_` in place of each variable that occurs only once, as an argument of an atom."""
    counts = Counter(v.name for node in (*head, *parts) for v in occurrences(node))

    def visit(node: Any) -> Any:
        if not isinstance(node, Atom):
            return node
        idle = (isinstance(term, Variable) and counts[term.name] == 1 for term in node.args)
        args = (Wildcard(span=term.span) if once else term for term, once in zip(node.args, idle, strict=True))
        return replace(node, args=tuple(args))

    return rebuilt(tuple(parts), visit)


def bound_names(parts: Iterable[Formula]) -> set[str]:
    """The variables that are arguments of a positive atom among the parts, or in a conjunction among them."""
    atoms = (each for part in parts for each in (part.parts if isinstance(part, And) else (part,)))
    return {term.name for atom in atoms if isinstance(atom, Atom) for term in atom.args if isinstance(term, Variable)}
