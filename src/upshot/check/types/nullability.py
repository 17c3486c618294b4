"""Nullability: the variables that can be NULL, and the cases of negated comparisons.

A comparison with NULL is false, so `!(X < Y)` holds if `X >= Y`, and also if X or Y is NULL. If neither can be NULL,
the opposite comparison replaces a negated one; otherwise the clause is split into one clause for each case, with
`is_null` tests for the NULL cases.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from upshot.check.clause.clause_form import Conjunction, RawLiteral
from upshot.check.names.variables import occurrences
from upshot.core.schema import Schema
from upshot.syntax.ast import Aggregate, Atom, Comparison, Constant, Formula, Not, Term, Test, Variable, subterms
from upshot.values.conditions import OPPOSITE


def nullable_variables(
    body: Conjunction, schemas: Mapping[str, Schema], visible: Collection[str] = (), outside: Collection[str] = ()
) -> set[str]:
    """The variables of `body` that can be NULL.

    NULL joins and compares with nothing: a variable of two positive literals, of a comparison or test, of a required
    column, or under `!is_null(…)` is never NULL. For the body of an aggregate, `visible` are the
    variables of the clause around it and `outside` those of them that can be NULL.
    """
    places: dict[str, int] = {}
    guarded: set[str] = set()
    for literal in body:
        if isinstance(literal, Atom):
            _atom(literal, schemas, places, guarded)
        else:
            guarded.update(required_names(literal))
    candidates = {n for n, count in places.items() if count == 1 and n not in visible}
    candidates.update(n for n in outside if n not in places)
    return candidates - guarded


def _atom(atom: Atom, schemas: Mapping[str, Schema], places: dict[str, int], guarded: set[str]) -> None:
    schema = schemas.get(atom.relation)
    direct: set[str] = set()
    for position, term in enumerate(atom.args):
        if not isinstance(term, Variable):
            guarded.update(v.name for v in occurrences(term))
            continue
        direct.add(term.name)
        if schema is not None and position < schema.arity and not schema.columns[position].type.nullable:
            guarded.add(term.name)
    for name in direct:
        places[name] = places.get(name, 0) + 1


def required_names(literal: Formula) -> set[str]:
    """The variables that are not NULL whenever a comparison or test holds."""
    match literal:
        case Comparison():
            sides = (t for t in (literal.left, literal.right) if not isinstance(t, Aggregate))
            return {v.name for t in sides for v in occurrences(t)}
        case Test(name=name) if name != "is_null":
            return {v.name for v in occurrences(literal)}
        case Not(body=Test(name="is_null")):
            return {v.name for v in occurrences(literal)}
        case _:
            return set()


def can_be_null(term: Term, nullable: Collection[str]) -> bool:
    """Test whether a term can be NULL: a function of NULL is NULL."""
    return any(
        (isinstance(t, Variable) and t.name in nullable) or (isinstance(t, Constant) and t.value is None)
        for t in subterms(term)
    )


def known_null(body: Conjunction) -> set[str]:
    """The variables that are NULL in every solution, by a literal `is_null(X)`."""
    return {
        argument.name
        for literal in body
        if isinstance(literal, Test) and literal.name == "is_null"
        for argument in literal.args
        if isinstance(argument, Variable)
    }


def null_cases(negated: Not, nullable: Collection[str], null: Collection[str]) -> list[Conjunction]:
    """The cases in which a negated comparison holds; only one if no operand can be NULL.

    It always holds if an operand is NULL anyway (see `known_null`).
    """
    comparison = negated.body
    assert isinstance(comparison, Comparison)
    sides = (comparison.left, comparison.right)
    if any(isinstance(t, Variable) and t.name in null for side in sides for t in subterms(side)):
        return [()]
    opposite = Comparison(OPPOSITE[comparison.op], *sides, span=comparison.span)
    return [(opposite,), *((Test("is_null", (t,), span=comparison.span),) for t in sides if can_be_null(t, nullable))]


def is_negated_comparison(literal: RawLiteral) -> bool:
    return isinstance(literal, Not) and isinstance(literal.body, Comparison)
