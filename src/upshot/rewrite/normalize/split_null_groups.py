"""An aggregate that uses an outer variable which may be NULL: NULL and the other values get a clause each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from upshot.check.names.variables import variables
from upshot.check.program import Clause, Literal
from upshot.check.types.nullability import nullable_variables
from upshot.core.schema import Schema
from upshot.core.types import Type
from upshot.rewrite.normalize.occurrences import injected, substitute, substitute_in, visible
from upshot.rewrite.normalize.term_type import zero
from upshot.rewrite.shapes import aggregates, disjuncts
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Constant, Not, Or, Term, Test, Variable, subterms
from upshot.values.aggregates import AGGREGATES


def split_null_groups(clause: Clause, schemas: Mapping[str, Schema]) -> tuple[Clause, ...]:
    """The clause, or clauses that mean the same, in which no aggregate can have solutions for a NULL outer value.

    Groups are found by a join, and NULL joins with nothing. That is right for `count : { r(X, Y) }`, which has no
    solution if X is NULL, and wrong for `count : { r(Y), !s(X, Y) }`, which then counts every Y.
    """
    done: list[Clause] = []
    todo = [clause]
    while todo:
        current = todo.pop()
        name = _open_to_null(current, schemas)
        if name is None:
            done.append(current)
        else:
            todo += reversed(_split(current, name))
    return tuple(done)


def _open_to_null(clause: Clause, schemas: Mapping[str, Schema]) -> str | None:
    """A variable that may be NULL outside while the body of an aggregate that uses it still has solutions."""
    found = aggregates(clause)
    places = {position for position, _, _ in found}
    plain = tuple(literal for i, literal in enumerate(clause.body) if i not in places)
    nullable = nullable_variables(plain, schemas, ())
    outside = visible(clause.head, clause.body)
    for _, _, aggregate in found:
        bodies = disjuncts(aggregate.body)
        for name in injected(aggregate, outside):
            if name in nullable and not all(_rejects_null(body, name) for body in bodies):
                return name
    return None


def _rejects_null(literals: Iterable[Literal], name: str) -> bool:
    """Test whether the conjunction is false where the variable, bound outside, is NULL."""
    for literal in literals:
        match literal:
            case Test("is_null"):
                continue
            case Atom() | Test() | Comparison() | Not(Test("is_null")):
                if name in variables(literal, inside_aggregates=False):
                    return True
    return False


def _split(clause: Clause, name: str) -> list[Clause]:
    """The clause where the variable is not NULL, and where it is."""
    test = Test("is_null", (Variable(name),))
    given = replace(clause, body=(*clause.body, Not(test)), types={**clause.types, name: clause.types[name].required()})
    body: list[Literal] = []
    for literal in clause.body:
        changed = _for_null(literal, name, clause.types)
        if changed is None:
            return [given]
        body.append(changed)
    return [given, replace(clause, body=(*body, test))]


def _for_null(literal: Literal, name: str, types: Mapping[str, Type]) -> Literal | None:
    """The literal with NULL for the variable inside its aggregate; None if the aggregate then has no value."""
    match literal:
        case Comparison("=", Variable(value), Aggregate(function, target, formula) as aggregate):
            null = Constant(None, types[name])

            def change(variable: Variable) -> Term:
                return null if variable.name == name else variable

            bodies = disjuncts(substitute_in(formula, change))
            simple = [_simplified(body) for body in bodies]
            goal = None if target is None else substitute(target, change)
            if any(body is not None for body in simple) and (goal is None or not _is_null(goal)):
                # An alternative that is false stays: its variables decide which of the others' are counted.
                left = [And(whole if body is None else body) for body, whole in zip(simple, bodies, strict=True)]
                made = left[0] if len(left) == 1 else Or(tuple(left))
                return replace(literal, right=Aggregate(function, goal, made, span=aggregate.span))
            return replace(literal, right=zero(types[value])) if AGGREGATES[function].of_nothing else None
        case _:
            return literal


def _simplified(literals: Iterable[Literal]) -> tuple[Literal, ...] | None:
    """The literals that NULL leaves open, or None if it makes one of them false."""
    kept = []
    for literal in literals:
        known = _truth(literal)
        if known is False:
            return None
        if known is None:
            kept.append(literal)
    return tuple(kept)


def _truth(literal: Literal) -> bool | None:
    """Test whether a literal holds because a term of it is NULL; None if no term is."""
    match literal:
        case Test("is_null", (argument,)):
            return True if _is_null(argument) else None
        case Atom(_, args) | Test(_, args):
            return False if any(map(_is_null, args)) else None
        case Comparison(_, left, right):
            return False if _is_null(left) or _is_null(right) else None
        case Not(Atom() | Test() as body):
            known = _truth(body)
            return None if known is None else not known
        case _:
            return None


def _is_null(term: Term) -> bool:
    """Test whether the term is NULL whatever its variables are: functors on NULL give NULL."""
    if not isinstance(term, Call | Constant):
        return False
    return any(isinstance(each, Constant) and each.value is None for each in subterms(term))
